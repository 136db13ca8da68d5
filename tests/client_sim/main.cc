// pulsewheel-sim: see options.h for what it can be told, and run.h for what it does.
#include <exception>
#include <iostream>
#include <optional>

#include "tests/client_sim/connection.h"
#include "tests/client_sim/options.h"
#include "tests/client_sim/run.h"

namespace {

int fail(const std::exception& error, int exit_code) {
  std::cerr << "pulsewheel-sim: " << error.what() << '\n';
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  namespace sim = pulsewheel::sim;
  try {
    const std::optional<sim::Options> options = sim::parse_options(argc, argv);
    return options ? sim::run(*options) : sim::kExitFine;
  } catch (const sim::UsageError& error) {
    return fail(error, sim::kExitUsage);
  } catch (const sim::Unavailable& error) {
    return fail(error, sim::kExitUnavailable);
  } catch (const std::exception& error) {
    return fail(error, sim::kExitSystem);
  }
}

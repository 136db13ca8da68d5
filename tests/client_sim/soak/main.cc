// pulsewheel-soak: see soak_options.h for what it can be told, and soak.h for what it does.
#include <exception>
#include <iostream>
#include <optional>

#include "tests/client_sim/connection.h"
#include "tests/client_sim/soak/soak.h"

namespace {

int fail(const std::exception& error, int exit_code) {
  std::cerr << "pulsewheel-soak: " << error.what() << '\n';
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  namespace sim = pulsewheel::sim;
  try {
    const std::optional<sim::SoakOptions> options = sim::parse_soak_options(argc, argv);
    return options ? sim::soak(*options) : sim::kExitFine;
  } catch (const sim::UsageError& error) {
    return fail(error, sim::kExitUsage);
  } catch (const sim::Unavailable& error) {
    return fail(error, sim::kExitUnavailable);
  } catch (const std::exception& error) {
    return fail(error, sim::kExitSystem);
  }
}

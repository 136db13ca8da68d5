// pulsewheel-sim: see options.h for what it can be told, and run.h for what it does.
#include <optional>

#include "daemon/base/standard_streams.h"
#include "tests/client_sim/options.h"
#include "tests/client_sim/program.h"
#include "tests/client_sim/run.h"

int main(int argc, char** argv) {
  pulsewheel::occupy_closed_standard_streams();
  namespace sim = pulsewheel::sim;
  return sim::run_program("pulsewheel-sim", [&] {
    const std::optional<sim::Options> options = sim::parse_options(argc, argv);
    return options ? sim::run(*options) : sim::kExitFine;
  });
}

// pulsewheel-soak: see soak_options.h for what it can be told, and soak.h for what it does.
#include <optional>

#include "tests/client_sim/program.h"
#include "tests/client_sim/soak/soak.h"

int main(int argc, char** argv) {
  namespace sim = pulsewheel::sim;
  return sim::run_program("pulsewheel-soak", [&] {
    const std::optional<sim::SoakOptions> options = sim::parse_soak_options(argc, argv);
    return options ? sim::soak(*options) : sim::kExitFine;
  });
}

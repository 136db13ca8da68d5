// One run of the simulator: daemon, clients, judge, report.
#pragma once

#include "tests/client_sim/options.h"

namespace pulsewheel::sim {

/// Returns the exit code. Throws UsageError, Unavailable, and std::system_error for what the
/// operating system refuses.
[[nodiscard]] int run(const Options& options);

}  // namespace pulsewheel::sim

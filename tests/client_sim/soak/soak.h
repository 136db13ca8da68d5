// A whole soak: daemon, rehearsal, base line, clients and faults, and the comparison at the end.
#pragma once

#include "tests/client_sim/soak/soak_options.h"

namespace pulsewheel::sim {

/// Returns the exit code. Ends by itself: every wait in it has a limit. Throws UsageError,
/// Unavailable, and std::system_error for what the operating system refuses.
[[nodiscard]] int soak(const SoakOptions& options);

}  // namespace pulsewheel::sim

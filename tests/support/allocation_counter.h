// Counts what a test allocates. Link allocation_counter.cc into the test executable: it replaces
// the global operator new.
#pragma once

#include <cstdint>

namespace pulsewheel::support {

/// How often any operator new has run on this thread.
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace pulsewheel::support

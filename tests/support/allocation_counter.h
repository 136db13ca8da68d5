// Counts what a test allocates, and lets allocations fail. Link allocation_counter.cc into the
// test executable: it replaces the global operator new.
#pragma once

#include <cstdint>
#include <limits>

namespace pulsewheel::support {

/// How often any operator new has run on this thread.
[[nodiscard]] std::uint64_t allocations() noexcept;

/// The memory that the heap has given out by operator new on this thread and not got back on it,
/// with glibc's rounding and its 8 bytes a block. Under a sanitizer, which has a heap of its own,
/// without the rounding.
[[nodiscard]] std::int64_t heap_bytes() noexcept;

/// While it lives, operator new on this thread succeeds `successes` times, then throws
/// std::bad_alloc `failures` times, then succeeds. One at a time.
class FailingAllocations {
 public:
  static constexpr std::uint64_t kAllThatFollow = std::numeric_limits<std::uint64_t>::max();

  explicit FailingAllocations(std::uint64_t successes,
                              std::uint64_t failures = kAllThatFollow) noexcept;
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// Whether any allocation has failed so far.
  [[nodiscard]] bool has_failed_any() const noexcept;
};

}  // namespace pulsewheel::support

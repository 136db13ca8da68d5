// eventually(): waits for another thread's work without guessing how long it takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace pulsewheel::test {

/// A longer time between two looks at a predicate counts as this much: the whole machine stood
/// still, and whoever is waited for with it.
inline constexpr std::chrono::seconds kLookMax{1};

/// Yields until `predicate` holds; false when it still does not after a limit that only a hang or
/// a lost wake-up reaches.
template <class Predicate>
[[nodiscard]] bool eventually(Predicate predicate,
                              std::chrono::steady_clock::duration limit = std::chrono::seconds{
                                  60}) {
  using Clock = std::chrono::steady_clock;
  for (auto looked = Clock::now(); !predicate();) {
    const auto now = Clock::now();
    limit -= std::min<Clock::duration>(now - looked, kLookMax);
    if (limit <= Clock::duration::zero()) return false;
    looked = now;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace pulsewheel::test

// eventually(): waits for another thread's work without guessing how long it takes.
#pragma once

#include <chrono>
#include <thread>

namespace pulsewheel::test {

/// Yields until `predicate` holds; false when it still does not after a limit that only a hang or
/// a lost wake-up reaches.
template <class Predicate>
[[nodiscard]] bool eventually(Predicate predicate,
                              std::chrono::steady_clock::duration limit = std::chrono::seconds{
                                  60}) {
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace pulsewheel::test

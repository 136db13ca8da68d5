// Runs an event loop on the test's own thread until something is so.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>

#include "daemon/base/time.h"

namespace pulsewheel::test {

/// False when `done` does not come true within a time that only a hang takes, or when the loop has
/// nothing left to run.
template <class Predicate>
[[nodiscard]] bool run_until(boost::asio::io_context& io, Predicate done) {
  const MonoTime give_up = MonoClock::now() + std::chrono::seconds{60};
  while (!done()) {
    if (io.run_one_until(give_up) == 0) return false;
  }
  return true;
}

}  // namespace pulsewheel::test

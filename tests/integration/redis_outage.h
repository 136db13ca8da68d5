// What can happen to the Redis behind a mirror, timed.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace pulsewheel::test {

/// What can happen to a Redis.
enum class Outage { kKilled, kPaused, kFlushed, kPasswordChanged };

struct OutageScale {
  std::size_t users;
  std::size_t changing;  // who log out, and in, while Redis is away
  std::chrono::seconds timeout;
  std::chrono::seconds away;  // killed, paused, or with another password
  std::string settings;       // see MirroredCrowd::Options
};

/// Fails the test unless the ring is equal to memory within 10 s of the end of the outage, and
/// stays so for a timeout, and no edge comes of it all.
void check_outage(Outage outage, const OutageScale& scale);

}  // namespace pulsewheel::test

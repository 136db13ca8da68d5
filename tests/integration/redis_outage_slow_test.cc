// A Redis that is away for 20 s, under 10,000 users.
#include <gtest/gtest.h>

#include "tests/integration/redis_outage.h"

namespace pulsewheel::test {
namespace {

using std::chrono::seconds;

OutageScale long_time() {
  return {.users = 10'000,
          .changing = 200,
          .timeout = seconds{30},
          .away = seconds{20},
          .settings = {}};
}

TEST(RedisOutageSlowTest, KilledAndStartedEmptyTwentySecondsLater) {
  check_outage(Outage::kKilled, long_time());
}

TEST(RedisOutageSlowTest, PausedForTwentySeconds) {
  check_outage(Outage::kPaused, long_time());
}

TEST(RedisOutageSlowTest, Flushed) {
  check_outage(Outage::kFlushed, long_time());
}

TEST(RedisOutageSlowTest, AnotherPasswordForTwentySeconds) {
  check_outage(Outage::kPasswordChanged, long_time());
}

}  // namespace
}  // namespace pulsewheel::test

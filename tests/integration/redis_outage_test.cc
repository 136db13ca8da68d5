// A Redis that goes away for a moment: the ring is equal to memory again, and no edge comes of it.
#include "tests/integration/redis_outage.h"

#include <gtest/gtest.h>

namespace pulsewheel::test {
namespace {

using std::chrono::seconds;

OutageScale moment() {
  return {.users = 300,
          .changing = 20,
          .timeout = seconds{5},
          .away = seconds{3},
          .settings = "command_timeout = \"1s\"\n"};
}

TEST(RedisOutageTest, ARedisThatWasKilledIsFilledAgain) {
  check_outage(Outage::kKilled, moment());
}

TEST(RedisOutageTest, ARedisThatHungIsMadeEqual) {
  check_outage(Outage::kPaused, moment());
}

TEST(RedisOutageTest, ARedisThatWasFlushedIsFilledAgain) {
  check_outage(Outage::kFlushed, moment());
}

TEST(RedisOutageTest, ANewPasswordWorksAfterAReload) {
  check_outage(Outage::kPasswordChanged, moment());
}

}  // namespace
}  // namespace pulsewheel::test

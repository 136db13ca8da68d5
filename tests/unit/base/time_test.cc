#include "daemon/base/time.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WallClockMappingTest, MapsNowToNow) {
  const WallTime before = std::chrono::system_clock::now();
  const WallClockMapping mapping;
  const WallTime mapped = mapping.to_wall(MonoClock::now());
  const WallTime after = std::chrono::system_clock::now();
  // A millisecond for clocks that are disciplined at different rates.
  EXPECT_GE(mapped, before - milliseconds{1});
  EXPECT_LE(mapped, after + milliseconds{1});
}

TEST(WallClockMappingTest, KeepsDistances) {
  const WallClockMapping mapping;
  const MonoTime time = MonoClock::now();
  EXPECT_EQ(mapping.to_wall(time) - mapping.to_wall(time - seconds{30}), seconds{30});
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/events/snapshot_clock.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

BootId boot(int number) {
  BootId id{};
  id.fill(std::byte{static_cast<unsigned char>(number)});
  return id;
}

ClockSample sample(BootId boot_id, Duration since_boot, Duration wall) {
  return {.mono = MonoTime{since_boot},
          .boot = since_boot,
          .wall = WallTime{std::chrono::duration_cast<WallTime::duration>(wall)},
          .boot_id = boot_id};
}

TEST(SnapshotClockTest, InOneBootTheWallClockMayJump) {
  for (const Duration jump : {Duration{hours{-24}}, Duration{0}, Duration{hours{24 * 365}}}) {
    EXPECT_EQ(time_between(sample(boot(1), hours{10}, hours{1'000}),
                           sample(boot(1), hours{10} + seconds{5}, hours{1'000} + jump)),
              seconds{5});
  }
}

TEST(SnapshotClockTest, AcrossBootsTheWallClockCounts) {
  EXPECT_EQ(time_between(sample(boot(1), hours{10}, hours{1'000}),
                         sample(boot(2), minutes{1}, hours{1'000} + minutes{3})),
            minutes{3});
}

TEST(SnapshotClockTest, AcrossBootsItIsNeverLessThanTheTimeSinceTheBoot) {
  EXPECT_EQ(time_between(sample(boot(1), hours{10}, hours{1'000}),
                         sample(boot(2), minutes{4}, hours{900})),
            minutes{4});
}

TEST(SnapshotClockTest, WithoutAKnownBootTheWallClockCountsAndIsNeverNegative) {
  EXPECT_EQ(time_between(sample({}, hours{10}, hours{1'000}),
                         sample({}, hours{11}, hours{1'000} + seconds{7})),
            seconds{7});
  EXPECT_EQ(
      time_between(sample(boot(1), hours{10}, hours{1'000}), sample({}, hours{11}, hours{999})),
      seconds{0});
}

TEST(SnapshotClockTest, AClockThatWasNeverSetIsNoAge) {
  EXPECT_EQ(time_between(sample(boot(1), hours{10}, hours{0}),
                         sample(boot(2), minutes{4}, hours{24 * 365 * 90})),
            kAwayMax);
}

TEST(SnapshotClockTest, ASampleKnowsItsBootWhereTheKernelTells) {
  const ClockSample first = ClockSample::take();
  const ClockSample second = ClockSample::take();
  EXPECT_EQ(first.boot_id, second.boot_id);
  EXPECT_GT(first.boot, Duration{0});
  EXPECT_GE(time_between(first, second), Duration{0});
  EXPECT_LT(time_between(first, second), minutes{1});
}

}  // namespace
}  // namespace pulsewheel

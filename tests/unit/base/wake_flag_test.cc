#include "daemon/base/wake_flag.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;

TEST(WakeFlagTest, RaiseBeforeWaitIsNotLost) {
  WakeFlag flag;
  flag.raise();
  flag.wait();  // hangs if lost
  SUCCEED();
}

TEST(WakeFlagTest, RaisingTwiceCountsOnce) {
  WakeFlag flag;
  flag.raise();
  flag.raise();
  EXPECT_TRUE(flag.wait_until(MonoClock::now()));
  EXPECT_FALSE(flag.wait_until(MonoClock::now()));
}

TEST(WakeFlagTest, WaitUntilReturnsNotBeforeTheDeadline) {
  WakeFlag flag;
  const MonoTime deadline = MonoClock::now() + milliseconds{20};
  EXPECT_FALSE(flag.wait_until(deadline));
  EXPECT_GE(MonoClock::now(), deadline);
}

TEST(WakeFlagTest, RaiseEndsALongWait) {
  WakeFlag flag;
  std::thread raiser([&flag] { flag.raise(); });
  EXPECT_TRUE(flag.wait_until(MonoClock::now() + std::chrono::minutes{10}));
  raiser.join();
}

/// Each side sleeps until the other has moved on: one lost wake-up and both sleep for ever.
TEST(WakeFlagTest, NoWakeUpIsLostInALongPingPong) {
  constexpr int kRounds = 20'000;
  WakeFlag ping;
  WakeFlag pong;
  int ball = 0;  // plain: the flags order the accesses, or the thread sanitizer says so
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.wait();
      ++ball;
      pong.raise();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ++ball;
    ping.raise();
    pong.wait();
  }
  other.join();
  EXPECT_EQ(ball, 2 * kRounds);
}

TEST(WakeFlagTest, OwnerSeesWhatEveryRaiserWrote) {
  constexpr int kRaisers = 4;
  constexpr int kTimes = 5'000;
  WakeFlag flag;
  std::atomic<int> sum{0};
  std::vector<std::thread> raisers;
  for (int i = 0; i < kRaisers; ++i) {
    raisers.emplace_back([&] {
      for (int n = 0; n < kTimes; ++n) {
        sum.fetch_add(1, std::memory_order_relaxed);
        flag.raise();
      }
    });
  }
  while (sum.load(std::memory_order_relaxed) < kRaisers * kTimes)
    flag.wait();
  for (std::thread& raiser : raisers)
    raiser.join();
  EXPECT_EQ(sum.load(), kRaisers * kTimes);
}

}  // namespace
}  // namespace pulsewheel

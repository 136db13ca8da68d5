// TimeWheel: where hooks are filed, when they come out, and what may happen in between. What one
// advance does, and what the wheel says of itself, stands in time_wheel_advance_test.cc.
#include "daemon/core/time_wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/unit/core/wheel_fixture.h"

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(TimeWheelTest, ExpiresOnDeadlineTickNotBefore) {
  for (const std::uint64_t hand : kHands) {
    for (const std::uint64_t distance : kDistances) {
      TimeWheel wheel(Tick{hand});
      TestHook hook(1);
      wheel.arm(hook, Tick{hand + distance});
      EXPECT_THAT(expire(wheel, Tick{hand + distance - 1}), IsEmpty()) << hand << " + " << distance;
      EXPECT_THAT(expire(wheel, Tick{hand + distance}), ElementsAre(1))
          << hand << " + " << distance;
    }
  }
}

TEST(TimeWheelTest, ExpiresOnDeadlineTickNotBeforeWhenAdvancedTickByTick) {
  for (const std::uint64_t hand : kHands) {
    TimeWheel wheel(Tick{hand});
    std::deque<TestHook> hooks;
    std::vector<std::uint64_t> distances;
    for (const std::uint64_t distance : kDistances) {
      if (distance > 60'000) continue;
      wheel.arm(hooks.emplace_back(static_cast<int>(distance)), Tick{hand + distance});
      distances.push_back(distance);
    }
    auto due = distances.begin();
    for (std::uint64_t t = 1; t <= distances.back(); ++t) {
      const std::vector<int> expired = expire(wheel, Tick{hand + t});
      if (t != *due) {
        ASSERT_THAT(expired, IsEmpty()) << hand << " + " << t;
      } else {
        ASSERT_THAT(expired, ElementsAre(static_cast<int>(t))) << hand << " + " << t;
        ++due;
      }
    }
    EXPECT_EQ(due, distances.end());
  }
}

TEST(TimeWheelTest, ExpiresOnDeadlineTickWhenItFollowsItsOwnWakeUps) {
  for (const std::uint64_t hand : kHands) {
    for (const std::uint64_t distance : kDistances) {
      TimeWheel wheel(Tick{hand});
      TestHook hook(1);
      wheel.arm(hook, Tick{hand + distance});
      std::vector<int> expired;
      while (const std::optional<Tick> next = wheel.next_wakeup()) {
        ASSERT_GT(*next, wheel.now());
        ASSERT_THAT(expired, IsEmpty());
        expired = expire(wheel, *next);
      }
      EXPECT_THAT(expired, ElementsAre(1));
      EXPECT_EQ(wheel.now(), Tick{hand + distance});
    }
  }
}

struct Filing {
  std::uint64_t distance;
  std::size_t level;
  std::size_t slot;  // with the hand at tick 0
};

class TimeWheelFilingTest : public testing::TestWithParam<Filing> {};

TEST_P(TimeWheelFilingTest, PutsADeadlineInItsSlot) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  wheel.arm(hook, Tick{GetParam().distance});
  EXPECT_EQ(TimeWheel::place_of(hook), (TimeWheel::Place{GetParam().level, GetParam().slot}));
}

INSTANTIATE_TEST_SUITE_P(
    Boundaries, TimeWheelFilingTest,
    testing::Values(Filing{0, 0, 0}, Filing{1, 0, 1}, Filing{29, 0, 29},
                    // Past the last slot, less than two laps away: early.
                    Filing{30, 0, 29}, Filing{31, 0, 29}, Filing{59, 0, 29}, Filing{60, 1, 2},
                    Filing{89, 1, 2}, Filing{90, 1, 3}, Filing{899, 1, 29}, Filing{900, 1, 29},
                    Filing{1'799, 1, 29}, Filing{1'800, 2, 2}, Filing{2'699, 2, 2},
                    Filing{2'700, 2, 3}, Filing{53'999, 2, 29}, Filing{54'000, 3, 2},
                    Filing{80'999, 3, 2}, Filing{81'000, 3, 3}, Filing{809'999, 3, 29},
                    Filing{810'000, 3, 29},
                    // Beyond the top level: parked.
                    Filing{1'620'000, 3, 29}, Filing{TimeWheel::kLastTick.count, 3, 29}));

TEST(TimeWheelTest, KeepsATimeoutOfThirtyOneTicksInLevelZero) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  for (std::uint64_t t = 0; t < 2'000; ++t) {
    EXPECT_THAT(expire(wheel, Tick{t}), IsEmpty());
    if (t % 20 == 0) wheel.arm(hook, Tick{t + 31});
    ASSERT_EQ(TimeWheel::place_of(hook)->level, 0U);
  }
}

TEST(TimeWheelTest, MovesADeadlineLaterWithoutTouchingItsPlace) {
  TimeWheel wheel(Tick{0});
  TestHook hook(1);
  wheel.arm(hook, Tick{10});
  const auto place = TimeWheel::place_of(hook);
  wheel.arm(hook, Tick{5'000});
  EXPECT_EQ(TimeWheel::place_of(hook), place);
  EXPECT_EQ(hook.deadline(), Tick{5'000});
  EXPECT_THAT(expire(wheel, Tick{4'999}), IsEmpty());
  EXPECT_THAT(expire(wheel, Tick{5'000}), ElementsAre(1));
}

TEST(TimeWheelTest, PostponeMovesTheDeadlineOfAnArmedHook) {
  for (const std::uint64_t distance : kDistances) {
    TimeWheel wheel(Tick{500});
    TestHook hook(1);
    wheel.arm(hook, Tick{501});
    TimeWheel::postpone(hook, Tick{500 + distance});
    EXPECT_EQ(hook.deadline(), Tick{500 + distance});
    EXPECT_EQ(hook.kind(), HookKind::kTest);
    EXPECT_THAT(expire(wheel, Tick{499 + distance}), IsEmpty());
    EXPECT_THAT(expire(wheel, Tick{500 + distance}), ElementsAre(1));
  }
}

TEST(TimeWheelTest, PostponeLeavesAnIdleHookIdle) {
  const TimeWheel wheel(Tick{0});
  TestHook hook;
  TimeWheel::postpone(hook, Tick{5});
  EXPECT_FALSE(hook.linked());
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
}

TEST(TimeWheelTest, PostponeOfAnExpiredHookShowsInItsDeadline) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  wheel.arm(hook, Tick{5});
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{5}, kNoLimit, out));
  TimeWheel::postpone(hook, Tick{36});
  EXPECT_EQ(out.pop_front(), &hook);
  EXPECT_EQ(hook.deadline(), Tick{36});
  EXPECT_GT(hook.deadline(), wheel.now());
}

TEST(TimeWheelTest, PostponeToAnEarlierDeadlineIsSeenWhenTheSlotComesRound) {
  TimeWheel wheel(Tick{100});
  TestHook hook(1);
  wheel.arm(hook, Tick{120});
  TimeWheel::postpone(hook, Tick{110});
  EXPECT_THAT(expire(wheel, Tick{119}), IsEmpty());
  EXPECT_THAT(expire(wheel, Tick{120}), ElementsAre(1));
}

TEST(TimeWheelTest, MovesADeadlineEarlier) {
  for (const std::uint64_t distance : kDistances) {
    TimeWheel wheel(Tick{77});
    TestHook hook(1);
    wheel.arm(hook, Tick{77 + distance});
    wheel.arm(hook, Tick{77 + distance / 2 + 1});
    EXPECT_THAT(expire(wheel, Tick{77 + distance / 2}), IsEmpty());
    EXPECT_THAT(expire(wheel, Tick{77 + distance / 2 + 1}), ElementsAre(1));
  }
}

TEST(TimeWheelTest, ExpiresADeadlineThatHasPassedAtTheNextAdvance) {
  for (const std::uint64_t deadline : {0U, 99U, 100U}) {
    TimeWheel wheel(Tick{100});
    TestHook hook(1);
    wheel.arm(hook, Tick{deadline});
    EXPECT_TRUE(hook.linked());
    EXPECT_EQ(hook.deadline(), Tick{100});
    EXPECT_EQ(wheel.next_wakeup(), Tick{100});
    EXPECT_THAT(expire(wheel, Tick{100}), ElementsAre(1));
    EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
  }
}

TEST(TimeWheelTest, TakesADeadlinePastTheLastTickAsTheLastTick) {
  TimeWheel wheel(Tick{0});
  TestHook idle;
  TestHook armed;
  wheel.arm(armed, Tick{1});
  wheel.arm(idle, Tick{~std::uint64_t{0}});
  wheel.arm(armed, Tick{TimeWheel::kLastTick.count + 1});
  EXPECT_EQ(idle.deadline(), TimeWheel::kLastTick);
  EXPECT_EQ(armed.deadline(), TimeWheel::kLastTick);
  TimeWheel::postpone(armed, Tick{TimeWheel::kLastTick.count + 2});
  EXPECT_EQ(armed.deadline(), TimeWheel::kLastTick);
  EXPECT_THAT(expire(wheel, Tick{2}), IsEmpty());
}

TEST(TimeWheelTest, ExpiresTheLastTick) {
  TimeWheel wheel(Tick{TimeWheel::kLastTick.count - 40});
  TestHook hook(1);
  wheel.arm(hook, TimeWheel::kLastTick);
  EXPECT_THAT(expire(wheel, Tick{TimeWheel::kLastTick.count - 1}), IsEmpty());
  EXPECT_THAT(expire(wheel, Tick{~std::uint64_t{0}}), ElementsAre(1));
  EXPECT_EQ(wheel.now(), TimeWheel::kLastTick);
}

TEST(TimeWheelTest, HandsOutByDeadlineWhateverTheLevel) {
  TimeWheel wheel(Tick{12'345});
  std::deque<TestHook> hooks;
  std::vector<std::uint64_t> deadlines;
  for (const std::uint64_t distance : kDistances)
    deadlines.push_back(12'345 + distance);
  // Armed from the far end, so that an order of arming would show.
  for (std::size_t i = deadlines.size(); i-- > 0;) {
    wheel.arm(hooks.emplace_back(static_cast<int>(i)), Tick{deadlines[i]});
  }
  std::vector<int> expected;
  for (std::size_t i = 0; i < deadlines.size(); ++i)
    expected.push_back(static_cast<int>(i));
  EXPECT_EQ(expire(wheel, Tick{20'000'000}), expected);
}

TEST(TimeWheelTest, TimeNeverGoesBack) {
  TimeWheel wheel(Tick{100});
  TestHook hook(1);
  wheel.arm(hook, Tick{101});
  EXPECT_THAT(expire(wheel, Tick{99}), IsEmpty());
  EXPECT_EQ(wheel.now(), Tick{100});
  EXPECT_THAT(expire(wheel, Tick{0}), IsEmpty());
  EXPECT_EQ(wheel.now(), Tick{100});
  EXPECT_THAT(expire(wheel, Tick{101}), ElementsAre(1));
}

TEST(TimeWheelTest, RefreshInTheExpiringTickKeepsTheHook) {
  TimeWheel wheel(Tick{0});
  TestHook hook(1);
  wheel.arm(hook, Tick{31});
  EXPECT_THAT(expire(wheel, Tick{30}), IsEmpty());
  wheel.arm(hook, Tick{62});
  EXPECT_THAT(expire(wheel, Tick{31}), IsEmpty());
  EXPECT_THAT(expire(wheel, Tick{61}), IsEmpty());
  EXPECT_THAT(expire(wheel, Tick{62}), ElementsAre(1));
}

TEST(TimeWheelTest, ArmTakesAHookOffTheExpiredList) {
  TimeWheel wheel(Tick{0});
  TestHook first(1);
  TestHook second(2);
  TestHook third(3);
  wheel.arm(first, Tick{5});
  wheel.arm(second, Tick{6});
  wheel.arm(third, Tick{7});
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{7}, kNoLimit, out));
  EXPECT_EQ(out.pop_front(), &first);
  wheel.arm(second, Tick{8});
  EXPECT_THAT(pop_ids(out), ElementsAre(3));
  EXPECT_THAT(expire(wheel, Tick{8}), ElementsAre(2));
}

TEST(TimeWheelTest, CancelTakesAHookOffTheExpiredList) {
  TimeWheel wheel(Tick{0});
  TestHook first(1);
  TestHook second(2);
  wheel.arm(first, Tick{5});
  wheel.arm(second, Tick{6});
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{7}, kNoLimit, out));
  wheel.cancel(second);
  EXPECT_FALSE(second.linked());
  EXPECT_THAT(pop_ids(out), ElementsAre(1));
}

TEST(TimeWheelTest, DestroyedHookLeavesTheExpiredList) {
  TimeWheel wheel(Tick{0});
  TestHook first(1);
  auto second = std::make_unique<TestHook>(2);
  TestHook third(3);
  wheel.arm(first, Tick{5});
  wheel.arm(*second, Tick{5});
  wheel.arm(third, Tick{5});
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{5}, kNoLimit, out));
  second.reset();
  EXPECT_THAT(pop_ids(out), UnorderedElementsAre(1, 3));
}

TEST(TimeWheelTest, CancelOfAnIdleHookHasNoEffect) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  wheel.cancel(hook);
  EXPECT_FALSE(hook.linked());
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
}

TEST(TimeWheelTest, CancelledHookNeverExpires) {
  for (const std::uint64_t distance : kDistances) {
    TimeWheel wheel(Tick{0});
    TestHook hook;
    wheel.arm(hook, Tick{distance});
    wheel.cancel(hook);
    EXPECT_THAT(expire(wheel, Tick{distance + 1}), IsEmpty());
  }
}

TEST(TimeWheelTest, LeavesItsHooksIdleWhenItEnds) {
  std::deque<TestHook> hooks;
  {
    TimeWheel wheel(Tick{0});
    for (const std::uint64_t distance : kDistances)
      wheel.arm(hooks.emplace_back(), Tick{distance});
  }
  EXPECT_TRUE(
      std::none_of(hooks.begin(), hooks.end(), [](const TestHook& h) { return h.linked(); }));
}

TEST(TimeWheelTest, AllocatesNothing) {
  std::deque<TestHook> hooks;
  for (int i = 0; i < 1'000; ++i)
    hooks.emplace_back(i);
  const std::uint64_t before = support::allocations();
  std::size_t expired = 0;
  {
    TimeWheel wheel(Tick{0});
    HookList out;
    for (std::uint64_t t = 0; t < 3'000; ++t) {
      for (TestHook& hook : hooks) {
        const auto id = static_cast<std::uint64_t>(hook.id);
        if ((id + t) % 97 == 0) wheel.arm(hook, Tick{t + 1 + id * 7});
        if ((id + t) % 701 == 0) wheel.cancel(hook);
      }
      static_cast<void>(wheel.advance(Tick{t}, 100, out));
      while (out.pop_front() != nullptr)
        ++expired;
      static_cast<void>(wheel.next_wakeup());
    }
  }
  EXPECT_EQ(support::allocations(), before);
  EXPECT_GT(expired, 0U);
}

TEST(AllocationCounterTest, SeesAnAllocation) {
  const std::uint64_t before = support::allocations();
  const auto memory = std::make_unique<int>(1);
  EXPECT_EQ(support::allocations(), before + 1);
}

// With a TickClock, as the daemon does it: a deadline is rounded up to a tick, and the wheel is
// told the tick that has begun. The decision is due in [T, T + one tick] after the packet.
TEST(TimeWheelWithClockTest, ExpiresInTimeForAnyTimeoutTickLengthAndPhase) {
  constexpr std::array<nanoseconds, 7> kLengths{
      milliseconds(10),  milliseconds(16), milliseconds(50), milliseconds(100),
      milliseconds(333), seconds(1),       seconds(60)};
  const MonoTime origin{seconds(1'000'000)};
  std::size_t checked = 0;
  for (const nanoseconds length : kLengths) {
    const TickClock clock(origin, length);
    const std::array<nanoseconds, 14> timeouts{length,       length + nanoseconds(1),
                                               29 * length,  30 * length,
                                               31 * length,  seconds(5),
                                               seconds(30),  seconds(45),
                                               900 * length, seconds(900),
                                               hours(1),     27'000 * length,
                                               hours(7),     hours(24)};
    for (const nanoseconds timeout : timeouts) {
      for (int phase = 0; phase < 100; ++phase) {
        const MonoTime packet =
            origin + seconds(phase) + phase * length / 100 + nanoseconds(phase % 3);
        TimeWheel wheel(clock.floor(packet));
        TestHook hook(1);
        wheel.arm(hook, clock.ceil(packet + timeout));

        const MonoTime due = clock.begin_of(hook.deadline());
        ASSERT_GE(due, packet + timeout);
        ASSERT_LT(due, packet + timeout + length);
        ASSERT_THAT(expire(wheel, clock.floor(due - nanoseconds(1))), IsEmpty());
        ASSERT_THAT(expire(wheel, clock.floor(due)), ElementsAre(1));
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, kLengths.size() * 14 * 100);
}

}  // namespace
}  // namespace pulsewheel

// TimeWheel: wake-ups, the budget of an advance and one that is unfinished, long jumps, and what
// the wheel says of itself.
#include "daemon/core/time_wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/unit/core/wheel_fixture.h"

namespace pulsewheel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(TimeWheelAdvanceTest, WithNothingArmedNeedsNoWakeUp) {
  const TimeWheel wheel(Tick{123});
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
}

TEST(TimeWheelAdvanceTest, CancelLeavesNoWakeUpBehind) {
  for (const std::uint64_t hand : kHands) {
    for (const std::uint64_t distance : kDistances) {
      TimeWheel wheel(Tick{hand});
      TestHook hook;
      wheel.arm(hook, Tick{hand + distance});
      wheel.cancel(hook);
      EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
    }
  }
}

TEST(TimeWheelAdvanceTest, DestroyedHookLeavesNoWakeUpBehind) {
  TimeWheel wheel(Tick{0});
  TestHook far;
  wheel.arm(far, Tick{10'000});
  {
    TestHook near;
    wheel.arm(near, Tick{5});
    EXPECT_EQ(wheel.next_wakeup(), Tick{5});
  }
  EXPECT_EQ(wheel.next_wakeup(), Tick{9'900});
}

TEST(TimeWheelAdvanceTest, WakeUpIsNeverAfterADeadline) {
  for (const std::uint64_t hand : kHands) {
    for (const std::uint64_t near : kDistances) {
      for (const std::uint64_t far : kDistances) {
        TimeWheel wheel(Tick{hand});
        TestHook a;
        TestHook b;
        wheel.arm(a, Tick{hand + far});
        wheel.arm(b, Tick{hand + near});
        ASSERT_LE(*wheel.next_wakeup(), Tick{hand + std::min(near, far)});
      }
    }
  }
}

TEST(TimeWheelAdvanceTest, WakesOnlyAHandfulOfTimesForOneTimerOfADay) {
  // At a tick of 10 ms a day is 11 laps of the top level, at 1 s a tenth of one.
  for (const auto& [ticks, wakeups_max] : {std::pair{8'640'000U, 20}, std::pair{86'400U, 4}}) {
    for (const std::uint64_t hand : kHands) {
      TimeWheel wheel(Tick{hand});
      TestHook hook(1);
      wheel.arm(hook, Tick{hand + ticks});
      int wakeups = 0;
      while (const std::optional<Tick> next = wheel.next_wakeup()) {
        static_cast<void>(expire(wheel, *next));
        ++wakeups;
      }
      EXPECT_LE(wakeups, wakeups_max);
    }
  }
}

TEST(TimeWheelAdvanceTest, VisitsNoMoreThanTheBudget) {
  TimeWheel wheel(Tick{0});
  std::deque<TestHook> hooks;
  for (int i = 0; i < 10; ++i)
    wheel.arm(hooks.emplace_back(i), Tick{5});
  HookList out;
  EXPECT_FALSE(wheel.advance(Tick{5}, 0, out));
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(wheel.advance(Tick{5}, 3, out));
  EXPECT_THAT(pop_ids(out), testing::SizeIs(3));
  EXPECT_EQ(wheel.next_wakeup(), Tick{5});
  EXPECT_FALSE(wheel.advance(Tick{5}, 6, out));
  EXPECT_THAT(pop_ids(out), testing::SizeIs(6));
  EXPECT_TRUE(wheel.advance(Tick{5}, 6, out));
  EXPECT_THAT(pop_ids(out), testing::SizeIs(1));
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
}

TEST(TimeWheelAdvanceTest, CountsRefiledHooksAgainstTheBudget) {
  TimeWheel wheel(Tick{0});
  std::deque<TestHook> hooks;
  for (int i = 0; i < 10; ++i) {
    wheel.arm(hooks.emplace_back(i), Tick{5});
    wheel.arm(hooks.back(), Tick{50});
  }
  HookList out;
  EXPECT_FALSE(wheel.advance(Tick{5}, 9, out));
  EXPECT_TRUE(wheel.advance(Tick{5}, 1, out));
  EXPECT_TRUE(out.empty());
}

TEST(TimeWheelAdvanceTest, ABudgetThatJustSufficesFinishesTheAdvance) {
  TimeWheel wheel(Tick{0});
  TestHook hook(1);
  wheel.arm(hook, Tick{5});
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{9}, 1, out));
  EXPECT_EQ(wheel.now(), Tick{9});
}

TEST(TimeWheelAdvanceTest, WithABudgetOfOneHandsOutTheSameInTheSameOrder) {
  TimeWheel wheel(Tick{3});
  std::deque<TestHook> hooks;
  std::vector<int> expected;
  for (const std::uint64_t distance : kDistances) {
    wheel.arm(hooks.emplace_back(static_cast<int>(distance)), Tick{3 + distance});
    expected.push_back(static_cast<int>(distance));
  }
  HookList out;
  std::size_t calls = 1;
  while (!wheel.advance(Tick{10'000'000}, 1, out))
    ++calls;
  EXPECT_EQ(pop_ids(out), expected);
  EXPECT_GT(calls, kDistances.size());
}

TEST(TimeWheelAdvanceTest, TakesArmsAndCancelsWhileAnAdvanceIsUnfinished) {
  TimeWheel wheel(Tick{0});
  std::deque<TestHook> hooks;
  for (int i = 0; i < 6; ++i)
    hooks.emplace_back(i);
  for (std::size_t i = 0; i < 4; ++i)
    wheel.arm(hooks[i], Tick{10});
  HookList out;
  EXPECT_FALSE(wheel.advance(Tick{20}, 1, out));  // takes hook 0
  EXPECT_EQ(wheel.now(), Tick{10});

  wheel.cancel(hooks[1]);            // not yet visited
  wheel.arm(hooks[2], Tick{15});     // moved within the range still to go
  wheel.arm(hooks[3], Tick{1'000});  // moved past it
  wheel.arm(hooks[4], Tick{7});      // passed already
  wheel.arm(hooks[5], Tick{12});     // new in the range still to go
  wheel.arm(hooks[0], Tick{11});     // back from the expired list

  while (!wheel.advance(Tick{20}, 1, out)) {
  }
  EXPECT_THAT(pop_ids(out), ElementsAre(4, 0, 5, 2));
  EXPECT_EQ(wheel.now(), Tick{20});
  EXPECT_EQ(hooks[3].deadline(), Tick{1'000});
}

TEST(TimeWheelAdvanceTest, GoesOnWhenNowGrewWhileAnAdvanceWasUnfinished) {
  TimeWheel wheel(Tick{0});
  std::deque<TestHook> hooks;
  for (int i = 1; i <= 5; ++i) {
    wheel.arm(hooks.emplace_back(i), Tick{static_cast<std::uint64_t>(i) * 1'000});
  }
  HookList out;
  EXPECT_FALSE(wheel.advance(Tick{2'000}, 1, out));
  EXPECT_TRUE(wheel.advance(Tick{4'500}, kNoLimit, out));
  EXPECT_THAT(pop_ids(out), ElementsAre(1, 2, 3, 4));
}

TEST(TimeWheelAdvanceTest, StaysWhereItIsWhenNowShrinksWhileAnAdvanceIsUnfinished) {
  TimeWheel wheel(Tick{0});
  TestHook first(1);
  TestHook second(2);
  TestHook later(3);
  wheel.arm(first, Tick{10});
  wheel.arm(second, Tick{10});
  wheel.arm(later, Tick{11});
  HookList out;
  EXPECT_FALSE(wheel.advance(Tick{20}, 1, out));
  EXPECT_TRUE(wheel.advance(Tick{3}, kNoLimit, out));
  EXPECT_THAT(pop_ids(out), UnorderedElementsAre(1, 2));
  EXPECT_EQ(wheel.now(), Tick{10});
}

TEST(TimeWheelAdvanceTest, AJumpVisitsHooksNotTicks) {
  for (const std::uint64_t jump : {1'000U, 1'000'000U, 100'000'000U}) {
    TimeWheel wheel(Tick{0});
    TestHook hook(1);
    wheel.arm(hook, Tick{31});
    HookList out;
    // Filed early in the last slot of level 0, so two visits, whatever the jump.
    EXPECT_FALSE(wheel.advance(Tick{jump}, 1, out));
    EXPECT_TRUE(wheel.advance(Tick{jump}, 1, out));
    EXPECT_THAT(pop_ids(out), ElementsAre(1));
    EXPECT_EQ(wheel.now(), Tick{jump});
  }
}

TEST(TimeWheelAdvanceTest, SkipsAnEmptyEternityAtOnce) {
  TimeWheel wheel(Tick{0});
  EXPECT_THAT(expire(wheel, TimeWheel::kLastTick), IsEmpty());
  EXPECT_EQ(wheel.now(), TimeWheel::kLastTick);
}

TEST(TimeWheelAdvanceTest, FiresEachOfManyTimersOnItsOwnTickAfterAnIdleJump) {
  TimeWheel wheel(Tick{0});
  EXPECT_THAT(expire(wheel, Tick{999}), IsEmpty());
  std::deque<TestHook> hooks;
  for (int i = 1; i <= 2'000; ++i) {
    wheel.arm(hooks.emplace_back(i), Tick{999 + static_cast<std::uint64_t>(i)});
  }
  for (int i = 1; i <= 2'000; ++i) {
    ASSERT_THAT(expire(wheel, Tick{999 + static_cast<std::uint64_t>(i)}), ElementsAre(i));
  }
}

TEST(TimeWheelAdvanceTest, CountsAllHooksThatAreArmed) {
  TimeWheel wheel(Tick{0});
  {
    std::deque<TestHook> hooks;
    for (int i = 0; i < 5; ++i)
      wheel.arm(hooks.emplace_back(i), Tick{7 + 100 * static_cast<std::uint64_t>(i)});
    EXPECT_EQ(wheel.armed_count(), 5U);
    wheel.cancel(hooks[0]);
    EXPECT_EQ(wheel.armed_count(), 4U);
    EXPECT_THAT(expire(wheel, Tick{107}), ElementsAre(1));
    EXPECT_EQ(wheel.armed_count(), 3U);
  }
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
  EXPECT_EQ(wheel.armed_count(), 0U);
}

TEST(TimeWheelAdvanceTest, CountsTheHooksOfEachSlot) {
  TimeWheel wheel(Tick{0});
  std::deque<TestHook> hooks;
  for (int i = 0; i < 5; ++i)
    wheel.arm(hooks.emplace_back(i), Tick{7});
  wheel.arm(hooks.emplace_back(5), Tick{91});
  EXPECT_EQ(wheel.slot_count(0, 7), 5U);
  EXPECT_EQ(wheel.slot_count(1, 3), 1U);
  wheel.cancel(hooks[0]);
  EXPECT_EQ(wheel.slot_count(0, 7), 4U);
  wheel.arm(hooks[1], Tick{3});
  EXPECT_EQ(wheel.slot_count(0, 7), 3U);
  EXPECT_EQ(wheel.slot_count(0, 3), 1U);
  EXPECT_THAT(expire(wheel, Tick{90}), testing::SizeIs(4));
  EXPECT_EQ(wheel.slot_count(0, 7), 0U);
  EXPECT_EQ(wheel.slot_count(1, 3), 0U);
  EXPECT_EQ(wheel.slot_count(0, 1), 1U);
  EXPECT_EQ(TimeWheel::place_of(hooks[5]), (TimeWheel::Place{0, 1}));
}

TEST(TimeWheelAdvanceTest, ForgetsTheCountOfDestroyedHooksWhenTheirSlotComesRound) {
  TimeWheel wheel(Tick{0});
  {
    TestHook hook;
    wheel.arm(hook, Tick{7});
  }
  EXPECT_THAT(expire(wheel, Tick{8}), IsEmpty());
  EXPECT_EQ(wheel.slot_count(0, 7), 0U);
}

TEST(TimeWheelAdvanceTest, KnowsWhereItsHandsStand) {
  const TimeWheel wheel(Tick{27'000 * 3 + 900 * 5 + 30 * 7 + 11});
  EXPECT_EQ(wheel.hand(0), 11U);
  EXPECT_EQ(wheel.hand(1), 7U);
  EXPECT_EQ(wheel.hand(2), 5U);
  EXPECT_EQ(wheel.hand(3), 3U);
}

TEST(TimeWheelAdvanceTest, PlaceOfAnIdleOrExpiredHookIsNone) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  EXPECT_EQ(TimeWheel::place_of(hook), std::nullopt);
  wheel.arm(hook, Tick{1});
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{1}, kNoLimit, out));
  EXPECT_EQ(TimeWheel::place_of(hook), std::nullopt);
}

}  // namespace
}  // namespace pulsewheel

// TimerHook and HookList: what an embedded hook knows, and lists of those that expired.
#include "daemon/core/time_wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tests/unit/core/wheel_fixture.h"

namespace pulsewheel {
namespace {

using testing::ElementsAre;

TEST(TimerHookTest, IsIdleAndKnowsItsKindWhenNew) {
  const TimerHook hook(HookKind::kLinger);
  EXPECT_FALSE(hook.linked());
  EXPECT_EQ(hook.kind(), HookKind::kLinger);
  EXPECT_EQ(hook.deadline(), Tick{0});
}

TEST(TimerHookTest, KeepsItsKindThroughArmingExpiryAndCancel) {
  for (const HookKind kind :
       {HookKind::kSession, HookKind::kLinger, HookKind::kTimer, HookKind::kTest}) {
    TimeWheel wheel(Tick{0});
    TimerHook hook(kind);
    wheel.arm(hook, TimeWheel::kLastTick);
    EXPECT_EQ(hook.kind(), kind);
    wheel.arm(hook, Tick{1});
    HookList out;
    EXPECT_TRUE(wheel.advance(Tick{1}, kNoLimit, out));
    EXPECT_EQ(hook.kind(), kind);
    EXPECT_EQ(out.pop_front(), &hook);
    EXPECT_EQ(hook.kind(), kind);
  }
}

TEST(TimerHookTest, IsLinkedUntilItIsPopped) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  wheel.arm(hook, Tick{1});
  EXPECT_TRUE(hook.linked());
  HookList out;
  EXPECT_TRUE(wheel.advance(Tick{1}, kNoLimit, out));
  EXPECT_TRUE(hook.linked());
  EXPECT_EQ(out.pop_front(), &hook);
  EXPECT_FALSE(hook.linked());
}

TEST(TimerHookDeathTest, OwnerOfAnotherKindAborts) {
  TimerHook hook(HookKind::kSession);
  EXPECT_DEATH(static_cast<void>(owner_of<TestHook>(hook)), "kind");
}

TEST(HookListTest, IsEmptyWhenNew) {
  HookList list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop_front(), nullptr);
}

TEST(HookListTest, SpliceAppendsInOrderAndEmptiesTheOther) {
  TimeWheel wheel(Tick{0});
  std::deque<TestHook> hooks;
  for (int i = 0; i < 4; ++i)
    wheel.arm(hooks.emplace_back(i), Tick{1 + static_cast<unsigned>(i)});
  HookList first;
  HookList second;
  EXPECT_TRUE(wheel.advance(Tick{2}, kNoLimit, first));
  EXPECT_TRUE(wheel.advance(Tick{4}, kNoLimit, second));

  first.splice(second);
  EXPECT_TRUE(second.empty());
  EXPECT_THAT(pop_ids(first), ElementsAre(0, 1, 2, 3));
}

TEST(HookListTest, SpliceOfAnEmptyListOrItselfChangesNothing) {
  TimeWheel wheel(Tick{0});
  TestHook hook(7);
  wheel.arm(hook, Tick{1});
  HookList list;
  HookList none;
  EXPECT_TRUE(wheel.advance(Tick{1}, kNoLimit, list));
  list.splice(none);
  list.splice(list);
  EXPECT_THAT(pop_ids(list), ElementsAre(7));
}

TEST(HookListTest, LeavesItsHooksIdleWhenItEnds) {
  TimeWheel wheel(Tick{0});
  TestHook hook;
  wheel.arm(hook, Tick{1});
  {
    HookList out;
    EXPECT_TRUE(wheel.advance(Tick{1}, kNoLimit, out));
  }
  EXPECT_FALSE(hook.linked());
}

}  // namespace
}  // namespace pulsewheel

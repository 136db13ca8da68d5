// TimerService: when callbacks run, and what they may do and break.
#include "daemon/core/timer_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
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

class RecordingSink final : public TimerErrorSink {
 public:
  void on_timer_failure(std::string_view timer, std::string_view what,
                        bool cancelled) noexcept override {
    reports.push_back(std::string(timer) + ": " + std::string(what) + (cancelled ? " (end)" : ""));
  }
  std::vector<std::string> reports;
};

/// A shard in small: a wheel with a tick of 100 ms, its timers, and a clock that tests turn.
class TimerServiceTest : public testing::Test {
 protected:
  static constexpr Duration kTick = milliseconds(100);
  const MonoTime origin{hours(5)};

  [[nodiscard]] MonoTime at(Duration since_origin) const { return origin + since_origin; }

  /// Wakes up each time the wheel asks for it, late by `late`, until `end`.
  void run_until(MonoTime end, Duration late = Duration::zero()) {
    while (const std::optional<Tick> next = wheel.next_wakeup()) {
      const MonoTime wakeup = std::max(now, clock.begin_of(*next) + late);
      if (wakeup > end) break;
      run_once(wakeup);
    }
    run_once(end);
  }
  /// One round of the loop at `time`.
  void run_once(MonoTime time) {
    now = time;
    HookList expired;
    while (!wheel.advance(clock.floor(now), kNoLimit, expired)) {
    }
    while (TimerHook* const hook = expired.pop_front())
      service.fire(*hook, now);
  }

  /// A callback that notes when it ran, in ms since the origin.
  Timer::Callback note() {
    return [this](MonoTime t) { runs.push_back((t - origin) / milliseconds(1)); };
  }

  TickClock clock{origin, kTick};
  TimeWheel wheel{Tick{0}};
  RecordingSink sink;
  TimerService service{wheel, clock, sink};
  MonoTime now = origin;
  std::vector<std::int64_t> runs;
};

using TimerServiceDeathTest = TimerServiceTest;

TEST_F(TimerServiceTest, OneShotRunsOnce) {
  Timer timer("t", note());
  service.arm_after(timer, milliseconds(300), now);
  EXPECT_TRUE(timer.armed());
  run_until(at(seconds(10)));
  EXPECT_THAT(runs, ElementsAre(300));
  EXPECT_FALSE(timer.armed());
  EXPECT_EQ(service.counts().fired.value(), 1U);
}

TEST_F(TimerServiceTest, NeverRunsEarlyWithinATick) {
  for (const Duration delay : {milliseconds(1), milliseconds(99), milliseconds(100),
                               milliseconds(101), milliseconds(199), milliseconds(2'950)}) {
    for (const Duration phase :
         {milliseconds(0), milliseconds(1), milliseconds(50), milliseconds(99)}) {
      const MonoTime start = std::max(now, clock.begin_of(clock.ceil(now))) + phase;
      run_once(start);
      std::optional<MonoTime> ran;
      Timer timer("t", [&](MonoTime t) { ran = t; });
      service.arm_after(timer, delay, start);
      for (MonoTime t = start; !ran; t += milliseconds(1))
        run_once(t);
      EXPECT_GE(*ran, start + delay);
      EXPECT_LT(*ran, start + delay + kTick);
    }
  }
}

TEST_F(TimerServiceTest, AHookThatComesBeforeItsTimeIsArmedAgain) {
  Timer timer("t", note());
  service.arm_after(timer, milliseconds(250), now);
  HookList expired;
  EXPECT_TRUE(wheel.advance(Tick{3}, kNoLimit, expired));
  service.fire(*expired.pop_front(), at(milliseconds(249)));
  EXPECT_THAT(runs, IsEmpty());
  EXPECT_TRUE(timer.armed());
  EXPECT_EQ(service.counts().fired.value(), 0U);
  run_once(at(milliseconds(300)));
  EXPECT_THAT(runs, ElementsAre(300));
}

TEST_F(TimerServiceTest, ZeroAndNegativeDelaysRunAtTheNextRound) {
  Timer zero("zero", note());
  Timer negative("negative", note());
  service.arm_after(zero, Duration::zero(), now);
  service.arm_after(negative, Duration::min(), now);
  run_once(now);
  EXPECT_THAT(runs, ElementsAre(0, 0));
}

TEST_F(TimerServiceTest, ALongestDelayStaysArmed) {
  Timer timer("t", note());
  service.arm_after(timer, Duration::max(), now);
  run_until(at(hours(24)));
  EXPECT_TRUE(timer.armed());
  EXPECT_THAT(runs, IsEmpty());
}

TEST_F(TimerServiceTest, PeriodicRunsAtEachPeriod) {
  Timer timer("t", note());
  service.arm_every(timer, milliseconds(400), now);
  run_until(at(seconds(2)));
  EXPECT_THAT(runs, ElementsAre(400, 800, 1'200, 1'600, 2'000));
  EXPECT_TRUE(timer.armed());
  EXPECT_EQ(service.counts().skipped.value(), 0U);
}

TEST_F(TimerServiceTest, PeriodicDoesNotDriftWithLateRuns) {
  Timer timer("t", note());
  service.arm_every(timer, seconds(1), now);
  run_until(at(seconds(5)), milliseconds(30));
  EXPECT_THAT(runs, ElementsAre(1'030, 2'030, 3'030, 4'030, 5'000));
}

TEST_F(TimerServiceTest, APeriodThatIsNoMultipleOfATickKeepsItsMean) {
  Timer timer("t", note());
  service.arm_every(timer, milliseconds(150), now);
  run_until(at(milliseconds(900)));
  EXPECT_THAT(runs, ElementsAre(200, 300, 500, 600, 800, 900));
}

TEST_F(TimerServiceTest, PeriodicSkipsAndCountsWhatItMissed) {
  Timer timer("t", note());
  service.arm_every(timer, milliseconds(1'000), now);
  run_once(at(milliseconds(4'500)));  // a stall over 1, 2, 3 and 4 s
  EXPECT_THAT(runs, ElementsAre(4'500));
  EXPECT_EQ(service.counts().skipped.value(), 3U);
  run_until(at(milliseconds(6'900)));
  EXPECT_THAT(runs, ElementsAre(4'500, 5'000, 6'000));
  EXPECT_EQ(service.counts().skipped.value(), 3U);
}

TEST_F(TimerServiceTest, ARunThatIsDueWithAMissedOneHappensOnce) {
  Timer timer("t", note());
  service.arm_every(timer, milliseconds(1'000), now);
  run_once(at(seconds(3)));
  EXPECT_THAT(runs, ElementsAre(3'000));
  EXPECT_EQ(service.counts().skipped.value(), 2U);
  run_until(at(seconds(4)));
  EXPECT_THAT(runs, ElementsAre(3'000, 4'000));
}

TEST_F(TimerServiceTest, APeriodBelowATickCountsAsATick) {
  for (const Duration period : {Duration::min(), Duration(0), Duration(1), kTick - Duration(1)}) {
    runs.clear();
    Timer timer("t", note());
    service.arm_every(timer, period, now);
    const MonoTime start = now;
    run_until(start + milliseconds(300));
    EXPECT_EQ(runs.size(), 3U);
  }
}

TEST_F(TimerServiceTest, CancelledTimerDoesNotRun) {
  Timer timer("t", note());
  service.arm_every(timer, milliseconds(100), now);
  service.cancel(timer);
  EXPECT_FALSE(timer.armed());
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
  run_until(at(seconds(1)));
  EXPECT_THAT(runs, IsEmpty());
}

TEST_F(TimerServiceTest, CancelOfAnIdleTimerHasNoEffect) {
  Timer timer("t", note());
  service.cancel(timer);
  EXPECT_EQ(service.counts().armed.value(), 0);
}

TEST_F(TimerServiceTest, ArmingAnewReplacesTheOldTime) {
  Timer timer("t", note());
  service.arm_after(timer, milliseconds(500), now);
  service.arm_after(timer, milliseconds(200), now);
  service.arm_after(timer, milliseconds(800), now);
  EXPECT_EQ(service.counts().armed.value(), 1);
  run_until(at(seconds(2)));
  EXPECT_THAT(runs, ElementsAre(800));
}

TEST_F(TimerServiceTest, ArmingOnceEndsAPeriod) {
  Timer timer("t", note());
  service.arm_every(timer, milliseconds(100), now);
  service.arm_after(timer, milliseconds(300), now);
  run_until(at(seconds(1)));
  EXPECT_THAT(runs, ElementsAre(300));
}

TEST_F(TimerServiceTest, PauseKeepsTheRemainingTime) {
  Timer timer("t", note());
  service.arm_after(timer, seconds(3), now);
  run_until(at(seconds(1)));
  service.pause(timer, now);
  EXPECT_TRUE(timer.paused());
  EXPECT_FALSE(timer.armed());
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
  run_until(at(seconds(100)));
  service.resume(timer, now);
  EXPECT_FALSE(timer.paused());
  run_until(at(seconds(200)));
  EXPECT_THAT(runs, ElementsAre(102'000));
}

TEST_F(TimerServiceTest, PausedPeriodicGoesOnWithItsPeriod) {
  Timer timer("t", note());
  service.arm_every(timer, seconds(1), now);
  run_until(at(milliseconds(1'700)));
  service.pause(timer, now);
  run_until(at(milliseconds(5'000)));
  service.resume(timer, now);
  run_until(at(milliseconds(7'500)));
  EXPECT_THAT(runs, ElementsAre(1'000, 5'300, 6'300, 7'300));
  EXPECT_EQ(service.counts().skipped.value(), 0U);
}

TEST_F(TimerServiceTest, PauseOfAnOverdueTimerRunsAtOnceAfterResume) {
  Timer timer("t", note());
  service.arm_after(timer, seconds(1), now);
  service.pause(timer, at(seconds(2)));
  run_once(at(seconds(3)));
  EXPECT_THAT(runs, IsEmpty());
  service.resume(timer, now);
  run_once(now);
  EXPECT_THAT(runs, ElementsAre(3'000));
}

TEST_F(TimerServiceTest, PauseAndResumeLeaveOtherTimersAsTheyAre) {
  Timer idle("idle", note());
  service.pause(idle, now);
  EXPECT_FALSE(idle.paused());
  service.resume(idle, now);
  EXPECT_FALSE(idle.armed());

  Timer armed("armed", note());
  service.arm_after(armed, seconds(1), now);
  service.resume(armed, at(milliseconds(500)));
  run_until(at(seconds(5)));
  EXPECT_THAT(runs, ElementsAre(1'000));
}

TEST_F(TimerServiceTest, CancelOrArmingEndsAPause) {
  Timer timer("t", note());
  service.arm_after(timer, seconds(1), now);
  service.pause(timer, now);
  service.cancel(timer);
  EXPECT_FALSE(timer.paused());
  service.resume(timer, now);
  EXPECT_FALSE(timer.armed());

  service.arm_after(timer, seconds(1), now);
  service.pause(timer, now);
  service.arm_after(timer, seconds(2), now);
  EXPECT_FALSE(timer.paused());
  run_until(at(seconds(5)));
  EXPECT_THAT(runs, ElementsAre(2'000));
}

TEST_F(TimerServiceTest, PausingTwiceKeepsTheFirstRemainder) {
  Timer timer("t", note());
  service.arm_after(timer, seconds(1), now);
  service.pause(timer, now);
  service.pause(timer, at(milliseconds(900)));
  service.resume(timer, now);
  run_until(at(seconds(5)));
  EXPECT_THAT(runs, ElementsAre(1'000));
}

TEST_F(TimerServiceTest, CallbackMayArmItsOwnTimer) {
  std::optional<Timer> timer;
  timer.emplace("t", [&](MonoTime t) {
    runs.push_back((t - origin) / milliseconds(1));
    if (runs.size() < 3) service.arm_after(*timer, milliseconds(500), t);
  });
  service.arm_after(*timer, milliseconds(100), now);
  run_until(at(seconds(5)));
  EXPECT_THAT(runs, ElementsAre(100, 600, 1'100));
}

TEST_F(TimerServiceTest, CallbackMayChangeItsOwnPeriod) {
  std::optional<Timer> timer;
  timer.emplace("t", [&](MonoTime t) {
    runs.push_back((t - origin) / milliseconds(1));
    if (runs.size() == 2) service.arm_every(*timer, milliseconds(1'000), t);
  });
  service.arm_every(*timer, milliseconds(100), now);
  run_until(at(milliseconds(2'500)));
  EXPECT_THAT(runs, ElementsAre(100, 200, 1'200, 2'200));
}

TEST_F(TimerServiceTest, CallbackMayCancelItsOwnPeriod) {
  std::optional<Timer> timer;
  timer.emplace("t", [&](MonoTime t) {
    note()(t);
    service.cancel(*timer);
  });
  service.arm_every(*timer, milliseconds(100), now);
  run_until(at(seconds(1)));
  EXPECT_THAT(runs, ElementsAre(100));
  EXPECT_EQ(service.counts().armed.value(), 0);
}

TEST_F(TimerServiceTest, CallbackMayPauseItsOwnPeriod) {
  std::optional<Timer> timer;
  timer.emplace("t", [&](MonoTime t) {
    note()(t);
    service.pause(*timer, t);
  });
  service.arm_every(*timer, milliseconds(300), now);
  run_until(at(seconds(1)));
  EXPECT_THAT(runs, ElementsAre(300));
  service.resume(*timer, now);
  run_until(at(seconds(2)));
  EXPECT_THAT(runs, ElementsAre(300, 1'300));
}

TEST_F(TimerServiceTest, CallbackMayDestroyItsOwnTimer) {
  for (const bool periodic : {false, true}) {
    std::unique_ptr<Timer> timer;
    // A capture too long to be kept inside a std::function: it is used after the destruction.
    const std::string witness(100, 'x');
    std::string seen;
    timer = std::make_unique<Timer>("t", [&timer, &seen, witness](MonoTime) {
      timer.reset();
      seen = witness;
    });
    if (periodic) {
      service.arm_every(*timer, milliseconds(100), now);
    } else {
      service.arm_after(*timer, milliseconds(100), now);
    }
    run_until(now + seconds(1));
    EXPECT_EQ(seen, witness);
    EXPECT_EQ(timer, nullptr);
    EXPECT_EQ(service.counts().armed.value(), 0);
  }
}

TEST_F(TimerServiceTest, CallbackMayThrowAfterItDestroyedItsTimer) {
  std::unique_ptr<Timer> timer;
  timer = std::make_unique<Timer>("gone", [&timer](MonoTime) {
    timer.reset();
    throw std::runtime_error("late");
  });
  service.arm_every(*timer, milliseconds(100), now);
  run_until(at(seconds(1)));
  EXPECT_THAT(sink.reports, ElementsAre("gone: late"));
}

TEST_F(TimerServiceTest, CallbackMayCancelOrDestroyTimersThatExpiredWithIt) {
  std::optional<Timer> first;
  std::optional<Timer> second;
  std::optional<Timer> third;
  const auto end_the_others = [&](MonoTime t) {
    note()(t);
    for (Timer* const other : {&*first, &*second, &*third})
      service.cancel(*other);
    if (runs.size() == 1) third.reset();
  };
  first.emplace("first", end_the_others);
  second.emplace("second", end_the_others);
  third.emplace("third", note());
  service.arm_after(*first, milliseconds(100), now);
  service.arm_after(*second, milliseconds(100), now);
  service.arm_after(*third, milliseconds(100), now);
  run_until(at(milliseconds(200)));
  EXPECT_THAT(runs, ElementsAre(100));
  EXPECT_EQ(service.counts().armed.value(), 0);
}

TEST_F(TimerServiceTest, AThrowingCallbackDoesNotStopTheOthers) {
  Timer bad("bad", [](MonoTime) { throw std::runtime_error("no luck"); });
  Timer worse("worse", [](MonoTime) { throw 42; });
  Timer good("good", note());
  service.arm_after(bad, milliseconds(100), now);
  service.arm_after(worse, milliseconds(100), now);
  service.arm_after(good, milliseconds(100), now);
  run_until(at(milliseconds(200)));
  EXPECT_THAT(runs, ElementsAre(100));
  EXPECT_THAT(sink.reports,
              testing::UnorderedElementsAre("bad: no luck", "worse: not a std::exception"));
  EXPECT_EQ(service.counts().fired.value(), 3U);
  EXPECT_EQ(service.counts().failed.value(), 2U);
}

TEST_F(TimerServiceTest, PeriodicIsCancelledAfterThreeFailuresInARow) {
  Timer timer("bad", [](MonoTime) { throw std::runtime_error("no luck"); });
  service.arm_every(timer, milliseconds(100), now);
  run_until(at(seconds(2)));
  EXPECT_FALSE(timer.armed());
  EXPECT_THAT(sink.reports, ElementsAre("bad: no luck", "bad: no luck", "bad: no luck (end)"));
  EXPECT_EQ(service.counts().failed.value(), 3U);
  EXPECT_EQ(service.counts().cancelled_by_failures.value(), 1U);
  EXPECT_EQ(service.counts().armed.value(), 0);
}

TEST_F(TimerServiceTest, ASuccessForgivesEarlierFailures) {
  int run = 0;
  Timer timer("moody", [&run](MonoTime) {
    if (++run % 3 != 0) throw std::runtime_error("moody");
  });
  service.arm_every(timer, milliseconds(100), now);
  run_until(at(seconds(2)));
  EXPECT_EQ(run, 20);
  EXPECT_TRUE(timer.armed());
  EXPECT_EQ(service.counts().cancelled_by_failures.value(), 0U);
}

TEST_F(TimerServiceTest, ACancelledFailureStartsAfreshWhenArmedAgain) {
  int run = 0;
  Timer timer("bad", [&run](MonoTime) {
    ++run;
    throw std::runtime_error("no luck");
  });
  service.arm_every(timer, milliseconds(100), now);
  run_until(at(seconds(1)));
  EXPECT_EQ(run, 3);
  service.arm_every(timer, milliseconds(100), now);
  run_until(at(seconds(2)));
  EXPECT_EQ(run, 6);
}

TEST_F(TimerServiceTest, CountsWhatIsArmed) {
  Timer a("a", note());
  Timer b("b", note());
  {
    Timer c("c", note());
    service.arm_after(a, seconds(1), now);
    service.arm_every(b, seconds(1), now);
    service.arm_after(c, seconds(1), now);
    EXPECT_EQ(service.counts().armed.value(), 3);
  }
  EXPECT_EQ(service.counts().armed.value(), 2);
  service.pause(b, now);
  EXPECT_EQ(service.counts().armed.value(), 1);
  service.resume(b, now);
  EXPECT_EQ(service.counts().armed.value(), 2);
  run_until(at(seconds(1)));
  EXPECT_EQ(service.counts().armed.value(), 1);
  service.cancel(b);
  EXPECT_EQ(service.counts().armed.value(), 0);
}

TEST_F(TimerServiceTest, AllocatesNothingInSteadyState) {
  const std::string long_capture(200, 'x');
  std::uint64_t called = 0;
  Timer periodic("periodic", [&called, long_capture](MonoTime) { called += long_capture.size(); });
  Timer once("once", [&called](MonoTime) { ++called; });
  const std::uint64_t before = support::allocations();
  service.arm_every(periodic, milliseconds(100), now);
  for (int i = 0; i < 100; ++i) {
    service.arm_after(once, milliseconds(250), now);
    service.pause(periodic, now);
    service.resume(periodic, now);
    run_until(now + seconds(1));
  }
  EXPECT_EQ(support::allocations(), before);
  EXPECT_GT(called, 200'000U);
}

TEST_F(TimerServiceDeathTest, AnEmptyCallbackAborts) {
  EXPECT_DEATH(Timer("empty", nullptr), "callback");
}

TEST_F(TimerServiceDeathTest, AHookOfAnotherKindAborts) {
  TestHook hook;
  EXPECT_DEATH(service.fire(hook, now), "kTimer");
}

TEST_F(TimerServiceDeathTest, AServiceThatEndsBeforeItsTimersAborts) {
  EXPECT_DEATH(
      {
        Timer timer("t", note());
        TimerService short_lived(wheel, clock, sink);
        short_lived.arm_after(timer, seconds(1), now);
      },
      "armed");
}

}  // namespace
}  // namespace pulsewheel

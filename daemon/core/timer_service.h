// Timers with callbacks on a shard's wheel: one-shot, periodic, paused. Told the time; no I/O.
#pragma once

#include <functional>
#include <string_view>

#include "daemon/base/counters.h"
#include "daemon/base/time.h"
#include "daemon/core/tick.h"
#include "daemon/core/time_wheel.h"

namespace pulsewheel {

class TimerService;

/// A named callback that TimerService runs when its time has come. Owned by whoever needs it,
/// pinned, and idle until armed; destroying it cancels it. Confined to its service's thread.
class Timer : private TimerHook {
 public:
  /// Gets the `now` that fire() was told. It may arm, cancel, pause and destroy any timer, its own
  /// included. What it throws goes to the service's TimerErrorSink.
  using Callback = std::function<void(MonoTime now)>;

  /// `name` appears in error reports and must outlive the timer: usually a literal. All memory
  /// that a timer needs is allocated here, with the callback.
  Timer(std::string_view name, Callback callback);
  ~Timer();

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  /// Waiting for its time. A periodic timer stays armed while its callback runs, a one-shot not.
  [[nodiscard]] bool armed() const noexcept { return service_ != nullptr; }
  /// Between pause() and resume() (or cancel(), or arming it anew).
  [[nodiscard]] bool paused() const noexcept { return paused_; }

 private:
  friend class TimerService;

  std::string_view name_;
  Callback callback_;
  TimerService* service_ = nullptr;  // while armed
  MonoTime due_;                     // while armed
  Duration remaining_{0};            // while paused
  Duration period_{0};               // 0: one-shot
  int failures_in_a_row_ = 0;
  bool paused_ = false;
  bool* destroyed_ = nullptr;  // while the callback runs: tells fire() that the timer is gone
};

/// Hears of callbacks that threw. On the shard's thread, and it must not block.
class TimerErrorSink {
 public:
  /// `what` is the exception's text. `cancelled`: it was a periodic timer's last failure allowed,
  /// and the timer has been cancelled.
  virtual void on_timer_failure(std::string_view timer, std::string_view what,
                                bool cancelled) noexcept = 0;

 protected:
  ~TimerErrorSink() = default;
};

/// Written by the service's thread, read by any.
struct TimerCounts {
  Gauge armed;                    // now; paused timers are not
  Counter fired;                  // callbacks run, failed ones included
  Counter failed;                 // callbacks that threw
  Counter cancelled_by_failures;  // periodic timers given up
  Counter skipped;                // runs of periodic timers whose time had passed already
};

/// Runs Timers on a wheel that others use too. Whoever advances the wheel passes each expired
/// hook of kind kTimer, taken off its list, to fire(). Confined to the wheel's thread; outlives
/// the timers armed on it, and is outlived by wheel and sink. Nothing but a Timer's construction
/// allocates. A timer never fires before its time, however fine that is: its deadline is the
/// first tick that begins at it or later.
class TimerService {
 public:
  /// A periodic timer that throws this often in a row is cancelled: it will not get better.
  static constexpr int kFailuresInARowMax = 3;

  /// `clock` is the one that turns time into `wheel`'s ticks.
  TimerService(TimeWheel& wheel, TickClock clock, TimerErrorSink& errors) noexcept;
  ~TimerService();
  TimerService(const TimerService&) = delete;
  TimerService& operator=(const TimerService&) = delete;

  /// Runs `timer` once, `delay` after `now`; a delay below 0 counts as 0. Replaces what the timer
  /// was armed or paused for. O(1).
  void arm_after(Timer& timer, Duration delay, MonoTime now) noexcept;

  /// Runs `timer` at `now` + 1, 2, 3 ... periods. The times do not drift with late runs; a run
  /// whose time is over when the one before it happens is skipped and counted, never made up for.
  /// A period below one tick counts as one tick. Replaces what the timer was armed or paused for.
  /// O(1).
  void arm_every(Timer& timer, Duration period, MonoTime now) noexcept;

  /// The timer becomes idle. Also one that has expired but was not fired yet does not run. O(1).
  void cancel(Timer& timer) noexcept;

  /// Stops the clock of an armed timer and keeps the time it had left. Another one is left as it
  /// is. O(1).
  void pause(Timer& timer, MonoTime now) noexcept;

  /// A paused timer runs when the time that it had left at pause() has passed after `now`; a
  /// periodic one goes on with its period from there. Another one is left as it is. O(1).
  void resume(Timer& timer, MonoTime now) noexcept;

  /// Runs the callback of the timer that `hook` belongs to. Requires kind kTimer and a hook just
  /// taken off the list of expired ones. A hook that comes before its time is armed again. What
  /// the callback throws ends here, and does not stop other timers.
  void fire(TimerHook& hook, MonoTime now) noexcept;

  [[nodiscard]] const TimerCounts& counts() const noexcept { return counts_; }

 private:
  friend class Timer;

  void arm_at(Timer& timer, MonoTime due) noexcept;
  void disarm(Timer& timer) noexcept;
  /// Arms the next run of a periodic timer that is due, past all runs whose time is over.
  void arm_next(Timer& timer, MonoTime now) noexcept;
  void run(Timer& timer, MonoTime now) noexcept;
  void count_failure(Timer* timer, std::string_view name, std::string_view what) noexcept;

  TimeWheel& wheel_;
  TickClock clock_;
  TimerErrorSink& errors_;
  TimerCounts counts_;
};

}  // namespace pulsewheel

#include "daemon/core/timer_service.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "daemon/base/check.h"

namespace pulsewheel {
namespace {

/// `t` + `d`, or the last time that there is. Requires d >= 0.
MonoTime saturating_add(MonoTime t, Duration d) noexcept {
  if (t > MonoTime{} && d > MonoTime::max() - t) return MonoTime::max();
  return t + d;
}

}  // namespace

Timer::Timer(std::string_view name, Callback callback)
    : TimerHook(HookKind::kTimer), name_(name), callback_(std::move(callback)) {
  PULSEWHEEL_CHECK(callback_ != nullptr);
}

Timer::~Timer() {
  if (service_ != nullptr) service_->cancel(*this);
  if (destroyed_ != nullptr) *destroyed_ = true;
}

TimerService::TimerService(TimeWheel& wheel, TickClock clock, TimerErrorSink& errors) noexcept
    : wheel_(wheel), clock_(clock), errors_(errors) {}

TimerService::~TimerService() {
  PULSEWHEEL_CHECK(counts_.armed.value() == 0);  // else a timer would refer to a dead service
}

void TimerService::arm_after(Timer& timer, Duration delay, MonoTime now) noexcept {
  timer.period_ = Duration::zero();
  arm_at(timer, saturating_add(now, std::max(delay, Duration::zero())));
}

void TimerService::arm_every(Timer& timer, Duration period, MonoTime now) noexcept {
  timer.period_ = std::max(period, clock_.length());
  arm_at(timer, saturating_add(now, timer.period_));
}

void TimerService::cancel(Timer& timer) noexcept {
  disarm(timer);
  timer.paused_ = false;
}

void TimerService::pause(Timer& timer, MonoTime now) noexcept {
  if (!timer.armed()) return;
  timer.remaining_ = std::max(timer.due_ - now, Duration::zero());
  timer.paused_ = true;
  disarm(timer);
}

void TimerService::resume(Timer& timer, MonoTime now) noexcept {
  if (!timer.paused_) return;
  arm_at(timer, saturating_add(now, timer.remaining_));
}

void TimerService::arm_at(Timer& timer, MonoTime due) noexcept {
  PULSEWHEEL_CHECK(timer.service_ == nullptr || timer.service_ == this);
  if (!timer.armed()) counts_.armed.add(1);
  timer.service_ = this;
  timer.paused_ = false;
  timer.due_ = due;
  wheel_.arm(timer, clock_.ceil(due));
}

void TimerService::disarm(Timer& timer) noexcept {
  if (!timer.armed()) return;
  PULSEWHEEL_CHECK(timer.service_ == this);
  wheel_.cancel(timer);
  timer.service_ = nullptr;
  counts_.armed.add(-1);
}

void TimerService::fire(TimerHook& hook, MonoTime now) noexcept {
  PULSEWHEEL_CHECK(hook.kind() == HookKind::kTimer);
  auto& timer = static_cast<Timer&>(hook);
  PULSEWHEEL_CHECK(timer.service_ == this && !timer.linked());
  if (now < timer.due_) {
    wheel_.arm(timer, clock_.ceil(timer.due_));
    return;
  }
  // Before the callback runs, so that whatever it does to its timer is the last word.
  if (timer.period_ > Duration::zero()) {
    arm_next(timer, now);
  } else {
    disarm(timer);
  }
  run(timer, now);
}

void TimerService::arm_next(Timer& timer, MonoTime now) noexcept {
  const auto missed = (now - timer.due_) / timer.period_;
  counts_.skipped.add(static_cast<std::uint64_t>(missed));
  arm_at(timer, saturating_add(timer.due_ + missed * timer.period_, timer.period_));
}

void TimerService::run(Timer& timer, MonoTime now) noexcept {
  // The callback may destroy its timer: it runs from the stack, and `destroyed` tells.
  bool destroyed = false;
  timer.destroyed_ = &destroyed;
  const std::string_view name = timer.name_;
  Timer::Callback callback = std::move(timer.callback_);

  counts_.fired.add();
  bool failed = true;
  const auto survivor = [&]() { return destroyed ? nullptr : &timer; };
  try {
    callback(now);
    failed = false;
  } catch (const std::exception& e) {
    count_failure(survivor(), name, e.what());
  } catch (...) {
    count_failure(survivor(), name, "not a std::exception");
  }
  if (destroyed) return;
  if (!failed) timer.failures_in_a_row_ = 0;
  timer.callback_ = std::move(callback);
  timer.destroyed_ = nullptr;
}

void TimerService::count_failure(Timer* timer, std::string_view name,
                                 std::string_view what) noexcept {
  counts_.failed.add();
  bool cancelled = false;
  if (timer != nullptr && ++timer->failures_in_a_row_ >= kFailuresInARowMax) {
    timer->failures_in_a_row_ = 0;
    cancelled = timer->period_ > Duration::zero() && (timer->armed() || timer->paused());
    if (cancelled) cancel(*timer);
  }
  if (cancelled) counts_.cancelled_by_failures.add();
  errors_.on_timer_failure(name, what, cancelled);
}

}  // namespace pulsewheel

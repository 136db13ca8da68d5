#include "daemon/core/session_fsm.h"

#include <limits>

#include "daemon/base/check.h"

namespace pulsewheel {
namespace {

/// The shortest timeout that leaves room for an interval: 2 ms / 1.5 is one whole millisecond.
constexpr std::uint64_t kTimeoutMsMin = 2;
constexpr std::uint64_t kTimeoutMsMax = std::numeric_limits<std::uint32_t>::max();

/// Whole milliseconds of `d`, cut to what the wire can carry.
std::uint32_t to_wire_ms(std::chrono::milliseconds d, std::uint64_t floor) noexcept {
  const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(d.count(), 0));
  return static_cast<std::uint32_t>(std::clamp(ms, floor, kTimeoutMsMax));
}

}  // namespace

NegotiatedTimeout negotiate(const TimeoutPolicy& policy, std::uint32_t wished_interval_ms,
                            std::uint32_t jitter) noexcept {
  using std::chrono::milliseconds;
  const std::uint64_t wish = wished_interval_ms;
  // Rounded up, so that the advised interval of an odd wish is not shorter than the wish.
  const milliseconds wished_timeout{static_cast<std::int64_t>((3 * wish + 1) / 2)};
  const auto timeout =
      wish == 0 ? std::chrono::floor<milliseconds>(policy.timeout_default) : wished_timeout;
  // The bounds in whole milliseconds inside [min, max].
  const auto lower = std::chrono::ceil<milliseconds>(policy.timeout_min);
  const auto upper = std::chrono::floor<milliseconds>(policy.timeout_max);
  const std::uint32_t timeout_ms =
      to_wire_ms(std::min(std::max(timeout, lower), upper), kTimeoutMsMin);

  const std::uint64_t longest = std::uint64_t{timeout_ms} * 2 / 3;
  const std::uint64_t shortened = longest - jitter % (longest / 10 + 1);
  return {timeout_ms, static_cast<std::uint32_t>(shortened)};
}

SessionFsm::SessionFsm(MonoTime accepted, Duration login_timeout) noexcept
    : last_packet_(accepted),
      timeout_ms_(to_wire_ms(std::chrono::ceil<std::chrono::milliseconds>(login_timeout), 0)) {}

SessionStep SessionFsm::on_login(std::uint32_t wished_interval_ms) noexcept {
  if (state_ == SessionState::kClosed) return SessionStep::kNone;
  if (state_ != SessionState::kAwaitingLogin) return SessionStep::kNotAllowed;
  state_ = SessionState::kLoginPending;
  wished_interval_ms_ = wished_interval_ms;
  return SessionStep::kSubmitLogin;
}

SessionStep SessionFsm::on_logout(MonoTime now) noexcept {
  const SessionStep step = on_life(now);
  return step == SessionStep::kAlive ? SessionStep::kLogout : step;
}

void SessionFsm::on_login_accepted(MonoTime login_at, NegotiatedTimeout timeout) noexcept {
  PULSEWHEEL_CHECK(state_ == SessionState::kLoginPending);
  state_ = SessionState::kActive;
  last_packet_ = std::max(last_packet_, login_at);
  timeout_ms_ = timeout.timeout_ms;
}

std::optional<NegotiatedTimeout> SessionFsm::on_policy_changed(const TimeoutPolicy& policy,
                                                               std::uint32_t jitter,
                                                               MonoTime now) noexcept {
  using std::chrono::milliseconds;
  if (state_ != SessionState::kActive) return std::nullopt;
  const NegotiatedTimeout changed = negotiate(policy, wished_interval_ms_, jitter);
  if (changed.timeout_ms == timeout_ms_) return std::nullopt;
  const MonoTime before = unheld_deadline();
  timeout_ms_ = changed.timeout_ms;
  const MonoTime since_told = std::max(now, last_packet_) + timeout();
  const Duration grace = std::min(before, since_told) - (last_packet_ + timeout());
  grace_ms_ = to_wire_ms(std::chrono::ceil<milliseconds>(grace), 0);
  return changed;
}

void SessionFsm::release(MonoTime since, MonoTime now) noexcept {
  using std::chrono::milliseconds;
  if (!held_) return;
  held_ = false;
  const Duration left = unheld_deadline() - std::max(since, last_packet_);
  const Duration grace = now + std::max(left, Duration{0}) - (last_packet_ + timeout());
  grace_ms_ = to_wire_ms(std::chrono::ceil<milliseconds>(grace), 0);
}

}  // namespace pulsewheel

// SessionFsm: what each packet means for one session. Pure: told the time, does no I/O.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/base/time.h"

namespace pulsewheel {

/// How wishes become timeouts. See presence.* in the configuration.
struct TimeoutPolicy {
  Duration timeout_default{std::chrono::seconds{30}};  // for a wish of 0
  Duration timeout_min{std::chrono::seconds{5}};
  Duration timeout_max{std::chrono::hours{24}};

  friend bool operator==(const TimeoutPolicy&, const TimeoutPolicy&) = default;
};

/// What holds for a session after login; whole milliseconds, as told to the client.
struct NegotiatedTimeout {
  std::uint32_t timeout_ms = 0;
  std::uint32_t interval_ms = 0;  // advised: timeout / 1.5, less a jitter of at most a tenth

  friend bool operator==(const NegotiatedTimeout&, const NegotiatedTimeout&) = default;
};

/// timeout = 1.5 x wish, clamped to [min, max]; a wish of 0 takes the default. `jitter` is any
/// random number: it only ever shortens the advised interval, by 0 to 10 percent, so that clients
/// which start together drift apart. Any wish is accepted; the answer says what holds: a timeout
/// of 2 ms at least, and 1 ms <= interval <= timeout / 1.5.
[[nodiscard]] NegotiatedTimeout negotiate(const TimeoutPolicy& policy,
                                          std::uint32_t wished_interval_ms,
                                          std::uint32_t jitter) noexcept;

enum class SessionState : std::uint8_t {
  kAwaitingLogin,  // accepted; only LOGIN is allowed
  kLoginPending,   // the home shard decides; reading pauses, the login deadline runs on
  kActive,
  kClosed,  // nothing changes any more, whatever still arrives
};

/// What the shell has to do about a packet.
enum class SessionStep : std::uint8_t {
  kNone,         // nothing: closed already
  kSubmitLogin,  // ask the home shard; on_login_accepted() or close() follows
  kAlive,        // proof of life: the deadline has moved, file it; reply if one is wanted
  kLogout,       // proof of life and goodbye: acknowledge, then close
  kNotAllowed,   // the state forbids this packet: protocol error, close
};

/// Confined to its shard's thread; lives inside the Session (24 bytes). Invariant: from
/// construction on there is a deadline, so no state exists in which a silent peer stays for ever.
/// The functions of the packet path are inline: a keepalive is one compare and two stores.
class SessionFsm {
 public:
  /// The login deadline counts from `accepted`, whatever is sent before LOGIN is complete.
  /// `login_timeout` is rounded up to whole milliseconds.
  SessionFsm(MonoTime accepted, Duration login_timeout) noexcept;

  /// `wished_interval_ms` is what the client asks for now and whenever the policy changes; 0: it
  /// leaves the choice to the server.
  [[nodiscard]] SessionStep on_login(std::uint32_t wished_interval_ms = 0) noexcept;
  [[nodiscard]] SessionStep on_keepalive(MonoTime now) noexcept { return on_life(now); }
  [[nodiscard]] SessionStep on_message(MonoTime now) noexcept { return on_life(now); }
  /// The state stays kActive until close(), so that the end is reported like any other.
  [[nodiscard]] SessionStep on_logout(MonoTime now) noexcept;

  /// The home shard accepted; the LOGIN arrived at `login_at`. Requires kLoginPending.
  void on_login_accepted(MonoTime login_at, NegotiatedTimeout timeout) noexcept;
  /// The policy has changed: negotiates the client's wish anew. Returns what holds from now on, to
  /// be told to the client, where that is another timeout; nullopt where nothing changes (the
  /// interval follows the timeout) or the session is not active.
  ///
  /// A longer timeout counts from the last packet. A shorter one counts from `now` until the next
  /// packet, but never makes the deadline later than it was: so nobody goes offline by a timeout
  /// of which the client could not know yet, and nobody stays online longer for being told. Of a
  /// held session `now` is when its time stopped: so it never has more left than a packet would
  /// give it, and no packet moves a deadline back.
  [[nodiscard]] std::optional<NegotiatedTimeout> on_policy_changed(const TimeoutPolicy& policy,
                                                                   std::uint32_t jitter,
                                                                   MonoTime now) noexcept;
  /// The session's time stands still from `since` on, which its caller keeps: until release() there
  /// is no deadline(). No effect on one that is held, or not active.
  void hold() noexcept { held_ = state_ == SessionState::kActive; }
  /// What was left at `since` is left now; or the whole timeout where a packet has come meanwhile.
  /// No effect on a session that is not held.
  void release(MonoTime since, MonoTime now) noexcept;
  [[nodiscard]] bool held() const noexcept { return held_; }
  /// Idempotent.
  void close() noexcept { state_ = SessionState::kClosed; }

  [[nodiscard]] SessionState state() const noexcept { return state_; }
  /// When silence becomes final: the login deadline before login, last packet + timeout after; for
  /// a timeout that was shortened since the last packet see on_policy_changed(). The end of all
  /// time while held.
  [[nodiscard]] MonoTime deadline() const noexcept {
    return held_ ? MonoTime::max() : unheld_deadline();
  }
  /// What the deadline would be without the hold that is under way.
  [[nodiscard]] MonoTime unheld_deadline() const noexcept {
    return last_packet_ + timeout() + std::chrono::milliseconds{grace_ms_};
  }
  /// The last complete valid packet; the accept before login.
  [[nodiscard]] MonoTime last_packet() const noexcept { return last_packet_; }
  [[nodiscard]] Duration timeout() const noexcept { return std::chrono::milliseconds{timeout_ms_}; }

 private:
  SessionStep on_life(MonoTime now) noexcept {
    if (state_ != SessionState::kActive) [[unlikely]]
      return not_active();
    last_packet_ = std::max(last_packet_, now);  // a deadline never moves back
    grace_ms_ = 0;
    return SessionStep::kAlive;
  }
  [[nodiscard]] SessionStep not_active() const noexcept {
    return state_ == SessionState::kClosed ? SessionStep::kNone : SessionStep::kNotAllowed;
  }

  MonoTime last_packet_;      // the accept, until login
  std::uint32_t timeout_ms_;  // the login timeout, until login
  std::uint32_t grace_ms_ =
      0;  // beyond the timeout until the next packet: it was shortened, or held
  std::uint32_t wished_interval_ms_ = 0;
  SessionState state_ = SessionState::kAwaitingLogin;
  bool held_ = false;
};

static_assert(sizeof(SessionFsm) == 24);

}  // namespace pulsewheel

// Judge: holds the daemon's edges against the simulator's own record of what its users did.
// Pure: told the time, no clock, no sockets, no daemon code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/time.h"
#include "tests/client_sim/daemon_restart.h"
#include "tests/client_sim/lateness.h"
#include "tests/client_sim/ring_record.h"

namespace pulsewheel::sim {

/// The clock, read before and after a send. The daemon cannot have had the bytes earlier than
/// `before`, and had them in its socket at `after`: early is judged by the first, late by the
/// second.
struct Stamp {
  MonoTime before;
  MonoTime after;
};

struct JudgeRules {
  /// The daemon's tick: an offline edge is due in [T, T + tick] after the last packet.
  Duration tick = std::chrono::seconds{1};
  /// How much later an edge may be seen without a promise being broken: the daemon's own 50 ms,
  /// and its way through the event log's file to this process on a busy machine.
  Duration slack = std::chrono::milliseconds{250};
  /// How much later still an edge counts as late; after that it is missed.
  Duration grace = std::chrono::seconds{1};
  /// How long a daemon that was stopped may read what has come meanwhile before it must have
  /// expired whoever was silent.
  Duration drain = std::chrono::seconds{1};
  /// What users have on top of their timeouts behind a restart.
  Duration restart_grace = std::chrono::seconds{60};
  /// How old the daemon's knowledge may be behind a kill.
  Duration snapshot_age = std::chrono::seconds{62};
  /// The daemon runs with presence.on_disconnect = "offline": a connection that closes ends its
  /// session at once.
  bool offline_on_disconnect = false;
  /// Nobody but the simulator kicks: an edge with reason kicked needs a kick_sent() before it.
  bool kicks_are_ours = false;
};

/// Why a user's state changed, as the event log says.
enum class Reason : std::uint8_t {
  kLogin,
  kTimeout,
  kLogout,
  kDisconnect,
  kKicked,
  kShutdown,
  kOther,
};

/// One edge as it was read from the event log.
struct ObservedEdge {
  enum class Kind : std::uint8_t { kOnline, kOffline };
  Kind kind = Kind::kOnline;
  Reason reason = Reason::kLogin;
  MonoTime at;  // of the read that brought it

  /// The daemon says that an operator or its own stop ended the user, and not a silence.
  [[nodiscard]] bool is_excused() const noexcept {
    return reason == Reason::kKicked || reason == Reason::kShutdown;
  }
};

/// What was found so far; merge() adds up what several judges found.
struct Verdict {
  std::uint64_t online_edges = 0;
  std::uint64_t offline_edges = 0;
  std::uint64_t kicked_edges = 0;      // of the offline ones
  std::uint64_t false_offline = 0;     // before T had passed
  std::uint64_t missed_offline = 0;    // never, or later than tick + slack + grace
  std::uint64_t late_offline = 0;      // later than tick + slack, but not missed
  std::uint64_t missing_online = 0;    // logged in and answered, but no edge
  std::uint64_t duplicate_edges = 0;   // a second one of a kind, or one before what causes it
  std::uint64_t wrong_reasons = 0;     // an edge with a reason that its user gave no cause for
  std::uint64_t untold_takeovers = 0;  // the old connection was not told, or the new one was not
  std::uint64_t repeated_edges = 0;    // behind a kill, as they may be
  Lateness lateness;                   // beyond T, of offline edges that silence caused
  Lateness lateness_after_stall;  // the same where the daemon was stopped when the edge was due,
                                  // beyond the moment when it ran again

  [[nodiscard]] std::uint64_t violations() const noexcept {
    return false_offline + missed_offline + late_offline + missing_online + duplicate_edges +
           wrong_reasons + untold_takeovers;
  }
  [[nodiscard]] bool clean() const noexcept { return violations() == 0; }
  void merge(const Verdict& other);
};

/// A broken promise, for whoever has to look into it.
struct Finding {
  std::uint32_t user = 0;
  std::string text;  // what was broken, and all that is known of the user, times before that moment
};

/// Judges the users of one worker. Not thread-safe: confined to the worker's thread.
///
/// Sessions are numbered 0 to users * sessions_per_user - 1; session s belongs to user
/// s / sessions_per_user. What a session does is told as it happens; edges may be told late, as
/// long as each carries the time at which it was seen and a user's edges come in order.
///
/// A user is due to go offline when the latest deadline of its sessions has passed: T after the
/// last packet, also of a session whose connection closed (it lingers); a session that logged out
/// has no deadline. A packet sent after the user was already due is no proof of life in time: the
/// user may or, when it came late enough, must have gone offline before it. That gap is
/// remembered until an edge or finish() settles it.
///
/// A session is one of a user with one device label. A LOGIN of a session whose connection is
/// still open is a takeover: it moves the deadline like a packet, and causes no edge.
///
/// Behind a restart the daemon knows whoever was online, and each user's time is what was left of
/// it, with restart_grace on top, from the new start on; behind a kill only up to the last
/// snapshot: of users with younger changes an edge may come again, or not at all.
///
/// While the daemon is stopped it can neither read nor expire. What was sent to it meanwhile has
/// arrived when it runs again, and what was due meanwhile is due then; both with `drain` on top.
class Judge {
 public:
  Judge(const JudgeRules& rules, std::uint32_t users, std::uint32_t sessions_per_user);

  /// A LOGIN went out. It counts as life at once; login_refused() takes that back.
  void login_sent(std::uint32_t session, Stamp stamp);
  /// LOGIN_ACK came: the user has to be online, with this timeout.
  void login_accepted(std::uint32_t session, MonoTime at, Duration timeout);
  /// The connection ended without LOGIN_ACK. The daemon may have taken the LOGIN or not, so both
  /// are allowed from here.
  void login_refused(std::uint32_t session);
  /// SETTINGS was read at `at`, not more than a slack after it had been sent: this timeout holds
  /// from then on. A longer one counts from the last packet, a shorter one from SETTINGS, until the
  /// next packet; but no deadline moves back (proto/PROTOCOL.md, "Time").
  void timeout_changed(std::uint32_t session, Duration timeout, MonoTime at);
  /// A keepalive or message went out.
  void packet_sent(std::uint32_t session, Stamp stamp);
  void logout_sent(std::uint32_t session, Stamp stamp);
  /// The daemon answered the LOGOUT: even a LOGIN right after it must not save the user the edge.
  void logout_answered(std::uint32_t session) noexcept;
  /// The client closed the connection.
  void closed(std::uint32_t session, Stamp stamp);
  /// The connection ended by the daemon or the network.
  void lost(std::uint32_t session) noexcept;
  /// A takeover was not told as it must be.
  void takeover_untold(std::uint32_t session, MonoTime at) {
    find(&Verdict::untold_takeovers, "a takeover untold", user_of(session), at);
  }

  /// The simulator is about to kick `user`. Until the edge was seen, or the kick failed, none of
  /// the user's sessions may log in.
  void kick_sent(std::uint32_t user) noexcept { users_[user].kicked = true; }

  /// The daemon was stopped (SIGSTOP), and runs again. In turns.
  void daemon_stopped(MonoTime at);
  void daemon_continued(MonoTime at);
  /// It was ended and started again: call behind daemon_stopped() and daemon_continued() for the
  /// time in between.
  void daemon_restarted(const DaemonRestart& restart);
  /// Whether the daemon is stopped at `now`, or was so lately that it may still be reading.
  [[nodiscard]] bool is_stalled(MonoTime now) const noexcept {
    return !stalls_.empty() && now < stalls_.back().ended + rules_.drain;
  }
  /// While true, the daemon may be unable to accept: each LOGIN that is not answered is in doubt
  /// until it is. O(sessions) when it changes.
  void doubt_logins(bool doubted) noexcept;

  /// Requires `user` < users.
  void edge(std::uint32_t user, const ObservedEdge& edge);

  /// Judges what had to be seen by `end`, and nothing that was still allowed to come after it.
  /// Call once, when every edge that was seen by `end` has been told.
  [[nodiscard]] Verdict finish(MonoTime end);

  /// What is certain about each user at `now`, by the edges that were told and the packets that
  /// went out. O(sessions).
  [[nodiscard]] RingRecord record(MonoTime now) const;

  /// What was found so far: never grows smaller.
  [[nodiscard]] const Verdict& verdict() const noexcept { return verdict_; }
  /// What was found since the last call, of the first few of a run.
  [[nodiscard]] std::vector<Finding> take_findings();

 private:
  enum class State : std::uint8_t {
    kNone,      // never logged in, logged out, or known to be expired
    kPending,   // LOGIN sent, no answer yet
    kLive,      // accepted; the connection may have closed since
    kDoubtful,  // LOGIN sent, and no answer will come
  };

  /// Where a session's connection is, for the reason of the edge that the session causes.
  enum class Line : std::uint8_t { kOpen, kClosed, kLost };

  /// Of one run: what is broken again and again says no more.
  static constexpr std::size_t kFindingsMax = 10;

  /// A set of Reasons, one bit each.
  using Reasons = std::uint8_t;

  struct Session {
    Stamp last;             // of the last packet, or so much later as a deadline was kept
    Stamp packet;           // of the last packet
    Stamp certain;          // kDoubtful: of the last packet before the LOGIN in doubt
    MonoTime login_before;  // when the last LOGIN went out
    MonoTime login_after;   // and up to when it may have been unread, if that was in doubt
    MonoTime accepted_at;
    MonoTime closed_before;  // kClosed: when the client began to close
    Duration timeout{0};
    State state = State::kNone;
    Line line = Line::kOpen;
    bool was_live = false;  // when the last LOGIN went out: `certain` counts
    bool awaited = false;   // the answer to the last LOGIN may still come
  };

  /// When an offline edge may come, and from when on it is late.
  struct Window {
    bool due = false;                 // nothing is due for a user without a session
    bool by_silence = false;          // and not by a logout: the lateness is one beyond T
    bool certain = false;             // the edge is owed, whatever came right behind its cause
    bool stalled = false;             // what it counts from arrived while the daemon was stopped
    Reasons reasons = 0;              // that the edge may have
    MonoTime low = MonoTime::min();   // an edge before this is false
    MonoTime base = MonoTime::min();  // lateness counts from here
  };

  struct Stall {
    MonoTime began;
    MonoTime ended;  // kNever while it lasts
  };

  /// From when the lateness of an edge counts, and up to which it is in time.
  struct Due {
    MonoTime base;
    Duration in_time{0};
    bool stalled = false;
  };

  struct User {
    Window gap;  // while gap_open: what had been due before the packet at gap_end
    MonoTime gap_end;
    Stamp ended;            // while has_ended: of the last logout (or close, where that is one)
    MonoTime login_before;  // while has_login: of the first LOGIN since the last offline edge
    MonoTime accepted_at;   // while accepted: of the first LOGIN_ACK since then
    MonoTime last_edge = MonoTime::min();
    std::uint32_t ended_session = 0;  // while has_ended: whose end that was
    bool gap_open = false;
    bool has_ended = false;
    bool ended_answered = false;  // while has_ended: by LOGOUT_ACK
    bool ended_by_close = false;  // while has_ended: it was no logout
    bool kicked = false;
    bool has_login = false;
    bool accepted = false;
    bool online = false;     // as the log says
    bool uncertain = false;  // whether the daemon knows what the log says, since a restart
  };

  [[nodiscard]] std::uint32_t user_of(std::uint32_t session) const noexcept {
    return session / sessions_per_user_;
  }
  [[nodiscard]] std::span<Session> sessions_of(std::uint32_t user) noexcept;
  [[nodiscard]] Window window_of(std::uint32_t user) noexcept;
  void add_logout(const User& user, Window& window) const noexcept;
  [[nodiscard]] static Reasons reasons_of(const Session& session) noexcept;
  [[nodiscard]] MonoTime arrival_of(MonoTime sent, bool& stalled) const noexcept;
  [[nodiscard]] Due due_of(MonoTime base, bool stalled) const noexcept;
  [[nodiscard]] MonoTime missed_after(const Window& window) const noexcept;

  [[nodiscard]] RecordedUser recorded(std::uint32_t user, MonoTime now) const noexcept;

  [[nodiscard]] bool becomes_uncertain(std::uint32_t user, const DaemonRestart& restart) noexcept;
  void find(std::uint64_t Verdict::*kind, const char* name, std::uint32_t user, MonoTime at);
  [[nodiscard]] std::string known_of(std::uint32_t user, MonoTime at) const;

  void note_gap(std::uint32_t user, MonoTime before);
  void note_gap_before_login(std::uint32_t session, MonoTime accepted);
  void open_gap(std::uint32_t user, const Window& window, MonoTime end);
  void settle_gap(std::uint32_t user, MonoTime now);
  void end_session(std::uint32_t session, Stamp stamp, bool by_close);
  void end_sessions_logged_in_before(std::uint32_t user, MonoTime bound) noexcept;
  void on_online(std::uint32_t user, const ObservedEdge& edge);
  void on_offline(std::uint32_t user, const ObservedEdge& edge);
  void on_excused(std::uint32_t user, const ObservedEdge& edge);
  void settle_with(std::uint32_t user, const Window& window, const ObservedEdge& edge);
  void finish_user(std::uint32_t user, MonoTime end);

  JudgeRules rules_;
  std::uint32_t sessions_per_user_;
  std::vector<Session> sessions_;
  std::vector<User> users_;
  std::vector<Stall> stalls_;  // in order
  bool logins_doubted_ = false;
  Verdict verdict_;
  std::vector<Finding> findings_;
  std::size_t findings_left_ = kFindingsMax;
};

}  // namespace pulsewheel::sim

// Model: the promises of presence in their plainest form, checked against what truly happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/core/presence_registry.h"
#include "tests/sim/profile.h"
#include "tests/sim/trace.h"

namespace pulsewheel::nodesim {

/// A promise that was broken; what() says which one, with the last facts about the user.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What truly happened on one connection. Made by the model, and kept by it as long as anybody
/// may still speak of the connection.
struct Witness {
  enum class AtHome : std::uint8_t { kUnknown, kLive, kRunningOut, kForgotten };

  std::uint32_t number = 0;
  std::uint32_t user = 0;
  std::uint8_t device = 0;  // 0: no label
  std::uint32_t wish_ms = 0;

  MonoTime login_arrived{};  // in the socket
  bool login_waits = false;  // arrived, and not decided
  bool submitted = false;    // read, and sent to the home shard
  bool active = false;       // the answer has reached the session
  bool ended = false;
  CloseReason reason = CloseReason::kPeerClosed;  // ended
  SessionRef ref;                                 // submitted
  MonoTime last_read{};                           // submitted: the newest packet
  Duration timeout{0};                            // submitted: what holds
  MonoTime deadline{};                            // submitted: when silence is final
  MonoTime changed{};                             // submitted: when that was last another
  std::optional<MonoTime> held_since;             // active: its shard knows that its time stands
  MonoTime told{};                                // submitted: the deadline that the home knows

  AtHome at_home = AtHome::kUnknown;
  MonoTime due{};        // kRunningOut
  MonoTime silent_at{};  // kRunningOut: `due`, without holds when `spent`
  bool spent = false;    // kRunningOut: had run out beside a live session when a hold came
  EdgeReason ending = EdgeReason::kDisconnect;  // kRunningOut
  bool final = false;                           // kRunningOut: no deadline, offline at once
  std::uint64_t end_number = 0;                 // kRunningOut: in the order of their coming home

  unsigned holders = 0;
};

/// Knows no registry, wheel or state machine: packets arrive and are read, sessions end, home
/// shards decide in some order, and from that alone follows which edges are allowed, and when one
/// is missing. Checks, with T the timeout of a session and d a tick:
///
/// 1. Edges of a user alternate; one for each change; session ids grow.
/// 2. Never early: nobody is offline while a session is alive, or before the last one's deadline,
///    or while bytes that had arrived are unread in its socket, or while a LOGIN of this user that
///    had arrived by the deadline waits anywhere: in a socket, an accept queue, or mail.
/// 3. Never late: an edge falls on the first tick at or after its deadline, or is decided before
///    the node, as fast as its latencies and stalls let it, comes to rest; and within
///    Profile::lateness_max of the tick and of the last stall.
/// 4. Reason, due time and last_seen of each edge are right.
/// 5. A held user runs out for no reason, and has after the hold what was left when it began (all
/// of
///    it after a packet); a hold ends at its time.
/// 6. Whenever the node is at rest, what the registry says of each user is so, and a mirror that is
///    told edges and deadlines knows them, at most two ticks old.
///
/// Each fact costs O(sessions of the user) at most. Throws Violation.
class Model {
 public:
  Model(const Profile& profile, Trace& trace);

  // --- In the sockets ---

  Witness& on_connect(std::uint32_t user, std::uint8_t device, std::uint32_t wish_ms);
  void on_login_arrived(Witness& w, MonoTime now);
  void on_login_read(Witness& w, SessionRef ref, const Timeouts& timeouts, MonoTime now);
  /// A packet of a session whose login is answered.
  void on_packet_read(Witness& w, MonoTime now);
  /// The shard applies other timeouts to a session whose login is answered. Whether that changes
  /// what holds.
  bool on_timeouts(Witness& w, const Timeouts& timeouts, MonoTime now);
  /// The shard hears that the time of a session whose login is answered stands still, or goes on.
  void on_session_held(Witness& w, MonoTime since, MonoTime now);
  void on_session_released(Witness& w, MonoTime now);
  /// `began`: the round in which the shard decided that. `oldest_unread`: the arrival of the first
  /// packet that was not read.
  void on_session_ended(Witness& w, CloseReason reason, MonoTime began,
                        std::optional<MonoTime> oldest_unread, MonoTime now);
  /// Neither side will speak on this connection any more; `w` must not be used afterwards.
  void on_connection_gone(Witness& w);

  // --- At the home shards, in the order of their decisions ---

  /// Returns nothing; the answer's session is active when on_login_answered() says so.
  void on_login_decided(SessionRef session, const LoginDecision& decision, MonoTime now);
  void on_login_answered(Witness& w) noexcept { w.active = true; }
  void on_end_delivered(const SessionEnd& end, MonoTime now);
  void on_touch_delivered(const SessionTouch& touch, MonoTime now);
  void on_kick(std::uint32_t user, std::optional<std::size_t> live, MonoTime now);
  void on_hold(std::uint32_t user, PresenceRegistry::HoldVerdict verdict, MonoTime until,
               MonoTime now);
  void on_release(std::uint32_t user, std::optional<Duration> held, MonoTime now);
  /// A hold has ended by itself.
  void on_hold_over(std::uint32_t user, MonoTime now);
  void on_edge(const Edge& edge);
  /// A mirror of the edges hears until when a user stays online.
  void on_deadline_told(const UserDeadline& told);
  /// All edges of what was just decided have been told.
  void after_decision(MonoTime now);

  // --- The node ---

  void on_stall(MonoTime until);
  void on_shutdown() noexcept { shutting_down_ = true; }
  /// The node is gone, and with it everything that it knew.
  void on_gone(MonoTime now);
  /// Nothing is on its way, nobody has anything to do, until a later moment.
  void on_rest(MonoTime now) noexcept { last_rest_ = now; }

  // --- At rest ---

  [[nodiscard]] bool online(std::uint32_t user, MonoTime now) const;
  [[nodiscard]] std::size_t live_sessions() const noexcept { return live_; }
  void check_user(std::uint32_t user, const UserView& view, MonoTime now) const;
  /// Ends the simulation with the facts about `user`.
  [[noreturn]] void fail(const std::string& what, std::uint32_t user = Trace::kNobody) const;

  [[nodiscard]] Duration worst_lateness() const noexcept { return worst_lateness_; }
  [[nodiscard]] std::size_t witnesses() const noexcept { return pool_.size() - free_.size(); }

 private:
  struct User {
    bool online = false;
    bool came_online = false;  // by a login just decided; the edge is due
    bool must_leave = false;   // by an end just decided; the edge is due
    bool may_leave = false;    // by an end just decided that is final
    SessionId last_id = 0;
    MonoTime last_seen = MonoTime::min();
    MonoTime since{};                     // of the state
    MonoTime mirrored = MonoTime::min();  // the deadline that a mirror knows
    std::optional<MonoTime> held_since;
    MonoTime held_until{};  // held

    /// On the user's own time.
    [[nodiscard]] MonoTime now(MonoTime world) const { return held_since.value_or(world); }
    std::vector<Witness*> sessions;  // live or running out
    std::vector<Witness*> waiting;   // LOGINs that have arrived and are not decided
  };

  [[nodiscard]] MonoTime tick_of(MonoTime deadline) const noexcept;
  [[nodiscard]] Witness& witness_of(SessionRef session) const;
  void stop_waiting(Witness& w) noexcept;
  [[nodiscard]] static MonoTime due_of(const User& user, const Witness& w, MonoTime now);
  void go_on(User& user, MonoTime now);
  void forget(User& user, Witness& w);
  void forget_all(User& user);
  void release(Witness& w);
  void check_login(const User& user, const Witness& w, const LoginDecision& decision) const;
  void check_online(const User& user, const Edge& edge, std::uint32_t number) const;
  void check_offline(const User& user, const Edge& edge, std::uint32_t number);
  [[nodiscard]] static bool explains(const User& user, const Witness& session, const Edge& edge);
  void check_not_blind(const User& user, MonoTime due, std::uint32_t number) const;
  void check_mirror(const User& user, std::uint32_t number, MonoTime now) const;
  void check_not_late(const Edge& edge, MonoTime due, std::uint32_t number);

  const Profile& profile_;
  Trace& trace_;
  std::vector<User> users_;
  std::deque<Witness> pool_;
  std::vector<Witness*> free_;
  std::unordered_map<std::uint64_t, Witness*> by_ref_;  // logins that are not over at home
  std::uint32_t connections_ = 0;
  std::size_t live_ = 0;
  std::uint64_t ends_ = 0;
  std::uint32_t deciding_ = Trace::kNobody;  // the user of what is being decided
  std::uint32_t kicked_ = Trace::kNobody;
  bool shutting_down_ = false;
  MonoTime last_rest_ = MonoTime::min();
  MonoTime stalled_until_ = MonoTime::min();
  Duration worst_lateness_{0};
};

/// "u17", and back.
[[nodiscard]] std::string uid_of(std::uint32_t user);
[[nodiscard]] std::uint32_t user_of(std::string_view uid);

}  // namespace pulsewheel::nodesim

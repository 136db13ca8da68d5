// PresenceRegistry: the users whose home is one shard, and the edges of their states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/time.h"
#include "daemon/core/close_reason.h"
#include "daemon/core/edge.h"
#include "daemon/core/time_wheel.h"
#include "daemon/core/user_deadline.h"
#include "daemon/core/user_image.h"

namespace pulsewheel {

/// A LOGIN as the home shard sees it. The views need to live for the call only.
struct LoginRequest {
  std::string_view uid;     // 1 to 128 bytes, any values; checked by the codec
  std::string_view device;  // 0 to 64 bytes; empty: no label
  SessionRef session;       // the session that asks
  MonoTime at;              // when its LOGIN arrived: the session's first proof of life
  MonoTime deadline{};      // `at` + its timeout; looked at with track_deadlines only
};

enum class LoginVerdict : std::uint8_t {
  kAccepted,
  kTooManySessions,  // presence.sessions_per_user_max live sessions of this user already
  kServerFull,       // presence.users_max users already
};

/// What a session's shard knows newer than the user's home: see PresenceRegistry::touch().
struct SessionTouch {
  UserRef user;
  SessionRef session;
  MonoTime last_packet;
  MonoTime deadline;  // last packet + its negotiated timeout
};

struct LoginDecision {
  LoginVerdict verdict = LoginVerdict::kAccepted;
  UserRef user;                          // valid when accepted
  SessionId session_id = 0;              // valid when accepted
  std::optional<MonoTime> held_since{};  // the user is held: the session is, too
  /// The live session with the same uid and device that this login takes over: to be told and
  /// closed. The registry has forgotten it already: whatever it still reports changes nothing.
  std::optional<SessionRef> taken_over;
};

/// How a session ended, as its own shard knows it.
struct SessionEnd {
  UserRef user;
  SessionRef session;
  CloseReason reason = CloseReason::kPeerClosed;
  MonoTime last_packet;
  MonoTime deadline;                     // last packet + its negotiated timeout, without any hold
  std::optional<MonoTime> held_since{};  // by what its shard knows
  Duration timeout{0};                   // as negotiated with its client, to be shown; 0: not known
};

enum class PresenceState : std::uint8_t { kOffline, kOnline, kUnknown };
[[nodiscard]] std::string_view to_string(PresenceState state) noexcept;

struct UserSession {
  SessionRef session;  // generation 0 for a lingering one: nobody there to ask
  SessionId id = 0;
  std::string device;
  bool lingering = false;
  MonoTime login_at;
  MonoTime last_packet;  // exact for a lingering session; the login for a live one (ask its shard)
  MonoTime deadline;     // of a lingering session; of a live one as last touched, or the epoch
  Duration timeout{0};   // of a lingering session that has ended in this run; 0: not known here
};

/// An operator has paused a user's expiry.
struct HoldView {
  MonoTime since;
  MonoTime until;
};

struct UserView {
  PresenceState state = PresenceState::kOffline;
  std::optional<MonoTime> since;      // of the state; nullopt: no record
  std::optional<MonoTime> last_seen;  // the newest that is known here: ask live sessions, too
  std::optional<EdgeReason> reason;   // of the edge at `since`; nullopt: no edge is known
  std::optional<HoldView> hold;       // then deadlines below are on the user's own time: see hold()
  std::vector<UserSession> sessions;
  std::optional<TimeWheel::Place> linger_place;  // where the hook of lingering sessions is filed
};

/// One of the users of a shard.
struct ListedUser {
  std::string uid;
  UserView view;
};

/// Confined to its shard's thread; pure: told the time, no I/O. A user's state comes from its set
/// of sessions, live and lingering, never from a counter: online while the set is not empty.
/// Each change of state pushes exactly one edge to the batch passed in.
///
/// A session that ends with a lingering reason stays in the set, without a connection, until its
/// deadline comes round on the wheel, also where the deadline has passed already: only then is it
/// known that the user is not coming back through another shard. At most one lingering session
/// stays per device label (no label counts as one): the one with the latest deadline; a new login
/// with that label replaces it. So a client that comes back and then logs out is offline at once,
/// and its old connection's linger does not outlive the logout.
///
/// A final end waits for the wheel likewise, at most a tick, where others of the user linger and
/// have run out: whether they are back may lie unread.
///
/// Of two sessions that had run out by the time the user went offline, the later one gives the edge
/// its reason and `due`. But while one session is alive as far as is known here, what ends beside
/// it is of no account any more: should it then turn out to have run out, too, even earlier (its
/// end comes from another shard a moment later, or from one that was stalled), its own end is that
/// of the user. When the edge is made does not depend on that. At most sessions_per_user_max
/// sessions linger beside the live ones; the earliest goes first, which never changes when the user
/// ends.
///
/// `now` is the time at which the caller's round began and must not go back. last_seen is the
/// newest proof of life that was reported here: logins and ends, not the keepalives in between.
///
/// A user can be held: its own time stands still then, from hold() until release(), or until the
/// hold's end, which every hold has. No session runs out meanwhile, live or lingering, whether
/// packets come or not; one that had run out when the hold came and was not decided yet waits with
/// nothing left. At the release each session has the time left that it had at the hold; its whole
/// timeout where it has had a packet since, or logged in. Who ends for another reason ends as ever:
/// a closed connection lingers with what it had left, and after a last logout or a kick the user is
/// offline, and not held any more. Sessions that log in while the user is held are held, too.
///
/// Memory: at most 120 B for a user with a 16-byte uid, one live session and no device label,
/// everything included (hash set, allocator overhead); allocated slots are reused, not returned.
/// Where memory runs out std::bad_alloc is thrown and nothing has changed: refuse the login, or
/// call again.
class PresenceRegistry {
 public:
  struct Options {
    ShardIndex shard = 0;
    std::uint64_t node_epoch = 1;
    bool linger = true;  // presence.on_disconnect = "linger"; false: every end is final at once
    std::uint32_t sessions_per_user_max = 16;
    std::size_t users_max = 1'000'000;                   // online users of this shard
    Duration offline_retention{std::chrono::hours{24}};  // how long an offline user is remembered
    std::size_t offline_users_max = 100'000;             // of this shard; the oldest go first
    std::uint64_t hash_seed = 0;
    /// Until then a uid without a record is kUnknown: after a crash nobody can tell who was online.
    MonoTime unknown_until = MonoTime::min();
    /// The same for who is offline since before this: it is what the last snapshot of a run that
    /// crashed says, and nobody can tell who has come since.
    MonoTime run_began = MonoTime::min();
    /// Keep each online user's deadline, for a mirror: 24 B a user, and the sessions' shards have
    /// to touch(). Fixed.
    bool track_deadlines = false;
    std::size_t holds_max = 10'000;  // users of this shard who are held: 100 B each. Fixed
  };

  /// `wheel` is the shard's: lingering users wait on it with hooks of kind kLinger; it must
  /// outlive the registry. `clock` turns deadlines into ticks.
  PresenceRegistry(const Options& options, TimeWheel& wheel, TickClock clock);
  ~PresenceRegistry();
  PresenceRegistry(const PresenceRegistry&) = delete;
  PresenceRegistry& operator=(const PresenceRegistry&) = delete;

  /// Takes over linger, sessions_per_user_max, users_max, offline_retention and offline_users_max
  /// from `options`; the rest stays. No edge comes of it: who is in stays in, who lingers lingers
  /// on, and what is over a lowered limit goes with the next forget_offline(), or the next end of
  /// a session of that user.
  void change(const Options& options) noexcept;
  [[nodiscard]] const Options& options() const noexcept;

  /// Decides a LOGIN. An edge when the user was offline. Requires a uid that is not empty, and a
  /// session that has a generation. O(sessions of the user).
  LoginDecision login(const LoginRequest& request, MonoTime now, EdgeBatch& edges);

  /// Takes back a user who was online when the node ended, as lingering until `deadline` (in the
  /// future), without an edge: nobody was told of an end. Who does not come back by then has timed
  /// out: it was no end of a connection that anybody saw. Somebody who lingers already has what is
  /// newer of the two from then on. False unless the user comes online by it: not where users_max
  /// are. Requires a uid that is not empty.
  bool restore(std::string_view uid, MonoTime last_seen, MonoTime deadline, MonoTime now);

  /// Takes back a user as an earlier run has written it down, without an edge: online and lingering
  /// with these `sessions`, whose deadlines are in the future, or offline where there are none. Of
  /// several sessions with one device label, and of more than sessions_per_user_max, those with the
  /// latest deadlines count. False, and nothing changes: there is a record of this uid already,
  /// users_max are online, or the offline user is not to be remembered any more. Requires a uid
  /// that is not empty, and calls for offline users in order of `since`.
  bool restore(const UserImage& user, std::span<const SessionImage> sessions, MonoTime now);

  /// Removes a session, or lets it linger. A late end of a session that was taken over, or of a
  /// user that is gone, changes nothing: returns false. A timeout that is reported while `now` is
  /// still before its deadline (shards read their clocks apart) is not early: it lingers until
  /// then. Else the caller knows that nothing of this user had arrived unread at the deadline of a
  /// timeout, as for expire_lingering(). O(sessions of the user).
  bool end_session(const SessionEnd& end, MonoTime now, EdgeBatch& edges);

  /// The lingering deadline of the user that `hook` (kind kLinger, just expired and taken off its
  /// list) belongs to has come, and no LOGIN that had arrived by then is unread: drops what is due
  /// at `now`; an edge when nobody is left, else arms the hook again. Never early: a hook handed in
  /// before its time is armed again. The hook may be gone afterwards.
  void expire_lingering(TimerHook& hook, MonoTime now, EdgeBatch& edges);

  /// Ends all sessions of a user at once. The live ones are appended to `live`, to be closed by
  /// their shards. `last_packet`: the newest one of a live session, where the caller knows it.
  /// False: not online.
  bool kick(std::string_view uid, MonoTime now, EdgeBatch& edges, std::vector<SessionRef>& live,
            MonoTime last_packet = MonoTime::min());

  // --- Holds ---

  enum class HoldVerdict : std::uint8_t {
    kHeld,       // from now on, or as before but with another end
    kNotOnline,  // nothing that could be paused
    kTooMany,    // Options::holds_max users are held already
  };
  /// Holds a user until `until`, which is after `now`. The live sessions are appended to `live`:
  /// their shards have to pause them, from find()'s hold->since on. O(sessions of the user).
  HoldVerdict hold(std::string_view uid, MonoTime until, MonoTime now,
                   std::vector<SessionRef>& live);

  /// Ends a hold. The live sessions are appended to `live`: their shards have to let them go on.
  /// How long the user was held; nullopt: not held. O(sessions of the user).
  std::optional<Duration> release(std::string_view uid, MonoTime now,
                                  std::vector<SessionRef>& live);

  /// The end of the hold that `hook` (kind kHold, just expired and taken off its list) belongs to
  /// has come: release(). Returns the uid, which is valid until the next change. Never early: a
  /// hook handed in before its time is armed again, and the uid is empty.
  std::string_view expire_hold(TimerHook& hook, MonoTime now, std::vector<SessionRef>& live);

  /// Ends every user, with reason kShutdown: for a stop without a snapshot. Looks at `budget`
  /// slots a call; false while users are left.
  bool shutdown(MonoTime now, std::size_t budget, EdgeBatch& edges);

  /// Forgets offline users whose retention is over, or who are too many since offline_users_max
  /// was lowered, at most `budget`. The time at which the next one is due (in the past while work
  /// is left), nullopt when none is remembered.
  std::optional<MonoTime> forget_offline(MonoTime now, std::size_t budget);

  /// Appends the users in `budget` slots from `*cursor` on (0 at first), online and offline, and
  /// moves the cursor. False when all slots have been seen. Users who come and go in between may be
  /// in it or not, all others are, once. Of live sessions it knows the login only.
  bool list_users(std::uint32_t* cursor, std::size_t budget, UserImageBatch& out) const;

  // --- With track_deadlines ---

  /// A live session has had packets: notes its deadline and the user's last_seen. False for a
  /// session or user that is gone. O(sessions of the user).
  bool touch(const SessionTouch& touch);

  /// Whether take_deadlines() has something to say.
  [[nodiscard]] bool deadlines_changed() const noexcept;

  /// Appends the users who are online and whose deadline is another than when it was last taken (of
  /// a held user: when it is at the latest):
  /// those of at most `budget` changes, oldest first. Several changes of a user count once, and
  /// who is offline by now is left out. False while changes are left.
  bool take_deadlines(std::size_t budget, DeadlineBatch& out);

  /// Appends the online users in `budget` slots from `*cursor` on (0 at first), whether changed or
  /// not, and moves the cursor. False when all slots have been seen. Users who come and go in
  /// between may be in it or not, all others are, once.
  bool list_deadlines(std::uint32_t* cursor, std::size_t budget, DeadlineBatch& out) const;

  /// A uid without a record is offline, or unknown before Options::unknown_until; so is one that
  /// is offline since before Options::run_began.
  [[nodiscard]] UserView find(std::string_view uid, MonoTime now) const;

  /// Appends online users from slot `*cursor` on (0 at first) until it has looked at `slots` of
  /// them or found `users`, and moves the cursor. False when all slots have been seen. Who is
  /// online from the first call to the last is in it exactly once; who comes or goes in between may
  /// be.
  bool list_online(std::uint32_t* cursor, std::size_t slots, std::size_t users,
                   std::vector<ListedUser>& out) const;

  [[nodiscard]] std::size_t online_users() const noexcept;
  [[nodiscard]] std::size_t offline_users() const noexcept;    // remembered
  [[nodiscard]] std::size_t lingering_users() const noexcept;  // online without a live session
  [[nodiscard]] std::size_t held_users() const noexcept;
  [[nodiscard]] std::size_t live_sessions() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The home shard of a uid: seeded, so that nobody outside can aim at one shard. `shards` >= 1.
[[nodiscard]] ShardIndex home_shard_of(std::string_view uid, std::uint64_t seed,
                                       std::size_t shards) noexcept;

}  // namespace pulsewheel

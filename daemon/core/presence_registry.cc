#include "daemon/core/presence_registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/siphash.h"
#include "daemon/core/user_holds.h"
#include "daemon/core/user_table.h"

namespace pulsewheel {
namespace {

/// Keeps the choice of a home apart from the hash inside the table: with one hash for both, the
/// users of a shard would fill only a part of its table.
constexpr std::uint64_t kHomeDomain = 0x686f'6d65ULL;

// The layout of a SessionId, see there.
constexpr unsigned kShardBits = 10;
constexpr unsigned kCountBits = 30;
constexpr SessionId kIdStep = SessionId{1} << kShardBits;

/// Why and when a user's last session stopped being alive.
struct Ending {
  EdgeReason reason = EdgeReason::kDisconnect;
  MonoTime due = MonoTime::min();
};

EdgeReason edge_reason_of(CloseReason reason) noexcept {
  switch (reason) {
    case CloseReason::kLogout:
      return EdgeReason::kLogout;
    case CloseReason::kTimeout:
      return EdgeReason::kTimeout;
    case CloseReason::kKicked:
      return EdgeReason::kKicked;
    default:
      return EdgeReason::kDisconnect;
  }
}

/// Whether this session keeps its user online at `now`.
bool keeps_alive(const SessionRecord& session, MonoTime now) noexcept {
  return session.live() || session.deadline > now;
}

template <class Predicate>
void erase_if(SessionGroup::Sessions& sessions, Predicate predicate) noexcept {
  sessions.erase(std::remove_if(sessions.begin(), sessions.end(), predicate), sessions.end());
}

std::size_t live_count(const UserRecord& user) noexcept {
  if (user.form == UserRecord::Form::kPlain) return 1;
  if (user.form != UserRecord::Form::kGroup) return 0;
  const auto& sessions = user.group->sessions;
  return static_cast<std::size_t>(
      std::count_if(sessions.begin(), sessions.end(), [](const auto& s) { return s.live(); }));
}

std::size_t lingering_count(const SessionGroup& group) noexcept {
  return static_cast<std::size_t>(std::count_if(group.sessions.begin(), group.sessions.end(),
                                                [](const auto& s) { return !s.live(); }));
}

std::size_t lingering_count(const UserRecord& user) noexcept {
  return user.form == UserRecord::Form::kGroup ? lingering_count(*user.group) : 0;
}

/// Calls `visit` for the reference of each live session.
template <class Visit>
void for_each_live(const UserRecord& user, Visit visit) {
  if (user.form == UserRecord::Form::kPlain) return visit(user.plain_ref());
  if (user.form != UserRecord::Form::kGroup) return;
  for (const SessionRecord& session : user.group->sessions) {
    if (session.live()) visit(session.session);
  }
}

SessionRecord* find_live(SessionGroup& group, SessionRef session) noexcept {
  for (SessionRecord& record : group.sessions) {
    if (record.live() && record.session == session) return &record;
  }
  return nullptr;
}

bool holds_live(const UserRecord& user, SessionRef session) noexcept {
  if (user.form == UserRecord::Form::kPlain) return user.plain_ref() == session;
  return user.form == UserRecord::Form::kGroup && find_live(*user.group, session) != nullptr;
}

/// Whether a login with this label takes over a live session of the user.
bool takes_over(const UserRecord& user, std::string_view device) noexcept {
  if (device.empty() || user.form != UserRecord::Form::kGroup) return false;
  const auto& sessions = user.group->sessions;
  return std::any_of(sessions.begin(), sessions.end(),
                     [device](const auto& s) { return s.live() && s.device == device; });
}

/// Of the lingering sessions with one label only that with the latest deadline stays: here
/// `latest`, which has just begun to linger, or the one before it.
void drop_twin(SessionGroup& group, const SessionRecord& latest) noexcept {
  for (auto it = group.sessions.begin(); it != group.sessions.end(); ++it) {
    if (&*it == &latest || it->live() || it->device != latest.device) continue;
    group.sessions.erase(it->deadline > latest.deadline
                             ? group.sessions.begin() + (&latest - group.sessions.data())
                             : it);
    return;
  }
}

/// Keeps at most `lingering_max` lingering sessions. The earliest goes first, which never changes
/// when the user ends: that is up to the latest.
void bound_lingering(SessionGroup& group, std::size_t lingering_max) noexcept {
  const auto earlier = [](const SessionRecord& a, const SessionRecord& b) {
    return !a.live() && (b.live() || a.deadline < b.deadline);
  };
  for (std::size_t count = lingering_count(group); count > lingering_max; --count) {
    group.sessions.erase(std::min_element(group.sessions.begin(), group.sessions.end(), earlier));
  }
}

/// Of the sessions of one user those that can linger side by side: the latest of each device label.
std::vector<SessionRecord> lingering_from(std::span<const SessionImage> sessions) {
  std::vector<SessionRecord> lingering;
  for (const SessionImage& image : sessions) {
    SessionRecord record{.session = {},
                         .ending = image.ending,
                         .id = 0,
                         .login_at = image.login_at,
                         .last_packet = image.last_packet,
                         .deadline = image.deadline,
                         .device = std::string(image.device)};
    const auto twin = std::find_if(lingering.begin(), lingering.end(), [&](const auto& other) {
      return other.device == record.device;
    });
    if (twin == lingering.end()) {
      lingering.push_back(std::move(record));
    } else if (twin->deadline < record.deadline) {
      *twin = std::move(record);
    }
  }
  return lingering;
}

/// How the user ends if the session `leaving` ends at `now` in the way of `own`: the later of
/// that and of the lingering sessions that have run out by now. nullopt: somebody else keeps the
/// user online.
std::optional<Ending> ending_without(const UserRecord& user, SessionRef leaving, Ending own,
                                     MonoTime now) noexcept {
  if (user.form != UserRecord::Form::kGroup) return own;
  Ending last = own;
  for (const SessionRecord& session : user.group->sessions) {
    if (session.live() && session.session == leaving) continue;
    if (keeps_alive(session, now)) return std::nullopt;
    if (session.deadline > last.due) last = {session.ending, session.deadline};
  }
  return last;
}

UserSession view_of(const SessionRecord& session) {
  return {.session = session.session,
          .id = session.id,
          .device = session.device,
          .lingering = !session.live(),
          .login_at = session.login_at,
          .last_packet = session.last_packet,
          .deadline = session.deadline};
}

/// Of a live session, whose deadline its own shard knows, nobody has seen an end.
SessionImage image_of(const SessionRecord& session) {
  return {.session = session.session,
          .ending = session.live() ? EdgeReason::kTimeout : session.ending,
          .login_at = session.login_at,
          .last_packet = session.last_packet,
          .deadline = session.live() ? session.login_at : session.deadline,
          .device = session.device};
}

UserView view_of(const UserRecord& user) {
  UserView view;
  view.since = user.since;
  view.last_seen = user.last_seen;
  if (user.has_edge) view.reason = user.edge_reason;
  if (!user.online()) return view;
  view.state = PresenceState::kOnline;
  if (user.form == UserRecord::Form::kPlain) {
    view.sessions.push_back({.session = user.plain_ref(),
                             .id = user.plain.id,
                             .device = {},
                             .lingering = false,
                             .login_at = user.plain.login_at,
                             .last_packet = user.plain.login_at,
                             .deadline = {}});
    return view;
  }
  for (const SessionRecord& session : user.group->sessions)
    view.sessions.push_back(view_of(session));
  view.linger_place = TimeWheel::place_of(*user.group);
  return view;
}

}  // namespace

std::string_view to_string(PresenceState state) noexcept {
  switch (state) {
    case PresenceState::kOffline:
      return "offline";
    case PresenceState::kOnline:
      return "online";
    case PresenceState::kUnknown:
      return "unknown";
  }
  return "?";
}

ShardIndex home_shard_of(std::string_view uid, std::uint64_t seed, std::size_t shards) noexcept {
  PULSEWHEEL_CHECK(shards >= 1 && shards <= std::size_t{1} << kShardBits);
  return static_cast<ShardIndex>(siphash13(uid, {seed, kHomeDomain}) % shards);
}

/// All that changes several things allocates first, so that what throws has changed nothing.
struct PresenceRegistry::Impl {
  Impl(const Options& opts, TimeWheel& the_wheel, TickClock the_clock)
      : options(opts),
        wheel(the_wheel),
        clock(the_clock),
        table(opts.hash_seed, the_wheel),
        holds(the_wheel, the_clock),
        last_id((opts.node_epoch << (kCountBits + kShardBits)) | opts.shard) {
    PULSEWHEEL_CHECK(options.shard < 1U << kShardBits);
  }

  [[nodiscard]] bool is_online(UserIndex index) const noexcept {
    return index != kNobody && table.at(index).online();
  }
  /// Whether there is a record, and not one that is only not swept yet.
  [[nodiscard]] bool remembers(UserIndex index, MonoTime now) const noexcept {
    return index != kNobody &&
           (table.at(index).online() || table.at(index).since + options.offline_retention > now);
  }
  [[nodiscard]] LoginVerdict admit(UserIndex index, std::string_view device) const noexcept;
  /// The first session of a user who is offline, or kNobody yet. Returns the user's slot.
  UserIndex go_online(UserIndex index, std::string_view uid, SessionRecord&& session, MonoTime now,
                      EdgeBatch& edges);
  /// One more session of an online user. Returns the live session that it takes over.
  std::optional<SessionRef> join(UserIndex index, SessionRecord&& session);
  /// Turns a live session into a lingering one.
  void linger(UserIndex index, const SessionEnd& end);
  /// Drops one live session of a user whom others keep online.
  void drop(UserIndex index, const SessionEnd& end) noexcept;
  /// Drops all sessions of an online user.
  void go_offline(UserIndex index, Ending ending, MonoTime last_seen, MonoTime now,
                  EdgeBatch& edges);
  /// Notes that the user's deadline may be another one. Room for it is made by reserve_change().
  void mark_changed(UserIndex index) noexcept;
  /// Room for one more user in what tracks deadlines. What throws has changed nothing.
  void reserve_change();
  [[nodiscard]] MonoTime deadline_of(UserIndex index) const noexcept;
  /// Puts a user who was online in an earlier run online again, without an edge.
  void bring_back(UserIndex index, std::unique_ptr<SessionGroup> group);
  /// Lets a user who lingers do so until `deadline` at least.
  void prolong(UserIndex index, MonoTime last_seen, MonoTime deadline);
  /// The group of an online user, with the deadline that is known of a plain session.
  SessionGroup& expand(UserIndex index);
  /// Where the user's own time stands, at which sessions run out: still, while held.
  [[nodiscard]] MonoTime time_of(UserIndex index, MonoTime now) const noexcept {
    const UserHold* const hold = holds.find(index);
    return hold != nullptr ? hold->since : now;
  }
  /// The deadline of a session that has ended, on the user's own time.
  [[nodiscard]] MonoTime deadline_of_end(UserIndex index, const SessionEnd& end,
                                         MonoTime now) const noexcept;
  /// Lets a held user's time go on; the live ones are appended to `sessions`.
  void release(UserHold& hold, MonoTime now, std::vector<SessionRef>& sessions);
  /// After each change of a group: its hook waits for the latest lingering deadline, or is idle
  /// when there is none; and a group of one plain session becomes just that.
  void settle(UserIndex index) noexcept;

  /// What is kept of a user with track_deadlines, by slot.
  struct Tracked {
    MonoTime plain_deadline;  // of a session that stands in the record itself
    MonoTime taken;           // as last taken; the epoch: never
    bool changed = false;     // is in `changes`
  };

  Options options;
  TimeWheel& wheel;
  const TickClock clock;
  UserTable table;
  UserHolds holds;
  SessionId last_id;
  std::size_t online = 0;
  std::size_t lingering = 0;
  std::size_t live = 0;
  UserIndex shutdown_cursor = 0;
  std::vector<Tracked> tracked;    // by slot; empty without track_deadlines
  std::vector<UserIndex> changes;  // oldest first
  std::size_t changes_taken = 0;   // those before it are done
};

void PresenceRegistry::Impl::reserve_change() {
  if (!options.track_deadlines) return;
  // By doubling: a reserve() of just what is needed would copy everything each time.
  const std::size_t slots = std::size_t{table.slots()} + 1;
  if (tracked.size() < slots) tracked.resize(std::max(slots, 2 * tracked.size()));
  if (changes.size() == changes.capacity())
    changes.reserve(std::max<std::size_t>(64, 2 * changes.size()));
}

void PresenceRegistry::Impl::mark_changed(UserIndex index) noexcept {
  if (!options.track_deadlines || tracked[index].changed) return;
  tracked[index].changed = true;
  changes.push_back(index);
}

MonoTime PresenceRegistry::Impl::deadline_of(UserIndex index) const noexcept {
  const UserRecord& user = table.at(index);
  MonoTime latest = tracked[index].plain_deadline;
  if (user.form == UserRecord::Form::kGroup) {
    latest = MonoTime::min();
    for (const SessionRecord& session : user.group->sessions)
      latest = std::max(latest, session.deadline);
  }
  const UserHold* const hold = holds.find(index);
  return hold == nullptr ? latest : hold->until + std::max(latest - hold->since, Duration{0});
}

MonoTime PresenceRegistry::Impl::deadline_of_end(UserIndex index, const SessionEnd& end,
                                                 MonoTime now) const noexcept {
  const UserHold* const hold = holds.find(index);
  if (hold == nullptr && !end.held_since) return end.deadline;
  // Its shard may hear late of a hold, or of a release: what it knew when the session ended says
  // what was left.
  const MonoTime stood_still = end.held_since.value_or(hold != nullptr ? hold->since : now);
  const Duration left = end.deadline - std::max(stood_still, end.last_packet);
  return time_of(index, now) + std::max(left, Duration{0});
}

SessionGroup& PresenceRegistry::Impl::expand(UserIndex index) {
  const bool was_plain = table.at(index).form == UserRecord::Form::kPlain;
  SessionGroup& group = table.expand(index);
  if (was_plain && options.track_deadlines) {
    group.sessions.front().deadline = tracked[index].plain_deadline;
  }
  return group;
}

LoginVerdict PresenceRegistry::Impl::admit(UserIndex index,
                                           std::string_view device) const noexcept {
  if (!is_online(index)) {
    return online < options.users_max ? LoginVerdict::kAccepted : LoginVerdict::kServerFull;
  }
  const UserRecord& user = table.at(index);
  const bool fits = live_count(user) < options.sessions_per_user_max || takes_over(user, device);
  return fits ? LoginVerdict::kAccepted : LoginVerdict::kTooManySessions;
}

UserIndex PresenceRegistry::Impl::go_online(UserIndex index, std::string_view uid,
                                            SessionRecord&& session, MonoTime now,
                                            EdgeBatch& edges) {
  const MonoTime deadline = session.deadline;
  const bool created = index == kNobody;
  if (created) index = table.create(uid);
  UserRecord& user = table.at(index);
  const MonoTime last_seen = std::max(user.last_seen, session.last_packet);
  const Edge edge{.uid = uid,
                  .at = now,
                  .last_seen = last_seen,
                  .due = now,
                  .sessions = 1,
                  .kind = EdgeKind::kOnline,
                  .reason = EdgeReason::kLogin};
  try {
    if (session.plain()) {
      edges.push(edge);
      table.set_online(index, session);
    } else {
      auto group = std::make_unique<SessionGroup>(index, std::move(session));
      edges.push(edge);
      table.set_online(index, std::move(group));
    }
  } catch (...) {
    if (created) table.forget(index);
    throw;
  }
  user.since = now;
  user.last_seen = last_seen;
  user.has_edge = true;
  user.edge_reason = EdgeReason::kLogin;
  ++online;
  ++live;
  if (options.track_deadlines) {
    tracked[index].plain_deadline = deadline;
    tracked[index].taken = {};
  }
  mark_changed(index);
  return index;
}

std::optional<SessionRef> PresenceRegistry::Impl::join(UserIndex index, SessionRecord&& session) {
  auto& sessions = expand(index).sessions;
  sessions.reserve(sessions.size() + 1);

  UserRecord& user = table.at(index);
  const std::size_t live_before = live_count(user);
  std::optional<SessionRef> taken_over;
  erase_if(sessions, [&](const SessionRecord& other) {
    if (other.device != session.device) return false;
    if (!other.live()) return true;
    if (other.device.empty()) return false;
    taken_over = other.session;
    return true;
  });
  user.last_seen = std::max(user.last_seen, session.last_packet);
  sessions.push_back(std::move(session));
  if (live_before == 0) --lingering;
  if (!taken_over) ++live;
  settle(index);
  mark_changed(index);
  return taken_over;
}

void PresenceRegistry::Impl::linger(UserIndex index, const SessionEnd& end) {
  SessionGroup& group = expand(index);

  UserRecord& user = table.at(index);
  user.last_seen = std::max(user.last_seen, end.last_packet);
  SessionRecord& session = *find_live(group, end.session);
  session.session = {};
  session.ending = edge_reason_of(end.reason);
  session.last_packet = end.last_packet;
  session.deadline = end.deadline;
  drop_twin(group, session);
  bound_lingering(group, options.sessions_per_user_max);
  --live;
  if (live_count(user) == 0) ++lingering;
  settle(index);
  mark_changed(index);
}

void PresenceRegistry::Impl::drop(UserIndex index, const SessionEnd& end) noexcept {
  UserRecord& user = table.at(index);
  SessionGroup& group = *user.group;  // only a group has others
  user.last_seen = std::max(user.last_seen, end.last_packet);
  erase_if(group.sessions,
           [&end](const SessionRecord& s) { return s.live() && s.session == end.session; });
  --live;
  if (live_count(user) == 0) ++lingering;
  settle(index);
  mark_changed(index);
}

void PresenceRegistry::Impl::go_offline(UserIndex index, Ending ending, MonoTime last_seen,
                                        MonoTime now, EdgeBatch& edges) {
  UserRecord& user = table.at(index);
  edges.push({.uid = user.uid(),
              .at = now,
              .last_seen = last_seen,
              .due = ending.due,
              .sessions = 0,
              .kind = EdgeKind::kOffline,
              .reason = ending.reason});

  const std::size_t ended = live_count(user);
  if (ended == 0) --lingering;
  live -= ended;
  --online;
  user.since = now;
  user.last_seen = last_seen;
  user.has_edge = true;
  user.edge_reason = ending.reason;
  holds.remove(index);
  table.set_offline(index);
  if (table.offline_users() > options.offline_users_max) table.forget(table.oldest_offline());
}

void PresenceRegistry::Impl::bring_back(UserIndex index, std::unique_ptr<SessionGroup> group) {
  for (SessionRecord& session : group->sessions)
    session.id = last_id += kIdStep;
  table.set_online(index, std::move(group));
  table.at(index).has_edge = false;
  ++online;
  ++lingering;
  if (options.track_deadlines) tracked[index].taken = {};
  settle(index);
  mark_changed(index);
}

/// Of a user with live sessions these know better.
void PresenceRegistry::Impl::prolong(UserIndex index, MonoTime last_seen, MonoTime deadline) {
  UserRecord& user = table.at(index);
  if (live_count(user) > 0) return;
  reserve_change();
  user.last_seen = std::max(user.last_seen, last_seen);
  auto& sessions = user.group->sessions;
  SessionRecord& latest =
      *std::max_element(sessions.begin(), sessions.end(),
                        [](const auto& a, const auto& b) { return a.deadline < b.deadline; });
  latest.last_packet = std::max(latest.last_packet, last_seen);
  latest.deadline = std::max(latest.deadline, deadline);
  settle(index);
  mark_changed(index);
}

void PresenceRegistry::Impl::settle(UserIndex index) noexcept {
  UserRecord& user = table.at(index);
  if (user.form == UserRecord::Form::kGroup) {
    const MonoTime deadline = user.group->sessions.front().deadline;
    table.compact(index);
    if (user.form == UserRecord::Form::kPlain && options.track_deadlines) {
      tracked[index].plain_deadline = deadline;
    }
  }
  if (user.form != UserRecord::Form::kGroup) return;
  SessionGroup& group = *user.group;
  std::optional<MonoTime> latest;
  for (const SessionRecord& session : group.sessions) {
    if (!session.live() && (!latest || session.deadline > *latest)) latest = session.deadline;
  }
  if (latest && holds.find(index) == nullptr) {
    wheel.arm(group, clock.ceil(*latest));
  } else {
    wheel.cancel(group);
  }
}

PresenceRegistry::PresenceRegistry(const Options& options, TimeWheel& wheel, TickClock clock)
    : impl_(std::make_unique<Impl>(options, wheel, clock)) {}

PresenceRegistry::~PresenceRegistry() = default;

void PresenceRegistry::change(const Options& options) noexcept {
  Options& own = impl_->options;
  own.linger = options.linger;
  own.sessions_per_user_max = options.sessions_per_user_max;
  own.users_max = options.users_max;
  own.offline_retention = options.offline_retention;
  own.offline_users_max = options.offline_users_max;
}

const PresenceRegistry::Options& PresenceRegistry::options() const noexcept {
  return impl_->options;
}

LoginDecision PresenceRegistry::login(const LoginRequest& request, MonoTime now, EdgeBatch& edges) {
  Impl& r = *impl_;
  PULSEWHEEL_CHECK(!request.uid.empty() && request.session.generation != 0);
  r.reserve_change();
  UserIndex index = r.table.find(request.uid);
  LoginDecision decision;
  decision.verdict = r.admit(index, request.device);
  if (decision.verdict != LoginVerdict::kAccepted) return decision;

  decision.session_id = r.last_id + kIdStep;
  SessionRecord session{.session = request.session,
                        .id = decision.session_id,
                        .login_at = request.at,
                        .last_packet = request.at,
                        .deadline = request.deadline,
                        .device = std::string(request.device)};
  if (r.is_online(index)) {
    decision.taken_over = r.join(index, std::move(session));
  } else {
    index = r.go_online(index, request.uid, std::move(session), now, edges);
  }
  r.last_id = decision.session_id;
  if (const UserHold* const hold = r.holds.find(index)) decision.held_since = hold->since;
  decision.user = {index, r.table.at(index).generation, r.options.shard};
  return decision;
}

bool PresenceRegistry::restore(std::string_view uid, MonoTime last_seen, MonoTime deadline,
                               MonoTime now) {
  Impl& r = *impl_;
  PULSEWHEEL_CHECK(!uid.empty());
  const UserIndex known = r.table.find(uid);
  if (r.is_online(known)) {
    r.prolong(known, last_seen, deadline);
    return false;
  }
  if (r.online >= r.options.users_max) return false;
  r.reserve_change();
  const UserIndex index = known == kNobody ? r.table.create(uid) : known;
  try {
    r.bring_back(index,
                 std::make_unique<SessionGroup>(index, SessionRecord{.session = {},
                                                                     .ending = EdgeReason::kTimeout,
                                                                     .id = 0,
                                                                     .login_at = last_seen,
                                                                     .last_packet = last_seen,
                                                                     .deadline = deadline,
                                                                     .device = {}}));
  } catch (...) {
    if (known == kNobody) r.table.forget(index);
    throw;
  }
  r.table.at(index).since = now;
  r.table.at(index).last_seen = last_seen;
  return true;
}

bool PresenceRegistry::restore(const UserImage& user, std::span<const SessionImage> sessions,
                               MonoTime now) {
  Impl& r = *impl_;
  PULSEWHEEL_CHECK(!user.uid.empty());
  if (r.table.find(user.uid) != kNobody) return false;
  const bool online = !sessions.empty();
  if (online ? r.online >= r.options.users_max : user.since + r.options.offline_retention <= now) {
    return false;
  }
  r.reserve_change();
  const UserIndex index = r.table.create(user.uid);
  r.table.at(index).since = user.since;
  r.table.at(index).last_seen = user.last_seen;
  if (!online) {
    if (r.table.offline_users() > r.options.offline_users_max) {
      r.table.forget(r.table.oldest_offline());
    }
    return true;
  }
  try {
    auto lingering = lingering_from(sessions);
    auto group = std::make_unique<SessionGroup>(index, std::move(lingering.front()));
    group->sessions.reserve(lingering.size());
    group->sessions.insert(group->sessions.end(), std::make_move_iterator(lingering.begin() + 1),
                           std::make_move_iterator(lingering.end()));
    bound_lingering(*group, r.options.sessions_per_user_max);
    r.bring_back(index, std::move(group));
  } catch (...) {
    r.table.forget(index);
    throw;
  }
  return true;
}

bool PresenceRegistry::end_session(const SessionEnd& reported, MonoTime now, EdgeBatch& edges) {
  Impl& r = *impl_;
  const UserRef ref = reported.user;
  const UserIndex index = ref.index;
  if (ref.shard != r.options.shard || !r.table.holds(index, ref.generation)) return false;
  const UserRecord& user = r.table.at(index);
  if (!holds_live(user, reported.session)) return false;
  r.reserve_change();
  SessionEnd end = reported;
  end.deadline = r.deadline_of_end(index, reported, now);
  const bool held = r.holds.find(index) != nullptr;
  const MonoTime users_now = r.time_of(index, now);

  // Shards read their clocks apart: a timeout may be reported before this shard's `now` has
  // reached the deadline. Nobody is early for that: the session waits for it like a closed one.
  //
  // A deadline that has passed waits for the wheel too: the user may have come back before it, and
  // that LOGIN not be read yet. Who hands in the hook makes sure of that. Of a silent session its
  // shard has done so already, but for others of the user that have run out it has not.
  const bool silent = end.reason == CloseReason::kTimeout;
  const bool has_deadline = silent || (r.options.linger && lingers(end.reason));
  if (has_deadline && (held || end.deadline > now || !silent || lingering_count(user) > 0)) {
    r.linger(index, end);
    return true;
  }
  const Ending own{edge_reason_of(end.reason), has_deadline ? end.deadline : now};
  if (const std::optional<Ending> last = ending_without(user, end.session, own, users_now)) {
    if (lingering_count(user) > 0) {
      // The same holds for those of the user who linger and have run out: until the wheel says so,
      // they may be back. The end that is final already waits with them, and gives the reason.
      SessionEnd final_end = end;
      final_end.deadline = users_now;
      if (held) r.holds.remove(index);  // nobody keeps the user any more: the wheel has to say so
      r.linger(index, final_end);
      return true;
    }
    r.go_offline(index, *last, std::max(user.last_seen, end.last_packet), now, edges);
  } else {
    r.drop(index, end);
  }
  return true;
}

void PresenceRegistry::expire_lingering(TimerHook& hook, MonoTime now, EdgeBatch& edges) {
  Impl& r = *impl_;
  SessionGroup& group = owner_of<SessionGroup>(hook);
  const UserIndex index = group.user;
  const UserRecord& user = r.table.at(index);
  const std::optional<Ending> last = ending_without(user, {}, {}, now);
  if (!last) {
    erase_if(group.sessions, [now](const SessionRecord& s) { return !keeps_alive(s, now); });
    r.settle(index);
    return;
  }
  try {
    r.go_offline(index, *last, user.last_seen, now, edges);
  } catch (...) {
    r.wheel.arm(group, r.wheel.now());  // nobody else would come back to it
    throw;
  }
}

bool PresenceRegistry::kick(std::string_view uid, MonoTime now, EdgeBatch& edges,
                            std::vector<SessionRef>& live, MonoTime last_packet) {
  Impl& r = *impl_;
  const UserIndex index = r.table.find(uid);
  if (!r.is_online(index)) return false;
  const UserRecord& user = r.table.at(index);
  std::vector<SessionRef> ended;
  for_each_live(user, [&ended](SessionRef session) { ended.push_back(session); });
  live.reserve(live.size() + ended.size());
  r.go_offline(index, {EdgeReason::kKicked, now}, std::max(user.last_seen, last_packet), now,
               edges);
  live.insert(live.end(), ended.begin(), ended.end());
  return true;
}

PresenceRegistry::HoldVerdict PresenceRegistry::hold(std::string_view uid, MonoTime until,
                                                     MonoTime now, std::vector<SessionRef>& live) {
  Impl& r = *impl_;
  const UserIndex index = r.table.find(uid);
  if (!r.is_online(index)) return HoldVerdict::kNotOnline;
  const bool is_new = r.holds.find(index) == nullptr;
  if (is_new && r.holds.size() >= r.options.holds_max) return HoldVerdict::kTooMany;
  r.reserve_change();
  live.reserve(live.size() + live_count(r.table.at(index)));
  r.holds.add(index, now, until);
  for_each_live(r.table.at(index), [&live](SessionRef session) { live.push_back(session); });
  r.settle(index);
  r.mark_changed(index);
  return HoldVerdict::kHeld;
}

std::optional<Duration> PresenceRegistry::release(std::string_view uid, MonoTime now,
                                                  std::vector<SessionRef>& live) {
  Impl& r = *impl_;
  const UserIndex index = r.table.find(uid);
  UserHold* const hold = index == kNobody ? nullptr : r.holds.find(index);
  if (hold == nullptr) return std::nullopt;
  const Duration held = now - hold->since;
  r.release(*hold, now, live);
  return held;
}

std::string_view PresenceRegistry::expire_hold(TimerHook& hook, MonoTime now,
                                               std::vector<SessionRef>& live) {
  UserHold& hold = owner_of<UserHold>(hook);
  if (hold.until > now) {
    impl_->holds.arm(hold);
    return {};
  }
  const std::string_view uid = impl_->table.at(hold.user).uid();
  try {
    impl_->release(hold, now, live);
  } catch (...) {
    impl_->wheel.arm(hold, impl_->wheel.now());  // nobody else would come back to it
    throw;
  }
  return uid;
}

/// Whoever has had time left when it stood still has as much left now; who had none goes now.
void PresenceRegistry::Impl::release(UserHold& hold, MonoTime now,
                                     std::vector<SessionRef>& sessions) {
  const UserIndex index = hold.user;
  const Duration held = now - hold.since;
  reserve_change();
  sessions.reserve(sessions.size() + live_count(table.at(index)));
  UserRecord& user = table.at(index);
  for_each_live(user, [&sessions](SessionRef session) { sessions.push_back(session); });
  if (user.form == UserRecord::Form::kGroup) {
    for (SessionRecord& session : user.group->sessions) {
      session.deadline += held;  // of a live one until its shard says more
      if (!session.live()) session.deadline = std::max(session.deadline, now);
    }
  } else if (options.track_deadlines) {
    tracked[index].plain_deadline += held;
  }
  holds.remove(index);
  settle(index);
  mark_changed(index);
}

bool PresenceRegistry::shutdown(MonoTime now, std::size_t budget, EdgeBatch& edges) {
  Impl& r = *impl_;
  for (; budget > 0 && r.online > 0; --budget) {
    const UserIndex index = r.shutdown_cursor;
    r.shutdown_cursor = index + 1 < r.table.slots() ? index + 1 : 0;
    if (!r.is_online(index)) continue;
    r.go_offline(index, {EdgeReason::kShutdown, now}, r.table.at(index).last_seen, now, edges);
  }
  return r.online == 0;
}

std::optional<MonoTime> PresenceRegistry::forget_offline(MonoTime now, std::size_t budget) {
  Impl& r = *impl_;
  while (r.table.oldest_offline() != kNobody) {
    const UserIndex oldest = r.table.oldest_offline();
    const bool too_many = r.table.offline_users() > r.options.offline_users_max;
    const MonoTime since = r.table.at(oldest).since;
    const MonoTime due = too_many ? since : since + r.options.offline_retention;
    if (due > now || budget == 0) return due;
    --budget;
    r.table.forget(oldest);
  }
  return std::nullopt;
}

bool PresenceRegistry::touch(const SessionTouch& touch) {
  Impl& r = *impl_;
  const UserIndex index = touch.user.index;
  if (touch.user.shard != r.options.shard || !r.table.holds(index, touch.user.generation)) {
    return false;
  }
  UserRecord& user = r.table.at(index);
  if (!holds_live(user, touch.session)) return false;
  r.reserve_change();
  if (user.form == UserRecord::Form::kPlain) {
    r.tracked[index].plain_deadline = touch.deadline;
  } else {
    find_live(*user.group, touch.session)->deadline = touch.deadline;
  }
  user.last_seen = std::max(user.last_seen, touch.last_packet);
  r.mark_changed(index);
  return true;
}

bool PresenceRegistry::deadlines_changed() const noexcept {
  return !impl_->changes.empty();
}

bool PresenceRegistry::take_deadlines(std::size_t budget, DeadlineBatch& out) {
  Impl& r = *impl_;
  for (; budget > 0 && r.changes_taken < r.changes.size(); --budget) {
    const UserIndex index = r.changes[r.changes_taken];
    Impl::Tracked& tracked = r.tracked[index];
    const UserRecord& user = r.table.at(index);
    if (user.online()) {
      const MonoTime deadline = r.deadline_of(index);
      if (deadline != tracked.taken) out.push({user.uid(), deadline, user.last_seen});
      tracked.taken = deadline;
    }
    tracked.changed = false;
    ++r.changes_taken;
  }
  if (r.changes_taken < r.changes.size()) return false;
  r.changes.clear();
  r.changes_taken = 0;
  return true;
}

bool PresenceRegistry::list_deadlines(std::uint32_t* cursor, std::size_t budget,
                                      DeadlineBatch& out) const {
  const Impl& r = *impl_;
  for (; budget > 0 && *cursor < r.table.slots(); --budget, ++*cursor) {
    if (!r.is_online(*cursor)) continue;
    const UserRecord& user = r.table.at(*cursor);
    out.push({user.uid(), r.deadline_of(*cursor), user.last_seen});
  }
  return *cursor < r.table.slots();
}

bool PresenceRegistry::list_users(std::uint32_t* cursor, std::size_t budget,
                                  UserImageBatch& out) const {
  const Impl& r = *impl_;
  for (; budget > 0 && *cursor < r.table.slots(); --budget, ++*cursor) {
    const UserRecord& user = r.table.at(*cursor);
    if (user.form == UserRecord::Form::kFree) continue;
    out.add({.uid = user.uid(), .since = user.since, .last_seen = user.last_seen});
    if (user.form == UserRecord::Form::kPlain) {
      out.add_session({.session = user.plain_ref(),
                       .login_at = user.plain.login_at,
                       .last_packet = user.plain.login_at,
                       .deadline = user.plain.login_at,
                       .device = {}});
    } else if (user.form == UserRecord::Form::kGroup) {
      const UserHold* const hold = r.holds.find(*cursor);
      for (const SessionRecord& session : user.group->sessions) {
        SessionImage image = image_of(session);
        if (hold != nullptr && !session.live()) image.deadline += hold->until - hold->since;
        out.add_session(image);
      }
    }
  }
  return *cursor < r.table.slots();
}

UserView PresenceRegistry::find(std::string_view uid, MonoTime now) const {
  const Impl& r = *impl_;
  const UserIndex index = r.table.find(uid);
  UserView view;
  if (!r.remembers(index, now)) {
    if (now < r.options.unknown_until) view.state = PresenceState::kUnknown;
    return view;
  }
  view = view_of(r.table.at(index));
  if (const UserHold* hold = r.holds.find(index)) view.hold = {hold->since, hold->until};
  const bool from_before =
      view.state == PresenceState::kOffline && *view.since < r.options.run_began;
  if (from_before && now < r.options.unknown_until) {
    view.state = PresenceState::kUnknown;
    view.since.reset();
    view.reason.reset();
  }
  return view;
}

bool PresenceRegistry::list_online(std::uint32_t* cursor, std::size_t slots, std::size_t users,
                                   std::vector<ListedUser>& out) const {
  const Impl& r = *impl_;
  for (; slots > 0 && users > 0 && *cursor < r.table.slots(); --slots, ++*cursor) {
    const UserRecord& user = r.table.at(*cursor);
    if (!user.online()) continue;
    out.push_back({std::string(user.uid()), view_of(user)});
    --users;
  }
  return *cursor < r.table.slots();
}

std::size_t PresenceRegistry::online_users() const noexcept {
  return impl_->online;
}
std::size_t PresenceRegistry::offline_users() const noexcept {
  return impl_->table.offline_users();
}
std::size_t PresenceRegistry::lingering_users() const noexcept {
  return impl_->lingering;
}
std::size_t PresenceRegistry::held_users() const noexcept {
  return impl_->holds.size();
}
std::size_t PresenceRegistry::live_sessions() const noexcept {
  return impl_->live;
}

}  // namespace pulsewheel

// Logins and ends: who comes online and goes offline by them, and the edges of it.
#include "daemon/core/presence_registry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/base/siphash.h"
#include "daemon/core/presence_registry_impl.h"

namespace pulsewheel {
namespace {

/// Keeps the choice of a home apart from the hash inside the table: with one hash for both, the
/// users of a shard would fill only a part of its table.
constexpr std::uint64_t kHomeDomain = 0x686f'6d65ULL;

}  // namespace

ShardIndex home_shard_of(std::string_view uid, std::uint64_t seed, std::size_t shards) noexcept {
  PULSEWHEEL_CHECK(shards >= 1 && shards <= std::size_t{1} << kShardBits);
  return static_cast<ShardIndex>(siphash13(uid, {seed, kHomeDomain}) % shards);
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

// --- Logins -------------------------------------------------------------------------------------

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
  deadlines.begin(index);
  deadlines.set_plain_deadline(index, deadline);
  deadlines.mark_changed(index);
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
  deadlines.mark_changed(index);
  return taken_over;
}

// --- Ends ---------------------------------------------------------------------------------------

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
      final_end.deadline = now;
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

void PresenceRegistry::Impl::linger(UserIndex index, const SessionEnd& end) {
  SessionGroup& group = expand(index);

  UserRecord& user = table.at(index);
  user.last_seen = std::max(user.last_seen, end.last_packet);
  SessionRecord& session = *find_live(group, end.session);
  session.session = {};
  session.ending = edge_reason_of(end.reason);
  session.last_packet = end.last_packet;
  session.deadline = end.deadline;
  session.timeout = end.timeout;
  drop_twin(group, session);
  bound_lingering(group, options.sessions_per_user_max);
  --live;
  if (live_count(user) == 0) ++lingering;
  settle(index);
  deadlines.mark_changed(index);
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
  deadlines.mark_changed(index);
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
  if (was_plain) group.sessions.front().deadline = deadlines.plain_deadline(index);
  return group;
}

void PresenceRegistry::Impl::settle(UserIndex index) noexcept {
  UserRecord& user = table.at(index);
  if (user.form == UserRecord::Form::kGroup) {
    const MonoTime deadline = user.group->sessions.front().deadline;
    table.compact(index);
    if (user.form == UserRecord::Form::kPlain) deadlines.set_plain_deadline(index, deadline);
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

// --- All users ----------------------------------------------------------------------------------

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

}  // namespace pulsewheel

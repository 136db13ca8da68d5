#include "tests/sim/model.h"

#include <algorithm>
#include <charconv>

#include "tests/sim/event_queue.h"

namespace pulsewheel::nodesim {
namespace {

std::uint64_t key_of(SessionRef session) noexcept {
  return std::uint64_t{session.shard} << 56 | std::uint64_t{session.index} << 32 |
         session.generation;
}

bool is_final(CloseReason reason, bool linger) {
  switch (reason) {
    case CloseReason::kLogout:
    case CloseReason::kTakenOver:
    case CloseReason::kKicked:
      return true;
    case CloseReason::kTimeout:
      return false;
    default:
      return !linger;
  }
}

EdgeReason edge_reason(CloseReason reason) {
  if (reason == CloseReason::kLogout) return EdgeReason::kLogout;
  if (reason == CloseReason::kTimeout) return EdgeReason::kTimeout;
  return EdgeReason::kDisconnect;
}

std::string text(std::string_view view) {
  return std::string(view);
}

}  // namespace

std::string uid_of(std::uint32_t user) {
  return "u" + std::to_string(user);
}

std::uint32_t user_of(std::string_view uid) {
  std::uint32_t user = 0;
  std::from_chars(uid.data() + 1, uid.data() + uid.size(), user);
  return user;
}

Model::Model(const Profile& profile, Trace& trace)
    : profile_(profile), trace_(trace), users_(profile.users) {}

void Model::fail(const std::string& what, std::uint32_t user) const {
  std::string message = what;
  if (user != Trace::kNobody) message += "; user " + std::to_string(user);
  throw Violation(message + "\nthe last facts:\n" + trace_.about(user));
}

/// Ticks begin where simulations begin.
MonoTime Model::tick_of(MonoTime deadline) const noexcept {
  const auto since = (deadline - EventQueue::kStart).count();
  const auto tick = profile_.tick.count();
  return EventQueue::kStart + Duration{(since + tick - 1) / tick * tick};
}

// --- In the sockets -----------------------------------------------------------------------------

Witness& Model::on_connect(std::uint32_t user, std::uint8_t device, std::uint32_t wish_ms) {
  if (free_.empty()) free_.push_back(&pool_.emplace_back());
  Witness& w = *free_.back();
  free_.pop_back();
  w = {};
  w.number = ++connections_;
  w.user = user;
  w.device = device;
  w.wish_ms = wish_ms;
  w.holders = 1;
  return w;
}

void Model::on_login_arrived(Witness& w, MonoTime now) {
  trace_.note(now, "LOGIN arrives", w.user, w.number);
  w.login_arrived = now;
  if (w.ended) return;  // by its shard, which reads nothing of it any more
  w.login_waits = true;
  users_[w.user].waiting.push_back(&w);
}

void Model::on_login_read(Witness& w, SessionRef ref, const Timeouts& timeouts, MonoTime now) {
  trace_.note(now, "LOGIN is read by shard", w.user, w.number, ref.shard);
  w.submitted = true;
  w.ref = ref;
  w.last_read = now;
  w.timeout = timeouts.of_wish(w.wish_ms);
  w.deadline = w.told = now + w.timeout;
  w.changed = now;
  ++w.holders;
  by_ref_[key_of(ref)] = &w;
}

void Model::on_packet_read(Witness& w, MonoTime now) {
  trace_.note(now, "packet is read", w.user, w.number);
  w.last_read = w.changed = now;
  w.deadline = now + w.timeout;
}

/// A longer timeout counts from the last packet, a shorter one from now until the next packet; but
/// nobody gets more time for being told than there was. In whole milliseconds after the packet.
/// All that on the session's own time.
bool Model::on_timeouts(Witness& w, const Timeouts& timeouts, MonoTime now) {
  const Duration changed = timeouts.of_wish(w.wish_ms);
  if (changed == w.timeout) return false;
  trace_.note(now, "other timeout, in ms", w.user, w.number,
              std::chrono::duration_cast<milliseconds>(changed).count());
  const MonoTime own_now = std::max(w.held_since.value_or(now), w.last_read);
  const Duration until = std::min(w.deadline, own_now + changed) - w.last_read;
  w.timeout = changed;
  w.changed = now;
  w.deadline = w.last_read + std::max<Duration>(changed, std::chrono::ceil<milliseconds>(until));
  return true;
}

void Model::on_session_held(Witness& w, MonoTime since, MonoTime now) {
  trace_.note(now, "its time stands still", w.user, w.number);
  w.held_since = since;
}

void Model::on_session_released(Witness& w, MonoTime now) {
  trace_.note(now, "its time goes on", w.user, w.number);
  if (!w.held_since) fail("a session was released that was not held", w.user);
  const Duration left = w.deadline - std::max(*w.held_since, w.last_read);
  const Duration after_packet = now + std::max(left, Duration{0}) - w.last_read;
  w.deadline =
      w.last_read + std::max<Duration>(w.timeout, std::chrono::ceil<milliseconds>(after_packet));
  w.changed = now;
  w.held_since.reset();
}

void Model::on_session_ended(Witness& w, CloseReason reason, MonoTime began,
                             std::optional<MonoTime> oldest_unread, MonoTime now) {
  trace_.note(now, "session ends, reason", w.user, w.number, static_cast<int>(reason));
  if (w.ended) fail("a session ended twice", w.user);
  w.ended = true;
  w.reason = reason;
  if (!w.submitted) stop_waiting(w);
  if (reason != CloseReason::kTimeout) return;
  if (!w.active) fail("a session that is not logged in was declared silent", w.user);
  if (w.held_since) fail("a held session was declared silent", w.user);
  if (w.deadline > began) fail("a session was declared silent early", w.user);
  if (oldest_unread && *oldest_unread <= began) {
    fail("a session was declared silent while a packet of " + to_text(*oldest_unread) +
             " was unread",
         w.user);
  }
}

void Model::on_connection_gone(Witness& w) {
  if (!w.submitted) stop_waiting(w);
  release(w);
}

void Model::stop_waiting(Witness& w) noexcept {
  if (!w.login_waits) return;
  w.login_waits = false;
  std::erase(users_[w.user].waiting, &w);
}

void Model::release(Witness& w) {
  if (--w.holders == 0) free_.push_back(&w);
}

void Model::forget(User& user, Witness& w) {
  if (w.at_home == Witness::AtHome::kLive) --live_;
  w.at_home = Witness::AtHome::kForgotten;
  std::erase(user.sessions, &w);
  release(w);
}

void Model::forget_all(User& user) {
  while (!user.sessions.empty())
    forget(user, *user.sessions.back());
}

// --- At the home shards -------------------------------------------------------------------------

Witness& Model::witness_of(SessionRef session) const {
  const auto it = by_ref_.find(key_of(session));
  if (it == by_ref_.end()) {
    fail("word of a session that nobody logged in, or that is over: shard " +
         std::to_string(session.shard) + ", slot " + std::to_string(session.index));
  }
  return *it->second;
}

void Model::check_login(const User& user, const Witness& w, const LoginDecision& decision) const {
  std::size_t live = 0;
  const Witness* same_device = nullptr;
  for (const Witness* other : user.sessions) {
    if (other->at_home != Witness::AtHome::kLive) continue;
    ++live;
    if (w.device != 0 && other->device == w.device) same_device = other;
  }
  const bool fits = same_device != nullptr || live < profile_.sessions_per_user_max;
  const auto expected = fits ? LoginVerdict::kAccepted : LoginVerdict::kTooManySessions;
  if (decision.verdict != expected) fail("a login was wrongly decided", w.user);
  if (!fits) return;
  if (decision.session_id <= user.last_id) fail("session ids do not grow", w.user);
  const bool takes_over = decision.taken_over.has_value();
  if (takes_over != (same_device != nullptr)) fail("a takeover is missing, or is none", w.user);
  if (takes_over && *decision.taken_over != same_device->ref) {
    fail("the wrong session was taken over", w.user);
  }
}

void Model::on_login_decided(SessionRef session, const LoginDecision& decision, MonoTime now) {
  Witness& w = witness_of(session);
  User& user = users_[w.user];
  const bool accepted = decision.verdict == LoginVerdict::kAccepted;
  trace_.note(now, accepted ? "login accepted" : "login refused", w.user, w.number);
  if (w.at_home != Witness::AtHome::kUnknown) fail("one login was decided twice", w.user);
  stop_waiting(w);
  check_login(user, w, decision);
  if (!accepted) {
    w.at_home = Witness::AtHome::kForgotten;
    by_ref_.erase(key_of(session));
    release(w);
    return;
  }
  // With the same label: what was running out is superseded, what was live is taken over.
  for (std::size_t i = user.sessions.size(); i-- > 0;) {
    Witness& other = *user.sessions[i];
    const bool live = other.at_home == Witness::AtHome::kLive;
    if (other.device == w.device && (!live || w.device != 0)) forget(user, other);
  }
  w.at_home = Witness::AtHome::kLive;
  ++w.holders;
  ++live_;
  user.sessions.push_back(&w);
  user.last_id = decision.session_id;
  user.last_seen = std::max(user.last_seen, w.last_read);
  user.came_online = !user.online;
  deciding_ = w.user;
}

/// When a session that ended runs out, on the user's own time: its shard may not have heard yet of
/// a hold, or of a release.
MonoTime Model::due_of(const User& user, const Witness& w, MonoTime now) {
  if (!w.held_since && !user.held_since) return w.deadline;
  const MonoTime stood_still = w.held_since ? *w.held_since : *user.held_since;
  return user.now(now) + std::max<Duration>(w.deadline - std::max(stood_still, w.last_read), {});
}

void Model::on_end_delivered(const SessionEnd& end, MonoTime now) {
  Witness& w = witness_of(end.session);
  User& user = users_[w.user];
  trace_.note(now, "end reaches the home", w.user, w.number);
  if (!w.ended) fail("the end of a session was reported that goes on", w.user);
  if (w.at_home == Witness::AtHome::kUnknown) {
    fail("the end of a session came before its login was decided", w.user);
  }
  if (end.last_packet != w.last_read || end.deadline != w.deadline) {
    fail("an end was reported with the wrong last packet or deadline", w.user);
  }
  if (end.held_since != w.held_since) fail("an end was reported with the wrong hold", w.user);
  by_ref_.erase(key_of(end.session));
  if (w.at_home == Witness::AtHome::kLive) {
    --live_;
    w.at_home = Witness::AtHome::kRunningOut;
    w.ending = edge_reason(w.reason);
    w.end_number = ++ends_;
    w.final = is_final(w.reason, profile_.linger);
    w.due = w.silent_at = w.final ? now : due_of(user, w, now);
    user.last_seen = std::max(user.last_seen, w.last_read);
    const bool alive = std::any_of(user.sessions.begin(), user.sessions.end(), [&](auto* s) {
      return s->at_home == Witness::AtHome::kLive || (s != &w && s->due > user.now(now));
    });
    // Whether the others have run out for good, the fence has to say.
    user.may_leave = w.final && !alive;
    user.must_leave = user.may_leave && user.sessions.size() == 1;
    if (w.final && alive) forget(user, w);
  }
  deciding_ = w.user;
  release(w);
}

void Model::on_touch_delivered(const SessionTouch& touch, MonoTime now) {
  const auto it = by_ref_.find(key_of(touch.session));
  if (it == by_ref_.end()) return;  // its end came first
  Witness& w = *it->second;
  trace_.note(now, "touch reaches the home", w.user, w.number);
  if (touch.last_packet > w.last_read) fail("a touch by a packet that nobody read", w.user);
  if (w.at_home != Witness::AtHome::kLive) return;
  w.told = touch.deadline;
  users_[w.user].last_seen = std::max(users_[w.user].last_seen, touch.last_packet);
}

void Model::on_deadline_told(const UserDeadline& told) {
  const std::uint32_t number = user_of(told.uid);
  User& user = users_.at(number);
  if (!user.online) fail("a deadline of a user who is offline", number);
  if (told.last_seen != user.last_seen) fail("a deadline with a wrong last_seen", number);
  user.mirrored = told.deadline;
}

void Model::on_kick(std::uint32_t number, std::optional<std::size_t> live, MonoTime now) {
  User& user = users_[number];
  trace_.note(now, "kick", number, Trace::kNobody);
  if (live.has_value() != user.online) fail("a kick found the wrong state", number);
  const auto count = static_cast<std::size_t>(
      std::count_if(user.sessions.begin(), user.sessions.end(),
                    [](const auto* s) { return s->at_home == Witness::AtHome::kLive; }));
  if (live && *live != count) fail("a kick ended the wrong number of sessions", number);
  user.must_leave = user.online;
  deciding_ = kicked_ = number;
}

void Model::on_hold(std::uint32_t number, PresenceRegistry::HoldVerdict verdict, MonoTime until,
                    MonoTime now) {
  User& user = users_[number];
  trace_.note(now, "hold", number, Trace::kNobody);
  const bool held = verdict == PresenceRegistry::HoldVerdict::kHeld;
  if (held != user.online) fail("a hold found the wrong state", number);
  if (!held) return;
  user.held_since = now;
  user.held_until = until;
  // Beside a live one they are of no account any more, and no hold gives them time.
  const bool alive = std::any_of(user.sessions.begin(), user.sessions.end(), [](const auto* s) {
    return s->at_home == Witness::AtHome::kLive;
  });
  for (Witness* w : user.sessions) {
    if (w->at_home == Witness::AtHome::kRunningOut && w->due <= now) w->spent |= alive;
  }
}

void Model::on_release(std::uint32_t number, std::optional<Duration> held, MonoTime now) {
  User& user = users_[number];
  trace_.note(now, "release", number, Trace::kNobody);
  if (!user.held_since || held != now - *user.held_since) {
    fail("a release found the wrong hold", number);
  }
  go_on(user, now);
}

void Model::on_hold_over(std::uint32_t number, MonoTime now) {
  User& user = users_[number];
  trace_.note(now, "the hold is over", number, Trace::kNobody);
  if (!user.held_since) fail("a hold was over that there was not", number);
  if (now < user.held_until) fail("a hold was over early", number);
  if (last_rest_ >= tick_of(user.held_until)) fail("a hold was over late", number);
  go_on(user, now);
}

/// Whoever is running out, or known to, has as much left as when it stood still.
void Model::go_on(User& user, MonoTime now) {
  const Duration held = now - *user.held_since;
  for (Witness* w : user.sessions) {
    if (w->at_home == Witness::AtHome::kLive) {
      w->told += held;
    } else {
      w->due = std::max(w->due + held, now);
      if (!w->spent) w->silent_at = w->due;
    }
  }
  user.held_since.reset();
}

void Model::after_decision(MonoTime now) {
  if (deciding_ == Trace::kNobody) return;
  User& user = users_[deciding_];
  trace_.note(now, "decided", deciding_, Trace::kNobody);
  if (user.came_online) fail("a login made no online edge", deciding_);
  if (user.must_leave) fail("an end that is final made no offline edge", deciding_);
  // The end that is final waits with others that have run out, and nobody keeps the user any more:
  // the hold is over.
  if (user.may_leave && user.held_since) {
    for (Witness* w : user.sessions) {
      if (!w->final && !w->spent) w->silent_at = now;
    }
    user.held_since.reset();
  }
  user.may_leave = false;
  deciding_ = kicked_ = Trace::kNobody;
}

// --- Edges --------------------------------------------------------------------------------------

void Model::on_edge(const Edge& edge) {
  const std::uint32_t number = user_of(edge.uid);
  User& user = users_.at(number);
  const bool online = edge.kind == EdgeKind::kOnline;
  trace_.note(edge.at, online ? "ONLINE" : "OFFLINE, reason", number, Trace::kNobody,
              static_cast<int>(edge.reason));
  if (online == user.online) fail("two edges of one kind in a row", number);
  if (edge.last_seen != user.last_seen) {
    fail("last_seen is " + to_text(edge.last_seen) + " and should be " + to_text(user.last_seen),
         number);
  }
  if (online) {
    check_online(user, edge, number);
  } else {
    check_offline(user, edge, number);
    forget_all(user);
  }
  user.online = online;
  user.held_since.reset();
  user.since = edge.at;
  user.mirrored = MonoTime::min();
  user.came_online = user.must_leave = false;
}

void Model::check_online(const User& user, const Edge& edge, std::uint32_t number) const {
  if (!user.came_online) fail("an online edge without a login", number);
  if (edge.reason != EdgeReason::kLogin) fail("an online edge with a wrong reason", number);
  if (edge.sessions != 1) fail("an online edge with a wrong number of sessions", number);
}

void Model::check_offline(const User& user, const Edge& edge, std::uint32_t number) {
  if (edge.sessions != 0) fail("an offline edge with sessions", number);
  if (edge.reason == EdgeReason::kKicked) {
    if (kicked_ != number) fail("a kick that nobody asked for", number);
    return;
  }
  if (edge.reason == EdgeReason::kShutdown) {
    if (!shutting_down_) fail("reason shutdown without one", number);
    return;
  }
  if (user.held_since && !user.may_leave) fail("a held user ran out", number);
  const Witness* last = nullptr;
  MonoTime last_silence = MonoTime::min();
  for (const Witness* session : user.sessions) {
    if (session->at_home == Witness::AtHome::kLive) {
      fail("offline while connection " + std::to_string(session->number) + " is alive", number);
    }
    if (last == nullptr || session->due > last->due) last = session;
    if (!session->final) last_silence = std::max(last_silence, session->silent_at);
  }
  if (last == nullptr) fail("offline without a session that ended", number);
  if (edge.at < last->due) fail("offline before the deadline " + to_text(last->due), number);
  const bool explained = std::any_of(user.sessions.begin(), user.sessions.end(),
                                     [&](const auto* w) { return explains(user, *w, edge); });
  if (!explained) {
    fail("no session ended with reason " + text(to_string(edge.reason)) + " and deadline " +
             to_text(edge.due),
         number);
  }
  if (user.sessions.size() == 1 && last->final) return;
  check_not_blind(user, last_silence, number);
  check_not_late(edge, last->due, number);
}

/// Whoever came back before the last deadline is online.
void Model::check_not_blind(const User& user, MonoTime due, std::uint32_t number) const {
  for (const Witness* w : user.waiting) {
    if (w->login_arrived > due) continue;
    fail("offline while a LOGIN waits that had arrived at " + to_text(w->login_arrived) +
             ", before the deadline " + to_text(due),
         number);
  }
}

/// The session with the latest deadline, or one that came home later than all with later deadlines
/// than its own: while it was alive, those who had run out were of no account any more.
bool Model::explains(const User& user, const Witness& session, const Edge& edge) {
  if (session.due != edge.due || session.ending != edge.reason) return false;
  return std::all_of(user.sessions.begin(), user.sessions.end(), [&](const Witness* other) {
    return other->due <= session.due || other->end_number < session.end_number;
  });
}

void Model::check_not_late(const Edge& edge, MonoTime due, std::uint32_t number) {
  const MonoTime tick = tick_of(due);
  if (last_rest_ >= tick) {
    fail("late: the node was at rest at " + to_text(last_rest_) + ", after the deadline " +
             to_text(due),
         number);
  }
  const MonoTime from = std::max(tick, stalled_until_);
  if (edge.at > from + profile_.lateness_max) {
    fail("late: due at " + to_text(due) + ", last stall until " + to_text(stalled_until_), number);
  }
  worst_lateness_ = std::max(worst_lateness_, edge.at - from);
}

// --- The node -----------------------------------------------------------------------------------

void Model::on_stall(MonoTime until) {
  stalled_until_ = std::max(stalled_until_, until);
}

void Model::on_gone(MonoTime now) {
  trace_.note(now, "the node is gone", Trace::kNobody, Trace::kNobody);
  for (std::uint32_t number = 0; number < users_.size(); ++number) {
    User& user = users_[number];
    if (shutting_down_ && user.online) fail("no offline edge at a clean stop", number);
    forget_all(user);
    while (!user.waiting.empty())
      stop_waiting(*user.waiting.back());
    user.online = false;
    user.held_since.reset();
    user.last_seen = MonoTime::min();
  }
  for (const auto& [key, w] : by_ref_)
    release(*w);
  by_ref_.clear();
  shutting_down_ = false;
  last_rest_ = MonoTime::min();
}

// --- At rest ------------------------------------------------------------------------------------

bool Model::online(std::uint32_t number, MonoTime now) const {
  const auto& sessions = users_[number].sessions;
  if (users_[number].held_since) return !sessions.empty();
  return std::any_of(sessions.begin(), sessions.end(), [&](const Witness* s) {
    return s->at_home == Witness::AtHome::kLive || tick_of(s->due) > now;
  });
}

void Model::check_user(std::uint32_t number, const UserView& view, MonoTime now) const {
  const User& user = users_[number];
  const bool alive = online(number, now);
  if (alive != user.online) fail(alive ? "an edge is missing" : "still online", number);
  if (alive != (view.state == PresenceState::kOnline)) {
    fail("the registry says " + text(to_string(view.state)), number);
  }
  if (view.since && *view.since != user.since) {
    fail("the registry says since " + to_text(*view.since), number);
  }
  if (view.hold.has_value() != user.held_since.has_value()) {
    fail("the registry does not know of a hold, or of its end", number);
  }
  if (view.last_seen && *view.last_seen != user.last_seen) {
    fail("the registry says last_seen " + to_text(*view.last_seen), number);
  }
  std::size_t live = 0;
  for (const Witness* w : user.sessions) {
    if (w->at_home != Witness::AtHome::kLive) continue;
    ++live;
    if (w->ended || !w->active) fail("a session lives at home only", number);
    if (w->held_since != user.held_since) fail("a session does not know of a hold", number);
    if (!w->held_since && tick_of(w->deadline) <= now) fail("a silent session is kept", number);
    const bool settled = w->changed + 2 * profile_.tick < now;
    if (profile_.track_deadlines && settled && w->told != w->deadline) {
      fail("the home does not know the deadline " + to_text(w->deadline), number);
    }
  }
  const auto shown =
      static_cast<std::size_t>(std::count_if(view.sessions.begin(), view.sessions.end(),
                                             [](const UserSession& s) { return !s.lingering; }));
  if (shown != live) fail("the registry shows the wrong number of live sessions", number);
  if (!user.waiting.empty()) fail("a LOGIN waits although nobody has anything to do", number);
  if (profile_.track_deadlines && user.online) check_mirror(user, number, now);
}

/// What has run out beside a live session may be forgotten or not.
void Model::check_mirror(const User& user, std::uint32_t number, MonoTime now) const {
  if (user.held_since) {
    if (user.mirrored < user.held_until)
      fail("a mirror knows an end before that of a hold", number);
    return;
  }
  MonoTime latest = MonoTime::min();
  MonoTime latest_ever = MonoTime::min();
  for (const Witness* w : user.sessions) {
    const bool live = w->at_home == Witness::AtHome::kLive;
    const MonoTime deadline = live ? w->told : w->due;
    latest_ever = std::max(latest_ever, deadline);
    if (live || w->due > now) latest = std::max(latest, deadline);
  }
  if (user.mirrored >= latest && user.mirrored <= latest_ever) return;
  fail("a mirror knows the deadline " + to_text(user.mirrored) + ", and it is " + to_text(latest),
       number);
}

}  // namespace pulsewheel::nodesim

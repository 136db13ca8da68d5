#include "tests/client_sim/judge.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace pulsewheel::sim {
namespace {

/// Later than every time of a run, and far enough from the end of the scale to add to.
constexpr MonoTime kNever{Duration::max() / 2};

constexpr std::uint8_t bit(Reason reason) noexcept {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(reason));
}

}  // namespace

void Verdict::merge(const Verdict& other) {
  online_edges += other.online_edges;
  offline_edges += other.offline_edges;
  kicked_edges += other.kicked_edges;
  false_offline += other.false_offline;
  missed_offline += other.missed_offline;
  late_offline += other.late_offline;
  missing_online += other.missing_online;
  duplicate_edges += other.duplicate_edges;
  wrong_reasons += other.wrong_reasons;
  untold_takeovers += other.untold_takeovers;
  repeated_edges += other.repeated_edges;
  lateness.merge(other.lateness);
  lateness_after_stall.merge(other.lateness_after_stall);
}

Judge::Judge(const JudgeRules& rules, std::uint32_t users, std::uint32_t sessions_per_user)
    : rules_(rules),
      sessions_per_user_(sessions_per_user),
      sessions_(static_cast<std::size_t>(users) * sessions_per_user),
      users_(users) {}

std::span<Judge::Session> Judge::sessions_of(std::uint32_t user) noexcept {
  return std::span(sessions_).subspan(static_cast<std::size_t>(user) * sessions_per_user_,
                                      sessions_per_user_);
}

void Judge::daemon_stopped(MonoTime at) {
  stalls_.push_back({at, kNever});
}

void Judge::daemon_continued(MonoTime at) {
  PULSEWHEEL_CHECK(!stalls_.empty());
  stalls_.back().ended = at;
}

void Judge::doubt_logins(bool doubted) noexcept {
  if (doubted == logins_doubted_) return;
  logins_doubted_ = doubted;
  if (!doubted) return;
  for (Session& session : sessions_) {
    if (session.state == State::kPending) session.state = State::kDoubtful;
  }
}

MonoTime Judge::arrival_of(MonoTime sent, bool& stalled) const noexcept {
  for (auto stall = stalls_.rbegin(); stall != stalls_.rend() && sent < stall->ended; ++stall) {
    // What went out just before may have lain in the socket unread.
    if (sent < stall->began - rules_.slack) continue;
    stalled = true;
    return stall->ended;
  }
  return sent;
}

Judge::Due Judge::due_of(MonoTime base, bool stalled) const noexcept {
  const Duration in_time = rules_.tick + rules_.slack;
  Due due{base, stalled ? in_time + rules_.drain : in_time, stalled};
  for (const Stall& stall : stalls_) {
    if (due.base + due.in_time < stall.began || due.base >= stall.ended + rules_.drain) continue;
    due = {std::max(due.base, stall.ended), in_time + rules_.drain, true};
  }
  return due;
}

MonoTime Judge::missed_after(const Window& window) const noexcept {
  const Due due = due_of(window.base, window.stalled);
  return due.base + due.in_time + rules_.grace;
}

Judge::Reasons Judge::reasons_of(const Session& session) noexcept {
  const bool unclear = session.state == State::kDoubtful || session.line == Line::kLost ||
                       (session.line == Line::kClosed &&
                        session.closed_before >= session.last.before + session.timeout);
  if (unclear) return bit(Reason::kTimeout) | bit(Reason::kDisconnect);
  return bit(session.line == Line::kClosed ? Reason::kDisconnect : Reason::kTimeout);
}

Judge::Window Judge::window_of(std::uint32_t user) noexcept {
  Window window;
  bool doubtful = false;
  for (const Session& session : sessions_of(user)) {
    if (session.state == State::kNone) continue;
    window.due = window.by_silence = true;
    const bool unread = session.state == State::kDoubtful && session.awaited;
    window.base = std::max(
        window.base,
        unread ? kNever : arrival_of(session.last.after, window.stalled) + session.timeout);
    const bool counts = session.state != State::kDoubtful;
    doubtful = doubtful || !counts;
    if (counts || session.was_live) {
      const MonoTime last = counts ? session.last.before : session.certain.before;
      window.low = std::max(window.low, last + session.timeout);
    }
  }
  add_logout(users_[user], window);
  for (const Session& session : sessions_of(user)) {
    if (session.state == State::kNone) continue;
    // Any session that may have been the last one to end: the daemon drops one that ran out up to
    // so much later, and of two packets read at nearly the same time it took either one first.
    const MonoTime deadline = arrival_of(session.last.after, window.stalled) + session.timeout;
    const Due due = due_of(deadline, window.stalled);
    if (due.base + due.in_time >= window.low) window.reasons |= reasons_of(session);
  }
  // Of two possible deadlines nobody can say by how much an edge missed the right one.
  if (doubtful) window.by_silence = false;
  return window;
}

void Judge::add_logout(const User& user, Window& window) const noexcept {
  if (!user.has_ended) return;
  window.due = true;
  window.low = std::max(window.low, user.ended.before);
  const MonoTime base = arrival_of(user.ended.after, window.stalled);
  if (base + rules_.slack >= window.low) {
    window.reasons |= bit(user.ended_by_close ? Reason::kDisconnect : Reason::kLogout);
  }
  if (base <= window.base) return;
  // Another session that ran out just before may not have been dropped yet.
  const Due others = due_of(window.base, window.stalled);
  window.certain = user.ended_answered && base > others.base + others.in_time;
  window.base = base;
  window.by_silence = false;
}

void Judge::note_gap(std::uint32_t user, MonoTime before) {
  const Window window = window_of(user);
  if (window.due && before >= window.low) open_gap(user, window, before);
}

/// A LOGIN in doubt may have lain unread up to its answer, and been no proof of life before.
void Judge::note_gap_before_login(std::uint32_t session, MonoTime accepted) {
  const std::uint32_t user = user_of(session);
  const Session answered = sessions_[session];
  if (users_[user].gap_open && users_[user].gap_end == answered.login_before) return;
  sessions_[session].state = answered.was_live ? State::kLive : State::kNone;
  sessions_[session].last = answered.certain;
  const Window window = window_of(user);
  sessions_[session] = answered;
  if (window.due && accepted >= window.low) open_gap(user, window, answered.login_before);
}

void Judge::open_gap(std::uint32_t user, const Window& window, MonoTime end) {
  settle_gap(user, end);
  User& record = users_[user];
  record.gap = window;
  record.gap_end = end;
  record.gap_open = true;
  record.has_ended = false;  // the logout, if there was one, is what the gap is about
}

void Judge::settle_gap(std::uint32_t user, MonoTime now) {
  User& record = users_[user];
  if (record.gap_open && record.online) {
    // Within the allowance the packet may have come just in time; beyond it, an edge was owed.
    const MonoTime missed = missed_after(record.gap);
    if ((record.gap.certain ? now : record.gap_end) > missed) {
      find(&Verdict::missed_offline, "a missed offline, settled by what came next", user, now);
    }
  }
  record.gap_open = false;
}

void Judge::login_sent(std::uint32_t session, Stamp stamp) {
  const std::uint32_t user = user_of(session);
  note_gap(user, stamp.before);
  Session& record = sessions_[session];
  if (record.state != State::kDoubtful) {
    record.certain = record.last;
    record.was_live = record.state != State::kNone;
  }
  record.last = record.packet = stamp;
  record.login_before = record.login_after = stamp.before;
  record.state = logins_doubted_ ? State::kDoubtful : State::kPending;
  record.line = Line::kOpen;
  record.awaited = true;
  if (!users_[user].has_login) {
    users_[user].has_login = true;
    users_[user].login_before = stamp.before;
  }
}

void Judge::login_accepted(std::uint32_t session, MonoTime at, Duration timeout) {
  Session& record = sessions_[session];
  if (record.state == State::kDoubtful) {
    note_gap_before_login(session, at);
    // In doubt is when the daemon read the LOGIN, too: at the latest when it answered.
    record.last.after = record.packet.after = record.login_after = at;
  }
  record.state = State::kLive;
  record.awaited = false;
  record.accepted_at = at;
  record.timeout = timeout;
  User& user = users_[user_of(session)];
  if (!user.accepted) {
    user.accepted = true;
    user.accepted_at = at;
  }
}

void Judge::login_refused(std::uint32_t session) {
  Session& record = sessions_[session];
  record.awaited = false;
  if (record.state == State::kPending) record.state = State::kDoubtful;
}

void Judge::timeout_changed(std::uint32_t session, Duration timeout, MonoTime at) {
  Session& record = sessions_[session];
  const auto deadline = [&](MonoTime packet, MonoTime before, MonoTime told) {
    return std::max(packet + timeout, std::min(before, told + timeout));
  };
  const Stamp due{
      deadline(record.packet.before, record.last.before + record.timeout, at - rules_.slack),
      deadline(record.packet.after, record.last.after + record.timeout, at)};
  record.last = {due.before - timeout, due.after - timeout};
  record.timeout = timeout;
}

void Judge::packet_sent(std::uint32_t session, Stamp stamp) {
  Session& record = sessions_[session];
  if (record.state == State::kNone) return;  // expired by an edge: the daemon will not listen
  note_gap(user_of(session), stamp.before);
  if (record.state == State::kLive && stamp.before >= record.last.before + record.timeout) {
    // Too late to be sure that anybody listens.
    record.certain = record.last;
    record.was_live = true;
    record.state = State::kDoubtful;
  }
  record.last = record.packet = stamp;
}

void Judge::logout_sent(std::uint32_t session, Stamp stamp) {
  end_session(session, stamp, /*by_close=*/false);
}

void Judge::logout_answered(std::uint32_t session) noexcept {
  User& user = users_[user_of(session)];
  user.ended_answered = user.has_ended && !user.ended_by_close && user.ended_session == session;
}

void Judge::closed(std::uint32_t session, Stamp stamp) {
  if (rules_.offline_on_disconnect) {
    end_session(session, stamp, /*by_close=*/true);
    return;
  }
  sessions_[session].line = Line::kClosed;
  sessions_[session].closed_before = stamp.before;
}

void Judge::lost(std::uint32_t session) noexcept {
  sessions_[session].line = Line::kLost;
}

void Judge::end_session(std::uint32_t session, Stamp stamp, bool by_close) {
  if (sessions_[session].state == State::kNone) return;
  const std::uint32_t user = user_of(session);
  note_gap(user, stamp.before);
  sessions_[session].state = State::kNone;
  for (Session& other : sessions_of(user)) {
    // Of what two connections send, nobody promises an order: this may be read before that LOGIN.
    if (other.state == State::kPending) other.state = State::kDoubtful;
  }
  users_[user].ended = stamp;
  users_[user].ended_session = session;
  users_[user].has_ended = true;
  users_[user].ended_answered = false;
  users_[user].ended_by_close = by_close;
}

void Judge::edge(std::uint32_t user, const ObservedEdge& edge) {
  PULSEWHEEL_CHECK(user < users_.size());
  users_[user].last_edge = edge.at;
  if (edge.kind == ObservedEdge::Kind::kOnline) {
    ++verdict_.online_edges;
    on_online(user, edge);
    return;
  }
  ++verdict_.offline_edges;
  if (edge.is_excused()) {
    on_excused(user, edge);
  } else {
    on_offline(user, edge);
  }
}

void Judge::on_excused(std::uint32_t user, const ObservedEdge& edge) {
  User& record = users_[user];
  if (edge.reason == Reason::kKicked) ++verdict_.kicked_edges;
  if (edge.reason == Reason::kKicked && rules_.kicks_are_ours && !record.kicked) {
    find(&Verdict::wrong_reasons, "kicked by nobody", user, edge.at);
  }
  record.online = record.gap_open = record.has_ended = record.kicked = false;
  end_sessions_logged_in_before(user, edge.at);
}

void Judge::on_online(std::uint32_t user, const ObservedEdge& edge) {
  User& record = users_[user];
  if (record.uncertain && record.has_login && edge.at >= record.login_before) {
    record.uncertain = false;
    if (record.online) ++verdict_.repeated_edges;
    record.online = true;
    return;
  }
  if (record.online || !record.has_login || edge.at < record.login_before) {
    find(&Verdict::duplicate_edges, "an online edge without a cause", user, edge.at);
    return;
  }
  if (edge.reason != Reason::kLogin) {
    find(&Verdict::wrong_reasons, "an online edge with another reason than login", user, edge.at);
  }
  record.online = true;
  // The user starts a new life, so what was due before the packets of this one is settled.
  if (record.gap_open && edge.at >= record.gap_end) record.gap_open = false;
}

void Judge::on_offline(std::uint32_t user, const ObservedEdge& edge) {
  User& record = users_[user];
  const MonoTime at = edge.at;
  const Window window = window_of(user);
  if (record.uncertain && (!window.due || at >= window.low)) {
    record.uncertain = false;
    if (!record.online) ++verdict_.repeated_edges;
    record.online = record.gap_open = record.has_ended = false;
    end_sessions_logged_in_before(user, at);
    return;
  }
  if (!record.online) {
    if (!record.accepted) {
      find(&Verdict::duplicate_edges, "an offline edge of one who was not online", user, at);
      return;
    }
    find(&Verdict::missing_online, "no online edge before an offline one", user, at);
  }
  const bool too_early = !window.due || at < window.low;
  const bool explained = (window.reasons & bit(edge.reason)) != 0;
  if (record.gap_open && at >= record.gap.low && (too_early || !explained)) {
    // Caused by the silence before the last packets, however late it was read.
    settle_with(user, record.gap, edge);
    record.gap_open = record.online = false;
    end_sessions_logged_in_before(user, record.gap.low);
    return;
  }
  if (too_early) {
    find(&Verdict::false_offline, "a false offline", user, at);
  } else {
    settle_gap(user, at);
    settle_with(user, window, edge);
  }
  record.online = record.gap_open = record.has_ended = false;
  end_sessions_logged_in_before(user, at);
}

void Judge::end_sessions_logged_in_before(std::uint32_t user, MonoTime bound) noexcept {
  User& record = users_[user];
  record.has_login = record.accepted = false;
  for (Session& session : sessions_of(user)) {
    if (session.state == State::kNone) continue;
    const bool may_yet_count = session.state == State::kDoubtful && session.awaited;
    if (session.login_after < bound && !may_yet_count) {
      session.state = State::kNone;
      continue;
    }
    if (session.login_after < bound) session.was_live = false;
    // An earlier LOGIN of the same client, which was lost without an answer, may be the first one.
    const bool had_another = session.was_live && session.certain.before >= bound;
    const MonoTime first = had_another ? session.certain.before : session.login_before;
    record.login_before = record.has_login ? std::min(record.login_before, first) : first;
    record.has_login = true;
    if (session.state != State::kLive) continue;
    record.accepted_at =
        record.accepted ? std::min(record.accepted_at, session.accepted_at) : session.accepted_at;
    record.accepted = true;
  }
}

void Judge::settle_with(std::uint32_t user, const Window& window, const ObservedEdge& edge) {
  if ((window.reasons & bit(edge.reason)) == 0) {
    find(&Verdict::wrong_reasons, "an offline edge with a wrong reason", user, edge.at);
  }
  const Due due = due_of(window.base, window.stalled);
  // The packet reached the daemon at some moment between its two stamps. An edge that is in time
  // by the first and early by the second is neither late nor early.
  const Duration lateness = std::max(edge.at - due.base, Duration::zero());
  if (window.by_silence) {
    (due.stalled ? verdict_.lateness_after_stall : verdict_.lateness).add(lateness);
  }
  if (lateness > due.in_time + rules_.grace) {
    find(&Verdict::missed_offline, "an offline edge so late that it was missed", user, edge.at);
  } else if (lateness > due.in_time) {
    find(&Verdict::late_offline, "a late offline", user, edge.at);
  }
}

Verdict Judge::finish(MonoTime end) {
  for (std::uint32_t user = 0; user < users_.size(); ++user)
    finish_user(user, end);
  return verdict_;
}

void Judge::finish_user(std::uint32_t user, MonoTime end) {
  User& record = users_[user];
  if (record.uncertain) return;
  if (!record.online) {
    Window login;
    login.base = record.accepted_at;
    if (record.accepted && missed_after(login) <= end) {
      find(&Verdict::missing_online, "no online edge", user, end);
    }
    return;
  }
  settle_gap(user, end);
  const Window window = window_of(user);
  if (window.due && missed_after(window) <= end) {
    find(&Verdict::missed_offline, "a missed offline", user, end);
  }
}

}  // namespace pulsewheel::sim

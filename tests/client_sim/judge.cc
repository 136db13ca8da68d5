#include "tests/client_sim/judge.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace pulsewheel::sim {

void Verdict::merge(const Verdict& other) {
  online_edges += other.online_edges;
  offline_edges += other.offline_edges;
  false_offline += other.false_offline;
  missed_offline += other.missed_offline;
  late_offline += other.late_offline;
  missing_online += other.missing_online;
  duplicate_edges += other.duplicate_edges;
  lateness.merge(other.lateness);
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

Judge::Window Judge::window_of(std::uint32_t user) noexcept {
  Window window;
  bool doubtful = false;
  for (const Session& session : sessions_of(user)) {
    if (session.state == State::kNone) continue;
    window.due = window.by_silence = true;
    window.base = std::max(window.base, session.last.after + session.timeout);
    if (session.state != State::kDoubtful) {
      window.low = std::max(window.low, session.last.before + session.timeout);
      continue;
    }
    doubtful = true;
    if (session.was_live) {
      window.low = std::max(window.low, session.certain.before + session.timeout);
    }
  }
  const User& record = users_[user];
  if (record.has_ended) {
    window.due = true;
    window.low = std::max(window.low, record.ended.before);
    if (record.ended.after > window.base) {
      window.base = record.ended.after;
      window.by_silence = false;
    }
  }
  // Of two possible deadlines nobody can say by how much an edge missed the right one.
  if (doubtful) window.by_silence = false;
  return window;
}

void Judge::note_gap(std::uint32_t user, MonoTime before) noexcept {
  const Window window = window_of(user);
  if (!window.due || before < window.low) return;
  User& record = users_[user];
  settle_gap(record);
  record.gap = window;
  record.gap_end = before;
  record.gap_open = true;
  record.has_ended = false;  // the logout, if there was one, is what the gap is about
}

void Judge::settle_gap(User& user) noexcept {
  // Within the allowance the packet may have come just in time; beyond it, an edge was owed.
  if (user.gap_open && user.online && user.gap_end > user.gap.base + allowance()) {
    ++verdict_.missed_offline;
  }
  user.gap_open = false;
}

void Judge::login_sent(std::uint32_t session, Stamp stamp) {
  const std::uint32_t user = user_of(session);
  note_gap(user, stamp.before);
  Session& record = sessions_[session];
  if (record.state != State::kDoubtful) {
    record.certain = record.last;
    record.was_live = record.state != State::kNone;
  }
  record.last = stamp;
  record.login_before = stamp.before;
  record.state = State::kPending;
  if (!users_[user].has_login) {
    users_[user].has_login = true;
    users_[user].login_before = stamp.before;
  }
}

void Judge::login_accepted(std::uint32_t session, MonoTime at, Duration timeout) {
  Session& record = sessions_[session];
  record.state = State::kLive;
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
  if (record.state == State::kPending) record.state = State::kDoubtful;
}

void Judge::timeout_changed(std::uint32_t session, Duration timeout) {
  sessions_[session].timeout = timeout;
}

void Judge::packet_sent(std::uint32_t session, Stamp stamp) {
  Session& record = sessions_[session];
  if (record.state == State::kNone) return;  // expired by an edge: the daemon will not listen
  note_gap(user_of(session), stamp.before);
  record.last = stamp;
}

void Judge::logout_sent(std::uint32_t session, Stamp stamp) {
  end_session(session, stamp);
}

void Judge::closed(std::uint32_t session, Stamp stamp) {
  if (rules_.offline_on_disconnect) end_session(session, stamp);
}

void Judge::end_session(std::uint32_t session, Stamp stamp) noexcept {
  if (sessions_[session].state == State::kNone) return;
  const std::uint32_t user = user_of(session);
  note_gap(user, stamp.before);
  sessions_[session].state = State::kNone;
  users_[user].ended = stamp;
  users_[user].has_ended = true;
}

void Judge::edge(std::uint32_t user, const ObservedEdge& edge) {
  PULSEWHEEL_CHECK(user < users_.size());
  if (edge.kind == ObservedEdge::Kind::kOnline) {
    ++verdict_.online_edges;
    on_online(users_[user], edge.at);
    return;
  }
  ++verdict_.offline_edges;
  if (edge.excused) {
    users_[user].online = users_[user].gap_open = users_[user].has_ended = false;
    end_sessions_logged_in_before(user, edge.at);
    return;
  }
  on_offline(user, edge.at);
}

void Judge::on_online(User& user, MonoTime at) noexcept {
  if (user.online || !user.has_login || at < user.login_before) {
    ++verdict_.duplicate_edges;
    return;
  }
  user.online = true;
  // The user starts a new life, so what was due before the packets of this one is settled.
  if (user.gap_open && at >= user.gap_end) user.gap_open = false;
}

void Judge::on_offline(std::uint32_t user, MonoTime at) {
  User& record = users_[user];
  const Window window = window_of(user);
  if (!record.online) {
    if (!record.accepted) {
      ++verdict_.duplicate_edges;
      return;
    }
    ++verdict_.missing_online;
  }
  if (record.gap_open && at >= record.gap.low && (!window.due || at < window.low)) {
    // Caused by the silence before the last packets, however late it was read.
    count_lateness(record.gap, at);
    record.gap_open = record.online = false;
    end_sessions_logged_in_before(user, record.gap.low);
    return;
  }
  if (at < window.low) {
    ++verdict_.false_offline;
  } else {
    settle_gap(record);
    count_lateness(window, at);
  }
  record.online = record.gap_open = record.has_ended = false;
  end_sessions_logged_in_before(user, at);
}

void Judge::end_sessions_logged_in_before(std::uint32_t user, MonoTime bound) noexcept {
  User& record = users_[user];
  record.has_login = record.accepted = false;
  for (Session& session : sessions_of(user)) {
    if (session.state == State::kNone) continue;
    if (session.login_before < bound) {
      session.state = State::kNone;
      continue;
    }
    record.login_before = record.has_login ? std::min(record.login_before, session.login_before)
                                           : session.login_before;
    record.has_login = true;
    if (session.state != State::kLive) continue;
    record.accepted_at =
        record.accepted ? std::min(record.accepted_at, session.accepted_at) : session.accepted_at;
    record.accepted = true;
  }
}

void Judge::count_lateness(const Window& window, MonoTime at) {
  // The packet reached the daemon at some moment between its two stamps. An edge that is in time
  // by the first and early by the second is neither late nor early.
  const Duration lateness = std::max(at - window.base, Duration::zero());
  if (window.by_silence) verdict_.lateness.add(lateness);
  if (lateness > allowance()) {
    ++verdict_.missed_offline;
  } else if (lateness > rules_.tick + rules_.slack) {
    ++verdict_.late_offline;
  }
}

Verdict Judge::finish(MonoTime end) {
  for (std::uint32_t user = 0; user < users_.size(); ++user)
    finish_user(user, end);
  return verdict_;
}

void Judge::finish_user(std::uint32_t user, MonoTime end) noexcept {
  User& record = users_[user];
  if (!record.online) {
    if (record.accepted && record.accepted_at + allowance() <= end) ++verdict_.missing_online;
    return;
  }
  settle_gap(record);
  const Window window = window_of(user);
  if (window.due && window.base + allowance() <= end) ++verdict_.missed_offline;
}

}  // namespace pulsewheel::sim

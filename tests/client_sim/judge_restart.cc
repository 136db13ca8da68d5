// What a Judge makes of a restart of the daemon.
#include <algorithm>

#include "daemon/base/check.h"
#include "tests/client_sim/judge.h"

namespace pulsewheel::sim {

void Judge::daemon_restarted(const DaemonRestart& restart) {
  PULSEWHEEL_CHECK(!stalls_.empty());
  stalls_.pop_back();  // what was sent meanwhile is lost, and not only late
  for (std::uint32_t user = 0; user < users_.size(); ++user) {
    if (becomes_uncertain(user, restart)) {
      users_[user].uncertain = true;
      users_[user].has_ended = false;
    }
    users_[user].gap_open = false;
  }
  for (Session& session : sessions_) {
    if (session.state == State::kNone || session.last.before >= restart.started) continue;
    // Of packets that came last nobody knows whether they were read: nothing may be left of a time.
    Duration left = session.timeout;
    if (!restart.killed) {
      left =
          std::clamp(session.last.after + session.timeout - restart.left, Duration::zero(), left);
    }
    session.last.before = restart.started + rules_.restart_grace - session.timeout;
    session.last.after = restart.back + rules_.restart_grace + left - session.timeout;
    session.line = Line::kLost;
  }
}

/// Whether what the log says of a user may be news to the daemon, or the other way round.
bool Judge::becomes_uncertain(std::uint32_t user, const DaemonRestart& restart) noexcept {
  const User& record = users_[user];
  if (!restart.killed) return record.has_ended && !record.ended_answered;
  const MonoTime known = restart.left - rules_.snapshot_age;
  if (record.last_edge > known || record.has_ended || record.gap_open) return true;
  if (record.accepted != record.online) return true;
  const auto sessions = sessions_of(user);
  return std::any_of(sessions.begin(), sessions.end(), [&](const Session& session) {
    return session.state != State::kNone && session.login_before > known &&
           session.login_before < restart.started;
  });
}

}  // namespace pulsewheel::sim

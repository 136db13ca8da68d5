// What a Judge tells the comparison with the ring in Redis.
#include "tests/client_sim/judge.h"

namespace pulsewheel::sim {

RingRecord Judge::record(MonoTime now) const {
  RingRecord record;
  record.taken = now;
  record.stalled = is_stalled(now);
  record.users.reserve(users_.size());
  for (std::uint32_t user = 0; user < users_.size(); ++user)
    record.users.push_back(recorded(user, now));
  return record;
}

RecordedUser Judge::recorded(std::uint32_t user, MonoTime now) const noexcept {
  const User& record = users_[user];
  RecordedUser out;
  out.since = record.last_edge;
  if (record.kicked || record.gap_open || record.has_ended) return out;
  bool live = false;
  const std::size_t first = std::size_t{user} * sessions_per_user_;
  for (const Session& session : std::span(sessions_).subspan(first, sessions_per_user_)) {
    if (session.state == State::kNone) continue;
    if (session.state != State::kLive) return out;
    // The daemon may have ended this one for good, and its edge may be on its way.
    if (session.line == Line::kLost && rules_.offline_on_disconnect) return out;
    bool stalled = false;
    const MonoTime deadline = session.last.before + session.timeout;
    if (!live || deadline > out.deadline_min) {
      out.deadline_min = deadline;
      out.timeout = session.timeout;
    }
    out.deadline_max =
        std::max(out.deadline_max, arrival_of(session.last.after, stalled) + session.timeout);
    live = true;
  }
  if (!live) {
    if (!record.online) out.presence = RecordedUser::Presence::kOffline;
  } else if (record.online && out.deadline_min > now) {
    out.presence = RecordedUser::Presence::kOnline;
  }
  return out;
}

}  // namespace pulsewheel::sim

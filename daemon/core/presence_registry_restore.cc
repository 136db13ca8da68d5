// Users who come back from an earlier run, without an edge.
#include "daemon/core/presence_registry_impl.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pulsewheel {
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

void PresenceRegistry::Impl::bring_back(UserIndex index, std::unique_ptr<SessionGroup> group) {
  for (SessionRecord& session : group->sessions)
    session.id = last_id += kIdStep;
  table.set_online(index, std::move(group));
  table.at(index).has_edge = false;
  ++online;
  ++lingering;
  deadlines.begin(index);
  settle(index);
  deadlines.mark_changed(index);
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
  deadlines.mark_changed(index);
}

}  // namespace pulsewheel

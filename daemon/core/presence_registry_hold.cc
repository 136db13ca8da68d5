// Users whose expiry an operator has paused, and what they have left when it goes on.
#include "daemon/core/presence_registry_impl.h"

#include <algorithm>

namespace pulsewheel {
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
  r.deadlines.mark_changed(index);
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
  } else {
    deadlines.set_plain_deadline(index, deadlines.plain_deadline(index) + held);
  }
  holds.remove(index);
  settle(index);
  deadlines.mark_changed(index);
}

}  // namespace pulsewheel

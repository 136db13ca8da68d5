// Until when users stay online, as mirrors are told.
#include "daemon/core/presence_registry_impl.h"

#include <algorithm>

namespace pulsewheel {
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
    r.deadlines.set_plain_deadline(index, touch.deadline);
  } else {
    find_live(*user.group, touch.session)->deadline = touch.deadline;
  }
  user.last_seen = std::max(user.last_seen, touch.last_packet);
  r.deadlines.mark_changed(index);
  return true;
}

bool PresenceRegistry::deadlines_changed() const noexcept {
  return impl_->deadlines.any_changed();
}

bool PresenceRegistry::take_deadlines(std::size_t budget, DeadlineBatch& out) {
  Impl& r = *impl_;
  for (; budget > 0 && r.deadlines.any_changed(); --budget) {
    const UserIndex index = r.deadlines.oldest();
    const UserRecord& user = r.table.at(index);
    if (user.online()) {
      const MonoTime deadline = r.deadline_of(index);
      if (r.deadlines.is_news(index, deadline)) out.push({user.uid(), deadline, user.last_seen});
      r.deadlines.note_told(index, deadline);
    }
    r.deadlines.pop();
  }
  return !r.deadlines.any_changed();
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

MonoTime PresenceRegistry::Impl::deadline_of(UserIndex index) const noexcept {
  const UserRecord& user = table.at(index);
  MonoTime latest = deadlines.plain_deadline(index);
  if (user.form == UserRecord::Form::kGroup) {
    latest = MonoTime::min();
    for (const SessionRecord& session : user.group->sessions)
      latest = std::max(latest, session.deadline);
  }
  const UserHold* const hold = holds.find(index);
  return hold == nullptr ? latest : hold->until + std::max(latest - hold->since, Duration{0});
}

}  // namespace pulsewheel

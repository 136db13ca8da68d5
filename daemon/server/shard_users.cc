// The users whose home a shard is: questions and orders of the node, and what it keeps over a
// restart.
#include "daemon/server/shard.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"

namespace pulsewheel {

UserView Shard::find_user(std::string_view uid) {
  return core_.find_user(uid, MonoClock::now());
}

bool Shard::list_online(std::uint32_t* cursor, std::size_t users,
                        std::vector<ListedUser>& out) const {
  return core_.list_online(cursor, kPortionSlots, std::min(users, kPortion), out);
}

std::optional<std::size_t> Shard::kick_user(std::string_view uid, MonoTime last_packet) {
  return core_.kick(uid, MonoClock::now(), last_packet);
}

Shard::HoldOutcome Shard::hold_user(std::string_view uid, Duration length) {
  const MonoTime now = MonoClock::now();
  HoldOutcome outcome{.verdict = core_.hold(uid, now + length, now), .hold = {}};
  if (outcome.verdict == PresenceRegistry::HoldVerdict::kHeld) {
    outcome.hold = *core_.find_user(uid, now).hold;
  }
  return outcome;
}

std::optional<Duration> Shard::release_user(std::string_view uid) {
  return core_.release(uid, MonoClock::now());
}

void Shard::on_hold_over(std::string_view uid, MonoTime /*now*/) {
  log::info("hold", {{"uid", log::Uid{uid}}}, "the hold is over");
}

bool Shard::report_offline(std::string_view uid) {
  return core_.report_offline(uid, MonoClock::now());
}

// --- Over a restart -----------------------------------------------------------------------------

std::size_t Shard::restore(const DeadlineBatch& users) {
  const MonoTime now = MonoClock::now();
  std::size_t restored = 0;
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (users.at(i).deadline > now && core_.restore(users.at(i), now)) ++restored;
  }
  return restored;
}

ShardCore::Restored Shard::restore(const UserImageBatch& users) {
  const ShardCore::Restored restored = core_.restore(users, MonoClock::now());
  update_user_gauges();
  return restored;
}

UserImageBatch Shard::copy_users(std::uint32_t* cursor, std::size_t slots, bool* more) const {
  UserImageBatch users;
  *more = core_.registry().list_users(cursor, slots, users);
  return users;
}

void Shard::list_users(std::uint32_t first_slot, std::size_t slots) {
  do {
    hand_on_edges();
  } while (core_.registry().deadlines_changed());
  RosterPart part{
      .shard = options_.index, .first_slot = first_slot, .next_slot = first_slot, .more = false};
  DeadlineBatch users;
  part.more = core_.registry().list_deadlines(&part.next_slot, slots, users);
  users.mark_as(part);
  // A part that is lost is told to the sinks as lost deadlines, and asked for again.
  static_cast<void>(sequencer_.submit(options_.index, {}, std::move(users)));
}

void Shard::shut_users_down() {
  while (!core_.shut_users_down(MonoClock::now()))
    hand_on_edges();
  hand_on_edges();
  update_user_gauges();
}

}  // namespace pulsewheel

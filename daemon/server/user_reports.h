// From what the shards say of users to what the HTTP port reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/admin/reports.h"
#include "daemon/base/time.h"
#include "daemon/core/presence_registry.h"
#include "daemon/events/event_ring.h"
#include "daemon/server/many_users.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// One user as the home shard and the sessions' shards know it.
struct UserFacts {
  std::string uid;
  UserView view;
  /// By shard; those that are gone by now are not `found`.
  std::vector<std::vector<Shard::LiveSession>> live;
  std::vector<std::vector<Shard::SessionPlace>> places;  // as many, where they were asked for
};

[[nodiscard]] UserReport report_of(const UserFacts& facts);
[[nodiscard]] Explanation explain(const UserFacts& facts, ShardIndex home, MonoTime now);
[[nodiscard]] EdgeReport report_of(const EventRing::PastEdge& edge);
[[nodiscard]] HoldReport report_of(const Shard::HoldOutcome& outcome);
/// Takes the uid and the devices out of `user`.
[[nodiscard]] UserLine line_of(KnownUser&& user, const WallClockMapping& clock);

/// The newest packet of a live session that was found; MonoTime::min() when there is none.
[[nodiscard]] MonoTime newest_packet(const UserFacts& facts) noexcept;

}  // namespace pulsewheel

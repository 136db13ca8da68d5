// PresenceRegistry::Impl: what the registry keeps, and the steps of which its decisions are made.
// Only for the registry's own files: presence_registry.cc has logins, ends and edges, and the
// others are named after what they do.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/base/check.h"
#include "daemon/core/deadline_tracking.h"
#include "daemon/core/presence_registry.h"
#include "daemon/core/user_holds.h"
#include "daemon/core/user_sessions.h"
#include "daemon/core/user_table.h"

namespace pulsewheel {

inline constexpr unsigned kShardBits = 10;
inline constexpr unsigned kCountBits = 30;
inline constexpr SessionId kIdStep = SessionId{1} << kShardBits;

/// All that changes several things allocates first, so that what throws has changed nothing.
struct PresenceRegistry::Impl {
  Impl(const Options& opts, TimeWheel& the_wheel, TickClock the_clock)
      : options(opts),
        wheel(the_wheel),
        clock(the_clock),
        table(opts.hash_seed, the_wheel),
        holds(the_wheel, the_clock),
        deadlines(opts.track_deadlines),
        last_id((opts.node_epoch << (kCountBits + kShardBits)) | opts.shard) {
    PULSEWHEEL_CHECK(options.shard < 1U << kShardBits);
  }

  [[nodiscard]] bool is_online(UserIndex index) const noexcept {
    return index != kNobody && table.at(index).online();
  }
  /// Whether there is a record, and not one that is only not swept yet.
  [[nodiscard]] bool remembers(UserIndex index, MonoTime now) const noexcept {
    return index != kNobody &&
           (table.at(index).online() || table.at(index).since + options.offline_retention > now);
  }
  [[nodiscard]] LoginVerdict admit(UserIndex index, std::string_view device) const noexcept;
  /// The first session of a user who is offline, or kNobody yet. Returns the user's slot.
  UserIndex go_online(UserIndex index, std::string_view uid, SessionRecord&& session, MonoTime now,
                      EdgeBatch& edges);
  /// One more session of an online user. Returns the live session that it takes over.
  std::optional<SessionRef> join(UserIndex index, SessionRecord&& session);
  /// Turns a live session into a lingering one.
  void linger(UserIndex index, const SessionEnd& end);
  /// Drops one live session of a user whom others keep online.
  void drop(UserIndex index, const SessionEnd& end) noexcept;
  /// Drops all sessions of an online user.
  void go_offline(UserIndex index, Ending ending, MonoTime last_seen, MonoTime now,
                  EdgeBatch& edges);
  /// Room for one more user, and one more change, in what tracks deadlines. What throws has changed
  /// nothing.
  void reserve_change() { deadlines.reserve(std::size_t{table.slots()} + 1); }
  /// Until when the user stays online if nothing more comes. With track_deadlines only.
  [[nodiscard]] MonoTime deadline_of(UserIndex index) const noexcept;
  /// Puts a user who was online in an earlier run online again, without an edge.
  void bring_back(UserIndex index, std::unique_ptr<SessionGroup> group);
  /// Lets a user who lingers do so until `deadline` at least.
  void prolong(UserIndex index, MonoTime last_seen, MonoTime deadline);
  /// The group of an online user, with the deadline that is known of a plain session.
  SessionGroup& expand(UserIndex index);
  /// Where the user's own time stands, at which sessions run out: still, while held.
  [[nodiscard]] MonoTime time_of(UserIndex index, MonoTime now) const noexcept {
    const UserHold* const hold = holds.find(index);
    return hold != nullptr ? hold->since : now;
  }
  /// The deadline of a session that has ended, on the user's own time.
  [[nodiscard]] MonoTime deadline_of_end(UserIndex index, const SessionEnd& end,
                                         MonoTime now) const noexcept;
  /// Lets a held user's time go on; the live ones are appended to `sessions`.
  void release(UserHold& hold, MonoTime now, std::vector<SessionRef>& sessions);
  /// After each change of a group: its hook waits for the latest lingering deadline, or is idle
  /// when there is none; and a group of one plain session becomes just that.
  void settle(UserIndex index) noexcept;

  Options options;
  TimeWheel& wheel;
  const TickClock clock;
  UserTable table;
  UserHolds holds;
  DeadlineTracking deadlines;
  SessionId last_id;
  std::size_t online = 0;
  std::size_t lingering = 0;
  std::size_t live = 0;
  UserIndex shutdown_cursor = 0;
};

}  // namespace pulsewheel

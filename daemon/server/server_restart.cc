// The part of Server that hands the users on from one run to the next.
#include <chrono>
#include <future>
#include <optional>
#include <string>

#include "daemon/base/log.h"
#include "daemon/server/server.h"

namespace pulsewheel {
namespace {

/// How long the start may wait for Redis to say who was online.
constexpr std::chrono::seconds kTakeBackLimit{3};

void drop_snapshot(const std::string& state_dir) {
  try {
    remove_snapshot(state_dir);
  } catch (const StateError& error) {
    log::error("snapshot", "{}: remove it, or the next start will bring its users back",
               error.what());
  }
}

}  // namespace

// --- Start --------------------------------------------------------------------------------------

/// Whoever was online when this node ended, and may still come back, is online again before
/// anybody can come.
void Server::bring_users_back() {
  std::optional<DeadlineBatch> ring;
  if (mirror_) ring = users_in_ring();
  WarmStart::Restored restored;
  try {
    restored =
        warm_start_->restore(status_->shards(),
                             {.hash_seed = facts_.hash_seed,
                              .grace = config_.restart.grace,
                              .timeout_max = config_.presence.timeout_max},
                             {.users = ring ? &*ring : nullptr,
                              .decides = config_.redis.mode == Config::Redis::Mode::kShared});
  } catch (const StateError& error) {  // after it was read once: the disk has gone bad
    log::error("restore", "not everybody could be brought back: {}", error.what());
  }
  if (snapshotter_) {
    snapshotter_->counters().restored_online.set(static_cast<std::int64_t>(restored.online));
    snapshotter_->counters().restored_offline.set(static_cast<std::int64_t>(restored.offline));
  }
}

/// A Redis that does not answer in time does not hold up the start.
std::optional<DeadlineBatch> Server::users_in_ring() {
  if (own_users_.wait_for(kTakeBackLimit) == std::future_status::ready) return own_users_.get();
  log::warn("restore", "Redis did not say in time who was online");
  return std::nullopt;
}

/// A disk may take its time for it, in which signals still count.
void Server::drop_old_snapshot() {
  snapshot_remover_.start("pw-remove",
                          [state_dir = epoch_store_->state_dir()] { drop_snapshot(state_dir); });
}

// --- The end ------------------------------------------------------------------------------------

/// Before the first session is sent away: its end may reach its home shard at once.
void Server::hold_users() {
  for (auto& shard : shards_)
    shard->call([&shard] { shard->hold_users(); });
}

/// Everybody who is left lingers from now on, whatever news was still on its way between shards.
void Server::end_sessions() {
  hold_users();
  for (int hop = 0; hop <= Shard::kMailHops; ++hop) {
    for (auto& shard : shards_)
      shard->call([&shard] { shard->end_sessions(); });
  }
}

/// The shards have stopped. Whoever is online stays so in a snapshot, or is told to be offline.
void Server::part_with_users() {
  const auto last = snapshotter_ ? snapshotter_->write_last() : Snapshotter::Last::kNone;
  if (last == Snapshotter::Last::kWritten) return;
  if (last == Snapshotter::Last::kOlderServes) {
    log::error("stop",
               "the users are left as the snapshot from before has them; the next start will take "
               "this one for a crash");
    in_order_ = false;
    return;
  }
  drop_snapshot(epoch_store_->state_dir());
  for (auto& shard : shards_)
    shard->shut_users_down();
}

}  // namespace pulsewheel

#include "daemon/server/warm_start.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <boost/unordered/unordered_flat_set.hpp>

#include "daemon/base/log.h"
#include "daemon/events/snapshot_clock.h"

namespace pulsewheel {
namespace {

using Purpose = SnapshotHead::Purpose;
using Uids = boost::unordered_flat_set<std::string_view>;

Uids uids_of(const DeadlineBatch& users) {
  Uids uids;
  uids.reserve(users.size());
  for (std::size_t i = 0; i < users.size(); ++i)
    uids.insert(users.at(i).uid);
  return uids;
}

}  // namespace

/// Takes a snapshot's users block by block and gives them to their home shards.
class WarmStart::Distributor {
 public:
  /// `reference`: the moment of the snapshot, as a time of this run.
  Distributor(std::span<Shard* const> shards, const Terms& terms, MonoTime reference,
              std::optional<Uids> only)
      : shards_(shards), terms_(terms), reference_(reference), only_(std::move(only)) {}

  void take(const UserImageBatch& users);
  /// The offline users, who come last: the oldest first, whatever shard had them.
  void finish();
  [[nodiscard]] const ShardCore::Restored& restored() const noexcept { return restored_; }

 private:
  [[nodiscard]] UserImageBatch& home_of(std::string_view uid) {
    return by_home_[home_shard_of(uid, terms_.hash_seed, shards_.size())];
  }
  void hand_over();

  const std::span<Shard* const> shards_;
  const Terms terms_;
  const MonoTime reference_;
  const std::optional<Uids> only_;  // online ones
  std::vector<UserImageBatch> by_home_{shards_.size()};
  UserImageBatch offline_;
  ShardCore::Restored restored_;
};

void WarmStart::Distributor::take(const UserImageBatch& users) {
  const MonoTime now = MonoClock::now();
  for (const UserImage& user : users.users()) {
    if (!user.online()) {
      offline_.add(user);
      continue;
    }
    if (only_ && !only_->contains(user.uid)) continue;
    UserImageBatch& home = home_of(user.uid);
    home.add(user);
    for (SessionImage session : users.sessions_of(user)) {
      const Duration left =
          std::clamp(session.deadline - reference_, Duration{0}, terms_.timeout_max);
      // A deadline that is over at once would be in the past by the time that it is looked at.
      session.deadline = now + std::max<Duration>(left + terms_.grace, std::chrono::seconds{1});
      home.add_session(session);
    }
  }
  hand_over();
}

void WarmStart::Distributor::finish() {
  std::vector<UserImage> users = offline_.users();
  std::sort(users.begin(), users.end(),
            [](const UserImage& a, const UserImage& b) { return a.since < b.since; });
  for (const UserImage& user : users)
    home_of(user.uid).add(user);
  hand_over();
}

void WarmStart::Distributor::hand_over() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (by_home_[i].empty()) continue;
    shards_[i]->call([&, i] {
      const ShardCore::Restored restored = shards_[i]->restore(by_home_[i]);
      restored_.online += restored.online;
      restored_.offline += restored.offline;
    });
    by_home_[i] = {};
  }
}

WarmStart::WarmStart(const EpochStore& store)
    : file_(store.state_dir(), store.folder_id(), store.epoch()),
      something_is_unknown_(store.after_crash()) {
  switch (file_.state()) {
    case SnapshotFile::State::kNone:
      break;
    case SnapshotFile::State::kGood:
      continues_ = !store.after_crash() && file_.head().purpose == Purpose::kEnd;
      break;
    case SnapshotFile::State::kUnfit:
      log::warn("restore", "the snapshot {}; {}, and the start goes on without", file_.problem(),
                file_.set_aside());
      something_is_unknown_ = true;
      break;
  }
}

WarmStart::Restored WarmStart::restore(std::span<Shard* const> shards, const Terms& terms,
                                       const Ring& ring) const {
  Restored restored;
  if (has_snapshot()) {
    const ClockSample now = ClockSample::take();
    const Duration away = time_between(file_.head().at, now);
    std::optional<Uids> only;
    if (ring.users != nullptr && ring.decides) only = uids_of(*ring.users);
    Distributor distributor(shards, terms, now.mono - away, std::move(only));
    file_.read(now.mono - away,
               [&distributor](const UserImageBatch& users) { distributor.take(users); });
    distributor.finish();
    restored.online = distributor.restored().online;
    restored.offline = distributor.restored().offline;
    log::info("restore",
              "{} users are online as before, and {} remembered as offline, from the snapshot of "
              "{:.1f} s ago{}",
              restored.online, restored.offline, to_seconds(away),
              continues_ ? "" : ", the last one before a kill or a crash");
  }
  if (ring.users != nullptr) {
    std::vector<DeadlineBatch> by_home(shards.size());
    for (std::size_t i = 0; i < ring.users->size(); ++i) {
      const UserDeadline user = ring.users->at(i);
      by_home[home_shard_of(user.uid, terms.hash_seed, shards.size())].push(user);
    }
    for (std::size_t i = 0; i < shards.size(); ++i)
      shards[i]->call([&, i] { restored.ring += shards[i]->restore(by_home[i]); });
    if (restored.ring > 0) {
      log::info("restore", "{} users are online as before, from Redis", restored.ring);
    }
  }
  return restored;
}

}  // namespace pulsewheel

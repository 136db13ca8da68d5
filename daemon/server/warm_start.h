// WarmStart: brings back who was there when an earlier run of the node ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/core/user_deadline.h"
#include "daemon/core/user_image.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/snapshot_file.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// Who comes back: those in the snapshot, and those whom the ring in Redis holds for this node. Of
/// a user who is in both, the snapshot knows the devices and since when, and what is newer of the
/// two holds: the later packet, the later deadline. Who is in one of them only comes back, too; but
/// in a shared ring others act on what it says while this node is away, so there the ring decides
/// who is online, and a user of the snapshot whom it does not hold for us any more stays out. A
/// Redis that does not answer says nothing.
///
/// Main thread, at the start.
class WarmStart {
 public:
  /// Looks for the snapshot, and sets one aside that cannot be used; the log says so.
  explicit WarmStart(const EpochStore& store);

  /// The run before this one ended in order and wrote everything down: nothing is unknown, and the
  /// edges' numbers go on.
  [[nodiscard]] bool continues() const noexcept { return continues_; }
  /// Of this run's first edge.
  [[nodiscard]] std::uint64_t first_seq() const noexcept {
    return continues_ ? file_.end().last_seq + 1 : 1;
  }
  /// 0: none.
  [[nodiscard]] std::uint32_t continued_epoch() const noexcept {
    return continues_ ? file_.head().epoch : 0;
  }
  /// Nobody can tell who was online.
  [[nodiscard]] bool something_is_unknown() const noexcept { return something_is_unknown_; }
  [[nodiscard]] bool has_snapshot() const noexcept {
    return file_.state() == SnapshotFile::State::kGood;
  }

  struct Terms {
    std::uint64_t hash_seed = 0;
    Duration grace{0};        // on top of what was left of each session's time
    Duration timeout_max{0};  // no session has more left
  };
  /// The ring's word: null where there is none.
  struct Ring {
    const DeadlineBatch* users = nullptr;
    bool decides = false;  // it is shared
  };
  /// Brings them back, each to its home shard, before anybody can come. How many were not known
  /// before: none is counted twice.
  struct Restored {
    std::size_t online = 0;   // from the snapshot
    std::size_t offline = 0;  // from the snapshot
    std::size_t ring = 0;     // from the ring only
  };
  Restored restore(std::span<Shard* const> shards, const Terms& terms, const Ring& ring) const;

 private:
  class Distributor;

  SnapshotFile file_;
  bool continues_ = false;
  bool something_is_unknown_ = false;
};

}  // namespace pulsewheel

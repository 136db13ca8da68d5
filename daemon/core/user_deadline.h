// UserDeadline: until when a user stays online if nothing more comes, for mirrors and snapshots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/time.h"

namespace pulsewheel {

struct UserDeadline {
  std::string_view uid;  // points into the batch
  MonoTime deadline;     // the latest of the user's sessions, lingering ones included
  MonoTime last_seen;    // the newest packet that the home shard knows of
};

/// A stretch of a shard's user slots, see PresenceRegistry::list_deadlines().
struct RosterPart {
  ShardIndex shard = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t next_slot = 0;
  bool more = false;  // there are slots behind it
};

/// Deadlines with their uids in one buffer. Moved from thread to thread whole.
class DeadlineBatch {
 public:
  /// Makes of what has changed a list of all users in a part of the slots, for whoever asked for
  /// it. Such a batch may be empty.
  void mark_as(const RosterPart& part) noexcept { roster_ = part; }
  [[nodiscard]] const std::optional<RosterPart>& roster() const noexcept { return roster_; }

  /// Copies `user` and its uid. Amortised O(uid length). Where memory runs out std::bad_alloc is
  /// thrown and nothing has changed.
  void push(const UserDeadline& user);

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  /// Number `i`; its uid is valid until the batch is changed.
  [[nodiscard]] UserDeadline at(std::size_t i) const noexcept;

 private:
  struct Record {
    MonoTime deadline;
    MonoTime last_seen;
    std::uint32_t uid_offset;
    std::uint8_t uid_size;
  };
  std::vector<Record> records_;
  std::string uids_;
  std::optional<RosterPart> roster_;
};

}  // namespace pulsewheel

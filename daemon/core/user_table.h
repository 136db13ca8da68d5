// UserTable: the user records of one shard, found by uid or by slot. Part of PresenceRegistry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "daemon/base/ids.h"
#include "daemon/base/siphash.h"
#include "daemon/base/time.h"
#include "daemon/core/edge.h"
#include "daemon/core/time_wheel.h"

namespace pulsewheel {

/// A slot of the user slab.
using UserIndex = std::uint32_t;
inline constexpr UserIndex kNobody = 0xffff'ffff;

/// One session of a user: live while it has a connection, else lingering until its deadline.
struct SessionRecord {
  SessionRef session;                           // generation 0: lingering
  EdgeReason ending = EdgeReason::kDisconnect;  // lingering: what running out will be called
  SessionId id = 0;
  MonoTime login_at;
  MonoTime last_packet;  // the newest that is known here: of a live session, its login
  MonoTime deadline;     // lingering
  Duration timeout{0};   // lingering: as negotiated; 0: not known
  std::string device;    // empty: no label

  [[nodiscard]] bool live() const noexcept { return session.generation != 0; }
  /// Whether a PlainSession can say it all.
  [[nodiscard]] bool plain() const noexcept { return live() && device.empty(); }
};

/// The sessions of a user who has more to remember than one plain session. Its hook is armed
/// exactly while a session lingers, at the latest deadline of those.
struct SessionGroup : TimerHook {
  static constexpr HookKind kHookKind = HookKind::kLinger;
  using Sessions = boost::container::small_vector<SessionRecord, 1>;

  SessionGroup(UserIndex whose, SessionRecord&& first) : TimerHook(kHookKind), user(whose) {
    sessions.push_back(std::move(first));
  }

  const UserIndex user;
  Sessions sessions;
};

/// A live session without a device label: all that most users ever have.
struct PlainSession {
  SessionId id;
  MonoTime login_at;
  std::uint32_t index;  // of its SessionRef; the shard stands in the UserRecord
  std::uint32_t generation;
};

/// One user in one cache line; a million of them is what the node is built for. Which member of
/// the union is alive is said by `form`; only UserTable changes that.
struct alignas(64) UserRecord {
  enum class Form : std::uint8_t { kFree, kOffline, kPlain, kGroup };
  static constexpr std::size_t kInlineUidBytes = 16;

  /// Neighbours in the queue of offline users.
  struct QueueLinks {
    UserIndex previous;
    UserIndex next;
  };

  UserRecord() noexcept : next_free(0) {}
  ~UserRecord() = default;
  UserRecord(const UserRecord&) = delete;
  UserRecord& operator=(const UserRecord&) = delete;

  [[nodiscard]] bool online() const noexcept {
    return form == Form::kPlain || form == Form::kGroup;
  }
  [[nodiscard]] std::string_view uid() const noexcept {
    return {uid_size <= kInlineUidBytes ? uid_bytes.data() : uid_heap, uid_size};
  }
  /// Requires kPlain.
  [[nodiscard]] SessionRef plain_ref() const noexcept {
    return {plain.index, plain.generation, plain_shard};
  }

  union {
    std::array<char, kInlineUidBytes> uid_bytes{};
    char* uid_heap;  // longer ones
  };
  MonoTime since;      // of the state
  MonoTime last_seen;  // the newest proof of life that is known here
  union {
    PlainSession plain;   // kPlain
    SessionGroup* group;  // kGroup, owned
    QueueLinks queue;     // kOffline
    UserIndex next_free;  // kFree
  };
  std::uint32_t generation = 0;
  ShardIndex plain_shard = 0;  // kPlain
  std::uint8_t uid_size = 0;
  Form form : 3 = Form::kFree;
  bool has_edge : 1 = false;                        // none is known of a user who was taken back
  EdgeReason edge_reason : 4 = EdgeReason::kLogin;  // of the last edge

  static_assert(kEdgeReasonCount <= 16);
};
static_assert(sizeof(UserRecord) == 64);

/// Owns the records of one shard: a slab of slots that stay where they are and are reused, a set
/// of slots by uid, and the queue of offline users, oldest first. Decides nothing.
///
/// Confined to the registry's thread. What throws (std::bad_alloc only) has changed nothing.
class UserTable {
 public:
  /// `wheel` is where groups are armed; it must outlive the table.
  UserTable(std::uint64_t hash_seed, TimeWheel& wheel);
  ~UserTable();
  UserTable(const UserTable&) = delete;
  UserTable& operator=(const UserTable&) = delete;

  /// kNobody: no record. O(1).
  [[nodiscard]] UserIndex find(std::string_view uid) const noexcept;
  /// Whether this is a record, and still the one with that generation. O(1).
  [[nodiscard]] bool holds(UserIndex index, std::uint32_t generation) const noexcept;
  /// Any slot, free or not. Requires index < slots().
  [[nodiscard]] UserRecord& at(UserIndex index) const noexcept {
    return chunks_[index / kChunkUsers][index % kChunkUsers];
  }
  [[nodiscard]] UserIndex slots() const noexcept { return slots_; }

  /// A new record for a uid that has none, offline and at the end of the queue. O(1), but for the
  /// growth of one part of the set: 1/256 of it, about 4,000 uids hashed anew at a million users.
  UserIndex create(std::string_view uid);
  /// Forgets an offline user; the slot gets a new generation when it is given out again. O(1).
  void forget(UserIndex index) noexcept;

  // The forms of a record. Each ends the one before.

  /// Puts an offline user online, with one session that needs no group.
  void set_online(UserIndex index, const SessionRecord& plain) noexcept;
  /// The same with a group, made for this user.
  void set_online(UserIndex index, std::unique_ptr<SessionGroup> group) noexcept;
  /// Ends all sessions and puts the user at the end of the queue.
  void set_offline(UserIndex index) noexcept;
  /// The group of an online user, made from the plain session if need be: which changes nothing
  /// but the form. Allocates then.
  SessionGroup& expand(UserIndex index);
  /// Back to a plain session, if that is all there is. Any reference to the group ends then.
  void compact(UserIndex index) noexcept;

  /// The oldest of the queue; kNobody when it is empty.
  [[nodiscard]] UserIndex oldest_offline() const noexcept { return queue_head_; }
  [[nodiscard]] std::size_t offline_users() const noexcept { return queue_size_; }

 private:
  static constexpr UserIndex kChunkUsers = 512;  // 32 KiB
  static constexpr std::size_t kPartsBits = 8;
  static constexpr std::size_t kParts = std::size_t{1} << kPartsBits;

  /// A uid with its hash, so that it is hashed once per look-up.
  struct Probe {
    std::string_view uid;
    std::uint64_t hash;
  };
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    const UserTable* table;
    std::size_t operator()(UserIndex index) const noexcept {
      return table->hash(table->at(index).uid());
    }
    std::size_t operator()(const Probe& probe) const noexcept { return probe.hash; }
  };
  struct Equal {
    using is_transparent = void;
    const UserTable* table;
    bool operator()(UserIndex a, UserIndex b) const noexcept { return a == b; }
    bool operator()(const Probe& probe, UserIndex index) const noexcept {
      return probe.uid == table->at(index).uid();
    }
    bool operator()(UserIndex index, const Probe& probe) const noexcept {
      return probe.uid == table->at(index).uid();
    }
  };
  /// Slots, 5 to 12 bytes a user: the uids stay in the records.
  using Set = boost::unordered_flat_set<UserIndex, Hash, Equal>;

  [[nodiscard]] std::uint64_t hash(std::string_view uid) const noexcept {
    return siphash13(uid, key_);
  }
  /// The part is chosen by bits that the set itself looks at last.
  [[nodiscard]] static std::size_t part_of(std::uint64_t hash) noexcept {
    return hash >> 8 & (kParts - 1);
  }
  void add_chunk();
  void enqueue(UserIndex index) noexcept;
  void dequeue(UserIndex index) noexcept;
  static void set_plain(UserRecord& user, const SessionRecord& session) noexcept;
  void delete_group(UserRecord& user) noexcept;

  TimeWheel& wheel_;
  SipKey key_;
  std::vector<std::unique_ptr<UserRecord[]>> chunks_;
  UserIndex slots_ = 0;
  UserIndex free_head_ = kNobody;
  // In parts, since a set that grows hashes all its members again: a part is done in a
  // millisecond where the whole would stop the shard for a tenth of a second.
  std::vector<Set> parts_;
  UserIndex queue_head_ = kNobody;
  UserIndex queue_tail_ = kNobody;
  std::size_t queue_size_ = 0;
};

}  // namespace pulsewheel

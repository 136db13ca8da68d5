// The bytes of a snapshot file: written and read in blocks, each with its checksum. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/base/time.h"
#include "daemon/core/user_image.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/snapshot_clock.h"

namespace pulsewheel {

/// What a snapshot file is:
///
///   "PULSWHL\n", version u32                     all numbers big-endian
///   blocks: size u32, checksum u64, `size` bytes
///
/// The first block is the head, the last one the end, all between hold users:
///
///   head  'H', purpose u8, folder id, epoch u32, wall us u64, boot us u64, boot id
///   users 'U', users
///   end   'E', last seq u64, users online u64, users offline u64
///   user  uid size u8, uid, sessions v, since z, last_seen z, sessions
///   session  ending u8, deadline z, last packet z, login z, device size u8, device
///
/// v is LEB128, z the same of a zigzag number: microseconds. since, last_seen and deadline count
/// from the moment of the head; last packet from the user's last_seen; login from its since. A
/// checksum is SipHash-1-3 with the one before it in its key, so that blocks stand in their order:
/// it finds damage, not malice.
///
/// About 36 bytes for a user with a uid of 16 bytes and one session.
namespace snapshot_format {
inline constexpr std::string_view kMagic = "PULSWHL\n";
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kStartBytes = kMagic.size() + 4;
inline constexpr std::size_t kBlockHeadBytes = 12;
/// A block is closed once it is as long as this.
inline constexpr std::size_t kBlockBytes = 64 * 1024;
/// What a reader takes: that, and the longest user on top.
inline constexpr std::size_t kBlockBytesMax = 512 * 1024;
inline constexpr std::size_t kUidBytesMax = 128;
inline constexpr std::size_t kDeviceBytesMax = 64;
/// sessions_per_user_max live ones, and as many that linger.
inline constexpr std::size_t kSessionsMax = 2'000;
/// Of all times, in both directions, from the moment of the head.
inline constexpr Duration kSpanMax = kAwayMax;
/// What the first block's checksum has in place of one before it.
inline constexpr std::uint64_t kFirstChecksum = 0x5055'4c53'5748'4c0aULL;
[[nodiscard]] std::uint64_t checksum_of(std::string_view block, std::uint64_t before) noexcept;
}  // namespace snapshot_format

struct SnapshotHead {
  /// Why it was written. Behind one at the end nothing has changed any more.
  enum class Purpose : std::uint8_t { kPeriodic, kEnd };

  Purpose purpose = Purpose::kPeriodic;
  FolderId folder{};
  std::uint32_t epoch = 0;
  ClockSample at;  // `mono` is of this process: the writer's own, or what a reader makes of it
};

struct SnapshotEnd {
  std::uint64_t last_seq = 0;
  std::uint64_t users_online = 0;
  std::uint64_t users_offline = 0;
};

/// Confined to one thread. Calls: the constructor, add() as often as is wanted, finish().
class SnapshotEncoder {
 public:
  /// Gets the bytes, a block or less at a time. What it throws comes out of the calls below.
  using Sink = std::function<void(std::string_view)>;

  SnapshotEncoder(const SnapshotHead& head, Sink sink);

  /// Of sessions, the deadlines and last packets as they stand in the batch.
  void add(const UserImageBatch& users);
  void finish(std::uint64_t last_seq);

  [[nodiscard]] std::uint64_t users_online() const noexcept { return end_.users_online; }
  [[nodiscard]] std::uint64_t users_offline() const noexcept { return end_.users_offline; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void add_user(const UserImage& user, std::span<const SessionImage> sessions);
  void close_block();

  const MonoTime reference_;
  Sink sink_;
  std::string block_;
  std::uint64_t checksum_;
  std::uint64_t bytes_ = 0;
  SnapshotEnd end_;
};

/// Reads a file in the pieces that it asks for. Whatever it is fed, it allocates little more than
/// one block, and refuses what an encoder could not have written. Confined to one thread.
class SnapshotDecoder {
 public:
  /// `reference`: the time of the head's moment, to which the users' times are given.
  explicit SnapshotDecoder(MonoTime reference = MonoTime{}) noexcept;

  /// How many bytes take() wants next, at most kBlockBytesMax; 0: the end has been read, and
  /// nothing may follow.
  [[nodiscard]] std::size_t wants() const noexcept { return wants_; }

  /// Takes exactly wants() bytes, which are not 0. False: they are wrong, error() says how, and
  /// nothing more can be taken.
  [[nodiscard]] bool take(std::span<const std::byte> bytes);
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// The error is a version that this program does not know.
  [[nodiscard]] bool is_from_the_future() const noexcept { return is_from_the_future_; }

  /// Known once read.
  [[nodiscard]] const std::optional<SnapshotHead>& head() const noexcept { return head_; }
  [[nodiscard]] const std::optional<SnapshotEnd>& end() const noexcept { return end_; }
  /// The users of the block that take() has just read; empty else. Valid until the next take().
  [[nodiscard]] const UserImageBatch& users() const noexcept { return users_; }

 private:
  enum class Expected : std::uint8_t { kStart, kBlockHead, kBlock, kNothing };
  class Reader;

  [[nodiscard]] bool fail(std::string what);
  [[nodiscard]] bool take_start(std::span<const std::byte> bytes);
  [[nodiscard]] bool take_block_head(std::span<const std::byte> bytes);
  [[nodiscard]] bool take_block(std::span<const std::byte> bytes);
  [[nodiscard]] bool take_head(Reader& in);
  [[nodiscard]] bool take_users(Reader& in);
  [[nodiscard]] bool take_user(Reader& in);
  [[nodiscard]] bool take_end(Reader& in);

  const MonoTime reference_;
  Expected expected_ = Expected::kStart;
  std::size_t wants_;
  std::uint64_t checksum_;           // of the last block
  std::uint64_t next_checksum_ = 0;  // that the block to come must have
  std::uint64_t block_number_ = 0;
  std::optional<SnapshotHead> head_;
  std::optional<SnapshotEnd> end_;
  SnapshotEnd found_;
  UserImageBatch users_;
  std::string error_;
  bool is_from_the_future_ = false;
};

}  // namespace pulsewheel

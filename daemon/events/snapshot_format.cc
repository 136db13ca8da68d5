#include "daemon/events/snapshot_format.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/siphash.h"

namespace pulsewheel {
namespace {

using namespace snapshot_format;
using std::chrono::microseconds;

constexpr char kHeadBlock = 'H';
constexpr char kUsersBlock = 'U';
constexpr char kEndBlock = 'E';

constexpr std::uint64_t kChecksumDomain = 0x736e'6170'7368'6f74ULL;

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t shift = 8 * sizeof(T); shift > 0;) {
    shift -= 8;
    out += static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  out += static_cast<char>(value);
}

void put_zigzag(std::string& out, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  put_varint(out, bits << 1 ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

template <std::size_t kSize>
void put_bytes(std::string& out, const std::array<std::byte, kSize>& bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Microseconds from `reference` to `time`, both far enough from the ends of the scale.
template <class Round>
std::int64_t offset_of(MonoTime time, MonoTime reference, Round round) noexcept {
  return round(std::clamp(time, reference - kSpanMax, reference + kSpanMax) - reference).count();
}

/// Of what has been: never later than it was.
std::int64_t past_offset(MonoTime time, MonoTime reference) noexcept {
  return offset_of(time, reference, [](Duration d) { return std::chrono::floor<microseconds>(d); });
}

/// Of a deadline: never earlier than it is.
std::int64_t deadline_offset(MonoTime time, MonoTime reference) noexcept {
  return offset_of(time, reference, [](Duration d) { return std::chrono::ceil<microseconds>(d); });
}

std::uint64_t unix_us(WallTime time) noexcept {
  const auto us = std::chrono::floor<microseconds>(time.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0));
}

}  // namespace

std::uint64_t snapshot_format::checksum_of(std::string_view block, std::uint64_t before) noexcept {
  return siphash13(block, {before, kChecksumDomain});
}

// --- Writing ------------------------------------------------------------------------------------

SnapshotEncoder::SnapshotEncoder(const SnapshotHead& head, Sink sink)
    : reference_(head.at.mono), sink_(std::move(sink)), checksum_(kFirstChecksum) {
  std::string start(kMagic);
  put(start, kVersion);
  bytes_ += start.size();
  sink_(start);
  block_ += kHeadBlock;
  put(block_, static_cast<std::uint8_t>(head.purpose));
  put_bytes(block_, head.folder);
  put(block_, head.epoch);
  put(block_, unix_us(head.at.wall));
  put(block_,
      static_cast<std::uint64_t>(std::max<std::int64_t>(head.at.boot / microseconds{1}, 0)));
  put_bytes(block_, head.at.boot_id);
  close_block();
}

void SnapshotEncoder::add(const UserImageBatch& users) {
  for (const UserImage& user : users.users())
    add_user(user, users.sessions_of(user));
}

void SnapshotEncoder::add_user(const UserImage& user, std::span<const SessionImage> sessions) {
  PULSEWHEEL_CHECK(!user.uid.empty() && user.uid.size() <= kUidBytesMax);
  sessions = sessions.first(std::min(sessions.size(), kSessionsMax));
  ++(user.online() ? end_.users_online : end_.users_offline);
  if (block_.empty()) block_ += kUsersBlock;
  put(block_, static_cast<std::uint8_t>(user.uid.size()));
  block_ += user.uid;
  put_varint(block_, sessions.size());
  const std::int64_t since = past_offset(user.since, reference_);
  const std::int64_t last_seen = past_offset(user.last_seen, reference_);
  put_zigzag(block_, since);
  put_zigzag(block_, last_seen);
  for (const SessionImage& session : sessions) {
    PULSEWHEEL_CHECK(session.device.size() <= kDeviceBytesMax);
    put(block_, static_cast<std::uint8_t>(session.ending));
    put_zigzag(block_, deadline_offset(session.deadline, reference_));
    put_zigzag(block_, past_offset(session.last_packet, reference_) - last_seen);
    put_zigzag(block_, past_offset(session.login_at, reference_) - since);
    put(block_, static_cast<std::uint8_t>(session.device.size()));
    block_ += session.device;
  }
  if (block_.size() >= kBlockBytes) close_block();
}

void SnapshotEncoder::close_block() {
  checksum_ = checksum_of(block_, checksum_);
  std::string head;
  put(head, static_cast<std::uint32_t>(block_.size()));
  put(head, checksum_);
  bytes_ += head.size() + block_.size();
  sink_(head);
  sink_(block_);
  block_.clear();
}

void SnapshotEncoder::finish(std::uint64_t last_seq) {
  if (!block_.empty()) close_block();
  end_.last_seq = last_seq;
  block_ += kEndBlock;
  put(block_, end_.last_seq);
  put(block_, end_.users_online);
  put(block_, end_.users_offline);
  close_block();
}

// --- Reading ------------------------------------------------------------------------------------

/// Takes numbers off the front; once something is missing or wrong it has failed, and gives zeros.
class SnapshotDecoder::Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <class T>
  T take() noexcept {
    T value = 0;
    for (const std::byte byte : take_bytes(sizeof(T)))
      value = static_cast<T>(value << 8 | std::to_integer<T>(byte));
    return value;
  }
  std::uint64_t take_varint() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) != 0) continue;
      // One way to write a number, and none to write more than fits.
      const bool longer_than_needed = byte == 0 && shift > 0;
      if (longer_than_needed || (shift == 63 && byte > 1)) failed_ = true;
      return value;
    }
    failed_ = true;
    return 0;
  }
  /// A time: `base` and a zigzag number of microseconds, within kSpanMax of 0 together.
  std::int64_t take_offset(std::int64_t base) noexcept {
    constexpr std::int64_t kMax = kSpanMax / microseconds{1};
    const std::uint64_t bits = take_varint();
    const auto half = static_cast<std::int64_t>(bits >> 1);
    const std::int64_t value = (bits & 1) != 0 ? ~half : half;
    if (value < -2 * kMax || value > 2 * kMax) failed_ = true;
    if (failed_ || base + value < -kMax || base + value > kMax) {
      failed_ = true;
      return 0;
    }
    return base + value;
  }
  std::span<const std::byte> take_bytes(std::size_t size) noexcept {
    if (size > bytes_.size()) failed_ = true;
    if (failed_) return {};
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::string_view take_text(std::size_t size) noexcept {
    const auto bytes = take_bytes(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <std::size_t kSize>
  void take_array(std::array<std::byte, kSize>& out) noexcept {
    const auto bytes = take_bytes(kSize);
    std::copy(bytes.begin(), bytes.end(), out.begin());
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

SnapshotDecoder::SnapshotDecoder(MonoTime reference) noexcept
    : reference_(reference), wants_(kStartBytes), checksum_(kFirstChecksum) {}

bool SnapshotDecoder::fail(std::string what) {
  expected_ = Expected::kNothing;
  wants_ = 0;
  users_ = {};
  error_ = std::move(what);
  return false;
}

bool SnapshotDecoder::take(std::span<const std::byte> bytes) {
  PULSEWHEEL_CHECK(wants_ > 0 && bytes.size() == wants_);
  users_ = {};
  switch (expected_) {
    case Expected::kStart:
      return take_start(bytes);
    case Expected::kBlockHead:
      return take_block_head(bytes);
    case Expected::kBlock:
      return take_block(bytes);
    case Expected::kNothing:
      break;
  }
  return false;
}

bool SnapshotDecoder::take_start(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (in.take_text(kMagic.size()) != kMagic) return fail("it is no snapshot");
  if (const auto version = in.take<std::uint32_t>(); version != kVersion) {
    is_from_the_future_ = version > kVersion;
    return fail("it has version " + std::to_string(version) + ", and this program reads version " +
                std::to_string(kVersion));
  }
  expected_ = Expected::kBlockHead;
  wants_ = kBlockHeadBytes;
  return true;
}

bool SnapshotDecoder::take_block_head(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto size = in.take<std::uint32_t>();
  next_checksum_ = in.take<std::uint64_t>();
  if (size == 0 || size > kBlockBytesMax) {
    return fail("block " + std::to_string(block_number_) + " is damaged: it has a size of " +
                std::to_string(size) + " bytes, and 1 to " + std::to_string(kBlockBytesMax) +
                " are allowed");
  }
  expected_ = Expected::kBlock;
  wants_ = size;
  return true;
}

bool SnapshotDecoder::take_block(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  checksum_ = checksum_of(text, checksum_);
  const std::string number = std::to_string(block_number_);
  if (checksum_ != next_checksum_) return fail("block " + number + " is damaged: wrong checksum");
  expected_ = Expected::kBlockHead;
  wants_ = kBlockHeadBytes;
  Reader in(bytes);
  const auto kind = static_cast<char>(in.take<std::uint8_t>());
  bool good = false;
  if (block_number_ == 0) {
    good = kind == kHeadBlock && take_head(in);
  } else if (kind == kUsersBlock) {
    good = take_users(in);
  } else if (kind == kEndBlock) {
    good = take_end(in);
  }
  if (!good) return fail("block " + number + " has a content that cannot be");
  ++block_number_;
  return true;
}

bool SnapshotDecoder::take_head(Reader& in) {
  constexpr std::uint64_t kWallMax = 2 * static_cast<std::uint64_t>(kSpanMax / microseconds{1});
  SnapshotHead head;
  const auto purpose = in.take<std::uint8_t>();
  in.take_array(head.folder);
  head.epoch = in.take<std::uint32_t>();
  const auto wall = in.take<std::uint64_t>();
  const auto boot = in.take<std::uint64_t>();
  in.take_array(head.at.boot_id);
  if (in.failed() || !in.empty()) return false;
  if (purpose > static_cast<std::uint8_t>(SnapshotHead::Purpose::kEnd)) return false;
  if (head.epoch == 0 || head.epoch > EpochStore::kEpochMax) return false;
  if (wall > kWallMax || boot > kWallMax) return false;
  head.purpose = static_cast<SnapshotHead::Purpose>(purpose);
  head.at.mono = reference_;
  head.at.boot = microseconds{static_cast<std::int64_t>(boot)};
  head.at.wall = WallTime{microseconds{static_cast<std::int64_t>(wall)}};
  head_ = head;
  return true;
}

bool SnapshotDecoder::take_users(Reader& in) {
  if (in.empty()) return false;
  while (!in.empty()) {
    if (!take_user(in)) return false;
  }
  return true;
}

bool SnapshotDecoder::take_user(Reader& in) {
  const auto time_at = [this](std::int64_t offset) { return reference_ + microseconds{offset}; };
  const std::string_view uid = in.take_text(in.take<std::uint8_t>());
  const std::uint64_t sessions = in.take_varint();
  const std::int64_t since = in.take_offset(0);
  const std::int64_t last_seen = in.take_offset(0);
  if (in.failed() || uid.empty() || uid.size() > kUidBytesMax || sessions > kSessionsMax) {
    return false;
  }
  users_.add({.uid = uid, .since = time_at(since), .last_seen = time_at(last_seen)});
  ++(sessions > 0 ? found_.users_online : found_.users_offline);
  for (std::uint64_t i = 0; i < sessions; ++i) {
    const auto ending = in.take<std::uint8_t>();
    const std::int64_t deadline = in.take_offset(0);
    const std::int64_t last_packet = in.take_offset(last_seen);
    const std::int64_t login_at = in.take_offset(since);
    const std::string_view device = in.take_text(in.take<std::uint8_t>());
    if (in.failed() || ending >= kEdgeReasonCount || device.size() > kDeviceBytesMax) return false;
    users_.add_session({.ending = static_cast<EdgeReason>(ending),
                        .login_at = time_at(login_at),
                        .last_packet = time_at(last_packet),
                        .deadline = time_at(deadline),
                        .device = device});
  }
  return true;
}

bool SnapshotDecoder::take_end(Reader& in) {
  SnapshotEnd end;
  end.last_seq = in.take<std::uint64_t>();
  end.users_online = in.take<std::uint64_t>();
  end.users_offline = in.take<std::uint64_t>();
  if (in.failed() || !in.empty()) return false;
  if (end.users_online != found_.users_online || end.users_offline != found_.users_offline) {
    return false;
  }
  end_ = end;
  expected_ = Expected::kNothing;
  wants_ = 0;
  return true;
}

}  // namespace pulsewheel

#include "daemon/events/snapshot_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/events/snapshot_testing.h"

namespace pulsewheel {
namespace {

using namespace snapshot_format;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::kSnapshotTime;
using test::snapshot_bytes;
using test::snapshot_head;
using test::two_users;

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// What a decoder made of a file.
struct Outcome {
  std::string error;
  bool whole = false;
  std::optional<SnapshotHead> head;
  std::optional<SnapshotEnd> end;
  std::vector<UserImageBatch> blocks;

  [[nodiscard]] std::size_t users() const {
    std::size_t users = 0;
    for (const UserImageBatch& block : blocks)
      users += block.size();
    return users;
  }
};

UserImageBatch copy_of(const UserImageBatch& users) {
  UserImageBatch copy;
  for (const UserImage& user : users.users()) {
    copy.add(user);
    for (const SessionImage& session : users.sessions_of(user))
      copy.add_session(session);
  }
  return copy;
}

Outcome decode(std::string_view bytes, MonoTime reference = kSnapshotTime) {
  SnapshotDecoder decoder(reference);
  Outcome outcome;
  while (decoder.wants() > 0 && bytes.size() >= decoder.wants()) {
    const std::string_view piece = bytes.substr(0, decoder.wants());
    bytes.remove_prefix(piece.size());
    if (!decoder.take(as_bytes(piece))) break;
    if (!decoder.users().empty()) outcome.blocks.push_back(copy_of(decoder.users()));
  }
  outcome.error = decoder.error();
  outcome.whole = outcome.error.empty() && decoder.wants() == 0 && bytes.empty();
  outcome.head = decoder.head();
  outcome.end = decoder.end();
  return outcome;
}

TEST(SnapshotFormatTest, WhatIsWrittenIsRead) {
  const Outcome outcome = decode(snapshot_bytes(two_users("alice", "phone", "bob")));
  ASSERT_TRUE(outcome.whole) << outcome.error;
  EXPECT_EQ(outcome.head->purpose, SnapshotHead::Purpose::kEnd);
  EXPECT_EQ(outcome.head->folder, snapshot_head().folder);
  EXPECT_EQ(outcome.head->epoch, 7U);
  EXPECT_EQ(outcome.head->at.boot, snapshot_head().at.boot);
  EXPECT_EQ(outcome.head->at.wall, snapshot_head().at.wall);
  EXPECT_EQ(outcome.head->at.boot_id, snapshot_head().at.boot_id);
  EXPECT_EQ(outcome.end->last_seq, 4711U);
  EXPECT_EQ(outcome.end->users_online, 1U);
  EXPECT_EQ(outcome.end->users_offline, 1U);

  ASSERT_EQ(outcome.users(), 2U);
  const UserImageBatch& users = outcome.blocks[0];
  const UserImage& alice = users.users()[0];
  EXPECT_EQ(alice.uid, "alice");
  EXPECT_EQ(alice.since, kSnapshotTime - seconds{600});
  EXPECT_EQ(alice.last_seen, kSnapshotTime - seconds{3});
  ASSERT_EQ(alice.session_count, 1U);
  const SessionImage& session = users.sessions_of(alice)[0];
  EXPECT_FALSE(session.live());
  EXPECT_EQ(session.ending, EdgeReason::kDisconnect);
  EXPECT_EQ(session.login_at, kSnapshotTime - seconds{500});
  EXPECT_EQ(session.last_packet, kSnapshotTime - seconds{3});
  EXPECT_EQ(session.deadline, kSnapshotTime + seconds{27});
  EXPECT_EQ(session.device, "phone");
  EXPECT_FALSE(users.users()[1].online());
  EXPECT_EQ(users.users()[1].since, kSnapshotTime - seconds{100});
}

TEST(SnapshotFormatTest, TimesAreGivenFromTheReadersOwnReference) {
  const MonoTime reference{seconds{12}};
  const Outcome outcome = decode(snapshot_bytes(two_users()), reference);
  ASSERT_TRUE(outcome.whole);
  const UserImageBatch& users = outcome.blocks[0];
  EXPECT_EQ(users.users()[0].last_seen, reference - seconds{3});
  EXPECT_EQ(users.sessions_of(users.users()[0])[0].deadline, reference + seconds{27});
}

TEST(SnapshotFormatTest, NothingIsSeenLaterOrEndsEarlierThanItWas) {
  UserImageBatch users;
  users.add({.uid = "a", .since = kSnapshotTime - nanoseconds{1}, .last_seen = kSnapshotTime});
  users.add_session({.login_at = kSnapshotTime - nanoseconds{1},
                     .last_packet = kSnapshotTime - nanoseconds{1},
                     .deadline = kSnapshotTime + nanoseconds{1},
                     .device = {}});
  const Outcome outcome = decode(snapshot_bytes(users));
  ASSERT_TRUE(outcome.whole);
  const UserImageBatch& read = outcome.blocks[0];
  EXPECT_EQ(read.users()[0].since, kSnapshotTime - microseconds{1});
  EXPECT_EQ(read.sessions_of(read.users()[0])[0].last_packet, kSnapshotTime - microseconds{1});
  EXPECT_EQ(read.sessions_of(read.users()[0])[0].deadline, kSnapshotTime + microseconds{1});
}

TEST(SnapshotFormatTest, AnyBytesOfUidsAndDevicesComeBackExact) {
  const std::string uid = std::string(1, '\0') + "\r\n%\xff" + std::string(kUidBytesMax - 5, 'x');
  const std::string device(kDeviceBytesMax, '\x80');
  const Outcome outcome = decode(snapshot_bytes(two_users(uid, device, "\n")));
  ASSERT_TRUE(outcome.whole);
  const UserImageBatch& users = outcome.blocks[0];
  EXPECT_EQ(users.users()[0].uid, uid);
  EXPECT_EQ(users.sessions_of(users.users()[0])[0].device, device);
  EXPECT_EQ(users.users()[1].uid, "\n");
}

TEST(SnapshotFormatTest, TimesBeyondTheScaleAreKeptWithinIt) {
  UserImageBatch users;
  users.add({.uid = "a", .since = MonoTime::min(), .last_seen = MonoTime::min()});
  users.add_session({.login_at = MonoTime::min(),
                     .last_packet = MonoTime::max(),
                     .deadline = MonoTime::max(),
                     .device = {}});
  const Outcome outcome = decode(snapshot_bytes(users));
  ASSERT_TRUE(outcome.whole) << outcome.error;
  EXPECT_EQ(outcome.blocks[0].users()[0].since, kSnapshotTime - kSpanMax);
}

TEST(SnapshotFormatTest, NobodyIsASnapshotToo) {
  const Outcome outcome = decode(snapshot_bytes(UserImageBatch{}));
  EXPECT_TRUE(outcome.whole);
  EXPECT_EQ(outcome.users(), 0U);
}

TEST(SnapshotFormatTest, ManyUsersFillManyBlocks) {
  const Outcome outcome = decode(snapshot_bytes(two_users("0123456789abcdef"), 5'000));
  ASSERT_TRUE(outcome.whole);
  EXPECT_EQ(outcome.users(), 10'000U);
  EXPECT_GE(outcome.blocks.size(), 3U);
  EXPECT_EQ(outcome.end->users_online, 5'000U);
}

TEST(SnapshotFormatTest, AUserTakesFortyBytesAtMost) {
  UserImageBatch one;
  one.add({.uid = "0123456789abcdef",
           .since = kSnapshotTime - std::chrono::hours{20},
           .last_seen = kSnapshotTime - seconds{15}});
  one.add_session({.login_at = kSnapshotTime - std::chrono::hours{20},
                   .last_packet = kSnapshotTime - seconds{15},
                   .deadline = kSnapshotTime + seconds{15},
                   .device = {}});
  const std::size_t base = snapshot_bytes(UserImageBatch{}).size();
  EXPECT_LE((snapshot_bytes(one, 10'000).size() - base) / 10'000, 40U);
}

// --- Damage -------------------------------------------------------------------------------------

TEST(SnapshotFormatTest, EveryFlippedBitIsFound) {
  const std::string good = snapshot_bytes(two_users("alice", "phone"));
  for (std::size_t i = 0; i < 8 * good.size(); ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(decode(bad).whole) << "bit " << i;
  }
}

TEST(SnapshotFormatTest, EveryCutIsFound) {
  const std::string good = snapshot_bytes(two_users(), 3'000);
  for (std::size_t size = 0; size < good.size(); size += size < 200 ? 1 : 977)
    EXPECT_FALSE(decode(good.substr(0, size)).whole) << size << " bytes";
}

TEST(SnapshotFormatTest, BlocksInAnotherOrderAreFound) {
  const std::string good = snapshot_bytes(two_users("0123456789abcdef"), 3'000);
  const auto block_at = [&good](std::size_t at) {
    std::uint32_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
      size = size << 8 | static_cast<unsigned char>(good[at + i]);
    return good.substr(at, kBlockHeadBytes + size);
  };
  const std::string head = block_at(kStartBytes);
  const std::string first = block_at(kStartBytes + head.size());
  const std::string second = block_at(kStartBytes + head.size() + first.size());
  ASSERT_EQ(second[kBlockHeadBytes], 'U');
  const std::string swapped = good.substr(0, kStartBytes) + head + second + first +
                              good.substr(kStartBytes + head.size() + first.size() + second.size());
  EXPECT_FALSE(decode(swapped).whole);
  EXPECT_NE(decode(swapped).error.find("block 1 is damaged"), std::string::npos);
}

TEST(SnapshotFormatTest, AnotherVersionIsTold) {
  std::string bytes = snapshot_bytes(two_users());
  bytes[kStartBytes - 1] = 2;
  const Outcome outcome = decode(bytes);
  EXPECT_EQ(outcome.error, "it has version 2, and this program reads version 1");
}

TEST(SnapshotFormatTest, AnotherKindOfFileIsTold) {
  EXPECT_EQ(decode(std::string(100, 'x')).error, "it is no snapshot");
}

TEST(SnapshotFormatTest, AHugeBlockIsRefusedBeforeItIsRead) {
  std::string bytes = snapshot_bytes(two_users()).substr(0, kStartBytes);
  bytes += std::string("\xff\xff\xff\xff", 4) + std::string(8, '\0');
  SnapshotDecoder decoder;
  ASSERT_TRUE(decoder.take(as_bytes(bytes).first(kStartBytes)));
  EXPECT_FALSE(decoder.take(as_bytes(bytes).subspan(kStartBytes)));
  EXPECT_EQ(decoder.wants(), 0U);
}

}  // namespace
}  // namespace pulsewheel

// What the snapshot's tests share: users to write down, and a file of them in memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/events/snapshot_format.h"

namespace pulsewheel::test {

constexpr MonoTime kSnapshotTime{std::chrono::hours{1'000}};

inline FolderId folder_id(int number) {
  FolderId id{};
  id.fill(std::byte{static_cast<unsigned char>(number)});
  return id;
}

inline SnapshotHead snapshot_head(std::uint32_t epoch = 7) {
  SnapshotHead head;
  head.purpose = SnapshotHead::Purpose::kEnd;
  head.folder = folder_id(5);
  head.epoch = epoch;
  head.at.mono = kSnapshotTime;
  head.at.boot = std::chrono::hours{1'001};
  head.at.wall = WallTime{std::chrono::hours{500'000}};
  head.at.boot_id.fill(std::byte{9});
  return head;
}

/// A user who is online with one session of `device`, and one who is offline.
inline UserImageBatch two_users(std::string_view online = "alice", std::string_view device = "",
                                std::string_view offline = "bob") {
  using std::chrono::seconds;
  UserImageBatch users;
  users.add({.uid = online,
             .since = kSnapshotTime - seconds{600},
             .last_seen = kSnapshotTime - seconds{3}});
  users.add_session({.ending = EdgeReason::kDisconnect,
                     .login_at = kSnapshotTime - seconds{500},
                     .last_packet = kSnapshotTime - seconds{3},
                     .deadline = kSnapshotTime + seconds{27},
                     .device = device});
  users.add({.uid = offline,
             .since = kSnapshotTime - seconds{100},
             .last_seen = kSnapshotTime - seconds{130}});
  return users;
}

/// `copies` times `users`, as a file.
inline std::string snapshot_bytes(const UserImageBatch& users, int copies = 1,
                                  std::uint64_t last_seq = 4711,
                                  const SnapshotHead& head = snapshot_head()) {
  std::string bytes;
  SnapshotEncoder encoder(head, [&bytes](std::string_view piece) { bytes += piece; });
  for (int i = 0; i < copies; ++i)
    encoder.add(users);
  encoder.finish(last_seq);
  return bytes;
}

}  // namespace pulsewheel::test

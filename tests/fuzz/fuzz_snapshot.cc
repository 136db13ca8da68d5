// Fuzzes the reading of a snapshot file. With an even first byte the rest is the file. With an odd
// one it is a row of blocks, each behind its size in two bytes, which get the right checksums here:
// else nothing would come past these. Beside what the sanitizers find, it holds the decoder to its
// promises: it asks for no more than the limits allow, and what it took can be written and is read
// the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/events/snapshot_format.h"

namespace pulsewheel {
namespace {

using namespace snapshot_format;

constexpr MonoTime kReference{std::chrono::hours{24 * 365 * 60}};

void require(bool holds) {
  if (!holds) std::abort();
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void put(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;)
    out += static_cast<char>(static_cast<unsigned char>(value >> 8 * i));
}

std::string with_checksums(std::string_view blocks) {
  std::string file(kMagic);
  put(file, kVersion, 4);
  std::uint64_t checksum = kFirstChecksum;
  while (blocks.size() >= 2) {
    const std::size_t wanted =
        static_cast<unsigned char>(blocks[0]) * 256U + static_cast<unsigned char>(blocks[1]);
    blocks.remove_prefix(2);
    const std::string_view block = blocks.substr(0, wanted);
    blocks.remove_prefix(block.size());
    checksum = checksum_of(block, checksum);
    put(file, block.size(), 4);
    put(file, checksum, 8);
    file += block;
  }
  return file;
}

struct Outcome {
  std::optional<SnapshotHead> head;
  std::optional<SnapshotEnd> end;  // without a value: it was refused, or cut off
  UserImageBatch users;
};

void append(const UserImageBatch& from, UserImageBatch& to) {
  for (const UserImage& user : from.users()) {
    require(!user.uid.empty() && user.uid.size() <= kUidBytesMax);
    require(user.session_count <= kSessionsMax);
    to.add(user);
    for (const SessionImage& session : from.sessions_of(user)) {
      require(!session.live() && session.device.size() <= kDeviceBytesMax);
      to.add_session(session);
    }
  }
}

Outcome decode(std::string_view file) {
  SnapshotDecoder decoder(kReference);
  Outcome outcome;
  while (decoder.wants() > 0) {
    require(decoder.wants() <= kBlockBytesMax);
    if (file.size() < decoder.wants()) return {};
    const std::string_view piece = file.substr(0, decoder.wants());
    file.remove_prefix(piece.size());
    if (!decoder.take(as_bytes(piece))) {
      require(!decoder.error().empty() && decoder.wants() == 0 && decoder.users().empty());
      return {};
    }
    append(decoder.users(), outcome.users);
  }
  outcome.head = decoder.head();
  outcome.end = decoder.end();
  require(outcome.head.has_value() && outcome.end.has_value());
  return outcome;
}

bool equal(const UserImageBatch& a, const UserImageBatch& b) {
  const auto same_session = [](const SessionImage& x, const SessionImage& y) {
    return x.ending == y.ending && x.login_at == y.login_at && x.last_packet == y.last_packet &&
           x.deadline == y.deadline && x.device == y.device;
  };
  return std::equal(a.users().begin(), a.users().end(), b.users().begin(), b.users().end(),
                    [&](const UserImage& x, const UserImage& y) {
                      const auto left = a.sessions_of(x);
                      const auto right = b.sessions_of(y);
                      return x.uid == y.uid && x.since == y.since && x.last_seen == y.last_seen &&
                             std::equal(left.begin(), left.end(), right.begin(), right.end(),
                                        same_session);
                    });
}

void check(std::string_view file) {
  const Outcome first = decode(file);
  if (!first.end) return;
  require(first.end->users_online + first.end->users_offline == first.users.size());
  std::string written;
  SnapshotEncoder encoder(*first.head, [&written](std::string_view bytes) { written += bytes; });
  encoder.add(first.users);
  encoder.finish(first.end->last_seq);
  const Outcome second = decode(written);
  require(second.end && second.end->last_seq == first.end->last_seq);
  require(second.head->epoch == first.head->epoch && second.head->folder == first.head->folder);
  require(equal(first.users, second.users));
}

}  // namespace
}  // namespace pulsewheel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  pulsewheel::check(data[0] % 2 == 0 ? std::string(rest) : pulsewheel::with_checksums(rest));
  return 0;
}

// What a session makes of the bytes of a logged-in client, however they arrive.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using proto::ErrorCode;
using proto::from_hex;

/// Frames of this many bytes: those that just fit the buffer in the session, those that just do
/// not, and the longest.
constexpr std::size_t kLongestFrame = proto::kHeaderSize + 8192;
constexpr std::size_t kFrameSizes[] = {12,
                                       13,
                                       Session::kReadBufferSize - 1,
                                       Session::kReadBufferSize,
                                       Session::kReadBufferSize + 1,
                                       2 * Session::kReadBufferSize,
                                       2 * Session::kReadBufferSize + 1,
                                       4096,
                                       kLongestFrame - 1,
                                       kLongestFrame};

Bytes message_of_size(std::uint64_t id, std::size_t frame_size) {
  return message_frame(id, frame_size - proto::kHeaderSize - proto::kMessageIdSize);
}

const std::string kAckOf1 = "83 00 00 08 00 00 00 00 00 00 00 01";
const std::string kAckOf2 = "83 00 00 08 00 00 00 00 00 00 00 02";

TEST(SessionStreamTest, KeepaliveIsAcknowledged) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.send(from_hex("02 00 00 00"));
  EXPECT_EQ(client.read(4), kKeepaliveAck);
  EXPECT_EQ(shard.counters.keepalives.value(), 1U);
}

TEST(SessionStreamTest, KeepaliveThatWantsNoReplyGetsNone) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.deliver(from_hex("02 01 00 00") + message_frame(1));
  EXPECT_EQ(client.read(12), kAckOf1);
  EXPECT_EQ(shard.counters.keepalives.value(), 1U);
}

TEST(SessionStreamTest, MessageIsAcknowledgedWithItsId) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.send(from_hex("03 00 00 0a  ff ee dd cc bb aa 99 88  01 02"));
  EXPECT_EQ(client.read(12), "83 00 00 08 ff ee dd cc bb aa 99 88");
  EXPECT_EQ(shard.counters.messages.value(), 1U);
}

TEST(SessionStreamTest, FrameOfAnySizeIsHandledOnceItIsComplete) {
  for (const std::size_t size : kFrameSizes) {
    SCOPED_TRACE(size);
    FakeShard shard;
    LoopbackClient client(shard);
    client.log_in();
    client.send(message_of_size(1, size));
    EXPECT_EQ(client.read(12), kAckOf1);
    EXPECT_EQ(shard.counters.messages.value(), 1U);
    EXPECT_EQ(shard.counters.spill_bytes.value(), 0);
  }
}

TEST(SessionStreamTest, FramesOfAnyTwoSizesFollowEachOther) {
  for (const std::size_t first : kFrameSizes) {
    for (const std::size_t second : kFrameSizes) {
      SCOPED_TRACE(testing::Message() << first << " then " << second);
      FakeShard shard;
      LoopbackClient client(shard);
      client.log_in();
      client.send(message_of_size(1, first) + message_of_size(2, second) + from_hex("02 00 00 00"));
      EXPECT_EQ(client.read(12), kAckOf1);
      EXPECT_EQ(client.read(12), kAckOf2);
      EXPECT_EQ(client.read(4), kKeepaliveAck);
    }
  }
}

TEST(SessionStreamTest, ThousandFramesInOneSegmentAreAllAnsweredInOrder) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  Bytes stream;
  for (std::uint64_t id = 1; id <= 500; ++id) {
    stream = stream + message_frame(id) + from_hex("02 00 00 00");
  }
  client.send(stream);
  for (std::uint64_t id = 1; id <= 500; ++id) {
    const auto ack = client.read_frame();
    std::uint64_t acknowledged = 0;
    ASSERT_EQ(proto::decode_message_ack(ack.payload, acknowledged), ErrorCode::kNone);
    ASSERT_EQ(acknowledged, id);
    ASSERT_EQ(client.read(4), kKeepaliveAck);
  }
  EXPECT_EQ(shard.counters.keepalives.value(), 500U);
  EXPECT_EQ(shard.counters.messages.value(), 500U);
}

// --- Every split --------------------------------------------------------------------------------

/// What became of a stream: all that a client and a shard can see of it.
struct Outcome {
  std::string answers;
  std::uint64_t keepalives;
  std::uint64_t messages;
  std::vector<CloseReason> ends;
  std::vector<ErrorCode> refusals;
  std::int64_t spill_bytes;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

const Bytes kLoginOfStreams = login_frame("a user with a name");

/// Sends the LOGIN of a fresh client and `stream` behind it, cut before `cut` and every
/// `cut_every` bytes from there on; the pieces arrive one by one.
Outcome outcome_of(const Bytes& stream, std::size_t cut, std::size_t cut_every) {
  FakeShard shard;
  shard.accepts_at_once = true;
  LoopbackClient client(shard);
  const Bytes all = kLoginOfStreams + stream;
  std::span<const std::byte> rest(all);
  client.deliver(rest.first(cut));
  for (rest = rest.subspan(cut); !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), cut_every));
    client.deliver(piece);
    rest = rest.subspan(piece.size());
  }
  client.finish_sending();
  client.read(10);  // LOGIN_ACK up to the interval, which has a random part
  client.read(12);
  Outcome outcome{.answers = client.read_to_fin(),
                  .keepalives = shard.counters.keepalives.value(),
                  .messages = shard.counters.messages.value(),
                  .ends = {},
                  .refusals = shard.refusals,
                  .spill_bytes = shard.counters.spill_bytes.value()};
  for (const SessionEnd& end : shard.ends)
    outcome.ends.push_back(end.reason);
  return outcome;
}

/// Every cut in two, and pieces of every size up to two read buffers.
void expect_same_outcome_for_every_split(const Bytes& stream, const Outcome& expected) {
  const std::size_t size = kLoginOfStreams.size() + stream.size();
  for (std::size_t cut = 0; cut <= size; ++cut) {
    SCOPED_TRACE(testing::Message() << "cut before " << cut);
    ASSERT_EQ(outcome_of(stream, cut, size), expected);
  }
  for (std::size_t piece = 1; piece <= 2 * Session::kReadBufferSize; ++piece) {
    SCOPED_TRACE(testing::Message() << "pieces of " << piece);
    ASSERT_EQ(outcome_of(stream, 0, piece), expected);
  }
}

TEST(SessionSplitTest, ValidStreamHasTheSameResultHoweverItIsSplit) {
  const Bytes stream = from_hex("02 00 00 00") + message_frame(1, 3) + from_hex("02 01 00 00") +
                       message_frame(1, 100) + message_frame(2, 52) + message_frame(2, 53) +
                       from_hex("02 00 00 00") + from_hex("04 00 00 00");
  expect_same_outcome_for_every_split(
      stream, {.answers = kKeepaliveAck + " " + kAckOf1 + " " + kAckOf1 + " " + kAckOf2 + " " +
                          kAckOf2 + " " + kKeepaliveAck + " 84 00 00 00",
               .keepalives = 3,
               .messages = 4,
               .ends = {CloseReason::kLogout},
               .refusals = {},
               .spill_bytes = 0});
}

TEST(SessionSplitTest, StreamThatBreaksTheProtocolHasTheSameResultHoweverItIsSplit) {
  const Bytes stream = from_hex("02 00 00 00") + message_frame(1, 70) + from_hex("02 00 00 00") +
                       from_hex("03 00 00 04 01 02 03 04") + message_frame(2, 100);
  Bytes error(proto::kErrorFrameSizeMax);
  constexpr auto kCode = ErrorCode::kMalformedPayload;
  error.resize(proto::encode_error({kCode, proto::error_text(kCode)}, error));
  expect_same_outcome_for_every_split(
      stream,
      {.answers = kKeepaliveAck + " " + kAckOf1 + " " + kKeepaliveAck + " " + proto::to_hex(error),
       .keepalives = 2,
       .messages = 1,
       .ends = {CloseReason::kProtocolError},
       .refusals = {kCode},
       .spill_bytes = 0});
}

// --- Frames longer than the read buffer ---------------------------------------------------------

TEST(SessionSpillTest, PartOfALongFrameCountsItsWholeSizeUntilItIsComplete) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  const Bytes message = message_of_size(1, 1'000);
  client.deliver(std::span(message).first(proto::kHeaderSize - 1));
  EXPECT_EQ(shard.counters.spill_bytes.value(), 0);
  client.deliver(std::span(message).subspan(proto::kHeaderSize - 1, 1));
  EXPECT_EQ(shard.counters.spill_bytes.value(), 1'000);
  client.deliver(std::span(message).subspan(proto::kHeaderSize, 995));
  EXPECT_EQ(shard.counters.spill_bytes.value(), 1'000);
  client.deliver(std::span(message).subspan(999));
  EXPECT_EQ(shard.counters.spill_bytes.value(), 0);
  EXPECT_EQ(shard.counters.messages.value(), 1U);
}

TEST(SessionSpillTest, PartOfAFrameThatFitsTheReadBufferTakesNothing) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  const Bytes message = message_of_size(1, Session::kReadBufferSize);
  client.deliver(std::span(message).first(message.size() - 1));
  EXPECT_EQ(shard.counters.spill_bytes.value(), 0);
}

TEST(SessionSpillTest, PeerThatClosesGivesItBack) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.deliver(first_of(10, message_of_size(1, 1'000)));
  client.finish_sending();
  shard.run_until([&] { return shard.is_gone(client.ref()); });
  EXPECT_EQ(shard.counters.spill_bytes.value(), 0);
}

class SessionSpillCapTest : public testing::Test {
 protected:
  SessionSpillCapTest() {
    first_.log_in();
    second_.log_in();
  }
  static SessionOptions options() {
    SessionOptions options;
    options.spill_bytes_max = 1'000;
    return options;
  }
  FakeShard shard_{options()};
  LoopbackClient first_{shard_};
  LoopbackClient second_{shard_};
};

TEST_F(SessionSpillCapTest, FramesUpToExactlyTheCapAreTaken) {
  const Bytes half = message_of_size(1, 500);
  first_.deliver(std::span(half).first(499));
  second_.deliver(std::span(half).first(499));
  EXPECT_EQ(shard_.counters.spill_bytes.value(), 1'000);
  first_.send(std::span(half).subspan(499));
  second_.send(std::span(half).subspan(499));
  EXPECT_EQ(first_.read(12), kAckOf1);
  EXPECT_EQ(second_.read(12), kAckOf1);
}

TEST_F(SessionSpillCapTest, FrameBeyondTheCapIsRefusedAndOnlyThat) {
  const Bytes first = message_of_size(1, 500);
  first_.deliver(std::span(first).first(499));
  second_.send(from_hex("02 00 00 00") + message_of_size(1, 501));
  EXPECT_EQ(second_.read(4), kKeepaliveAck);
  EXPECT_EQ(second_.read_error(), ErrorCode::kServerFull);
  EXPECT_EQ(second_.read_to_fin(), "");
  EXPECT_EQ(closes(shard_, CloseReason::kBusy), 1U);
  EXPECT_EQ(shard_.counters.spill_bytes.value(), 500);
  first_.send(std::span(first).subspan(499));
  EXPECT_EQ(first_.read(12), kAckOf1);
}

TEST_F(SessionSpillCapTest, CompleteFrameGivesItsShareBack) {
  for (int i = 0; i < 10; ++i) {
    first_.send(message_of_size(1, 900));
    EXPECT_EQ(first_.read(12), kAckOf1);
  }
}

}  // namespace
}  // namespace pulsewheel

// What a session does with bytes that break the protocol: one ERROR with the right code, one
// close, and nothing else.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using proto::ErrorCode;
using proto::from_hex;

struct Case {
  const char* what;
  ErrorCode code;
  Bytes bytes;
};

Bytes text(std::string_view characters) {
  const auto bytes = proto::as_bytes(characters);
  return {bytes.begin(), bytes.end()};
}

/// The client sends `bytes`, and more behind them, on a fresh connection.
void expect_refusal(FakeShard& shard, LoopbackClient& client, const Case& c) {
  SCOPED_TRACE(c.what);
  client.send(c.bytes + times(50, from_hex("02 00 00 00")));
  EXPECT_EQ(client.read_error(), c.code);
  EXPECT_EQ(client.read_to_fin(), "");
  EXPECT_EQ(shard.refusals, std::vector{c.code});
  EXPECT_EQ(shard.counters.refusals[refusal_index(c.code)].value(), 1U);
  EXPECT_EQ(closes(shard, CloseReason::kProtocolError), 1U);
  EXPECT_EQ(closes(shard), 1U);
  EXPECT_EQ(shard.counters.keepalives.value(), 0U);
  EXPECT_TRUE(shard.submissions.empty());
}

TEST(SessionRefusalTest, BytesThatMayNotStandBeforeLoginGetOneErrorAndOneClose) {
  const std::vector<Case> cases{
      {"a KEEPALIVE", ErrorCode::kLoginRequired, from_hex("02 00 00 00")},
      {"a MESSAGE", ErrorCode::kLoginRequired, message_frame(1)},
      {"a LOGOUT", ErrorCode::kLoginRequired, from_hex("04 00 00 00")},
      {"a reserved type", ErrorCode::kUnknownType, from_hex("11 00 00 00")},
      {"a server's type", ErrorCode::kUnknownType, from_hex("82 00 00 00")},
      {"flags", ErrorCode::kReservedFlags, from_hex("01 80 00 0f")},
      {"a LOGIN without fields", ErrorCode::kMalformedPayload, from_hex("01 00 00 00")},
      {"version 0", ErrorCode::kBadVersion,
       from_hex("01 00 00 0b  00 01  00 00 00 00  01 00 00 00  61")},
      {"only version 9", ErrorCode::kBadVersion,
       from_hex("01 00 00 0b  09 09  00 00 00 00  01 00 00 00  61")},
      {"no uid", ErrorCode::kBadUid, from_hex("01 00 00 0a  01 01  00 00 00 00  00 00 00 00")},
      {"a uid of 129 bytes", ErrorCode::kBadUid,
       from_hex("01 00 00 0a  01 01  00 00 00 00  81 00 00 00")},
      {"a device of 65 bytes", ErrorCode::kBadDevice,
       from_hex("01 00 00 0b  01 01  00 00 00 00  01 41 00 00  61")},
      {"a token of 513 bytes", ErrorCode::kBadToken,
       from_hex("01 00 00 0b  01 01  00 00 00 00  01 00 02 01  61")},
      {"a critical extension", ErrorCode::kUnknownExtension,
       from_hex("01 00 00 0f  01 01  00 00 00 00  01 00 00 00  61  80 01 00 00")},
      {"HTTP", ErrorCode::kNotThisProtocol, text("GET / HTTP/1.1\r\nHost: a\r\n\r\n")},
      {"SSH", ErrorCode::kNotThisProtocol, text("SSH-2.0-OpenSSH_9.2\r\n")},
      {"Redis", ErrorCode::kNotThisProtocol, text("*1\r\n$4\r\nPING\r\n")},
      {"a TLS hello", ErrorCode::kNotThisProtocol, from_hex("16 03 01 02 00 01 00 01 fc 03 03")},
      {"an MQTT CONNECT", ErrorCode::kNotThisProtocol,
       from_hex("10 0c 00 04 4d 51 54 54 04 02 00 3c 00 00")},
      {"zeros", ErrorCode::kNotThisProtocol, Bytes(200)},
  };
  for (const Case& c : cases) {
    FakeShard shard;
    LoopbackClient client(shard);
    expect_refusal(shard, client, c);
    EXPECT_TRUE(shard.ends.empty());
  }
}

TEST(SessionRefusalTest, BytesThatMayNotStandAfterLoginGetOneErrorAndOneClose) {
  const std::vector<Case> cases{
      {"a second LOGIN", ErrorCode::kNotAllowed, login_frame("u")},
      {"a reserved type", ErrorCode::kUnknownType, from_hex("11 00 00 00")},
      {"HTTP", ErrorCode::kUnknownType, text("GET / HTTP/1.1\r\n\r\n")},
      {"flags of a MESSAGE", ErrorCode::kReservedFlags, from_hex("03 01 00 08")},
      {"flags of a KEEPALIVE", ErrorCode::kReservedFlags, from_hex("02 02 00 00")},
      {"a KEEPALIVE with a payload", ErrorCode::kPayloadTooLong, from_hex("02 00 00 01 00")},
      {"a LOGOUT with a payload", ErrorCode::kPayloadTooLong, from_hex("04 00 00 01 00")},
      {"a MESSAGE without id", ErrorCode::kMalformedPayload, from_hex("03 00 00 00")},
      {"a MESSAGE with half an id", ErrorCode::kMalformedPayload,
       from_hex("03 00 00 04 01 02 03 04")},
      {"a MESSAGE above the limit", ErrorCode::kPayloadTooLong, from_hex("03 00 20 01")},
  };
  for (const Case& c : cases) {
    FakeShard shard;
    LoopbackClient client(shard);
    client.log_in();
    expect_refusal(shard, client, c);
    ASSERT_EQ(shard.ends.size(), 1U);
    EXPECT_EQ(shard.ends[0].reason, CloseReason::kProtocolError);
  }
}

TEST(SessionRefusalTest, OversizeFrameIsRefusedAtItsHeader) {
  for (const char* const header : {"01 00 04 01", "01 00 ff ff"}) {
    SCOPED_TRACE(header);
    FakeShard shard;
    LoopbackClient client(shard);
    client.send(from_hex(header));  // and not one byte of the payload
    EXPECT_EQ(client.read_error(), ErrorCode::kPayloadTooLong);
    EXPECT_EQ(client.read_to_fin(), "");
    EXPECT_EQ(shard.counters.spill_bytes.value(), 0);
  }
}

TEST(SessionRefusalTest, PayloadOfExactlyTheLimitIsAccepted) {
  SessionOptions options;
  options.limits = {.payload_before_login_max = 11, .payload_after_login_max = 300};
  FakeShard shard(options);
  LoopbackClient client(shard);
  client.log_in("u");  // a payload of 11 bytes
  client.send(message_frame(1, 292));
  EXPECT_EQ(client.read(12), "83 00 00 08 00 00 00 00 00 00 00 01");
  client.send(message_frame(2, 293));
  EXPECT_EQ(client.read_error(), ErrorCode::kPayloadTooLong);
}

TEST(SessionRefusalTest, FloodBehindAnErrorIsThrownAway) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(from_hex("02 00 00 00"));
  EXPECT_EQ(client.read_error(), ErrorCode::kLoginRequired);
  client.deliver(times(20'000, from_hex("02 00 00 00")));
  EXPECT_EQ(client.read_to_fin(), "");
  EXPECT_EQ(shard.refusals.size(), 1U);
}

TEST(SessionRefusalTest, AnswersToTheFramesBeforeComeBeforeTheError) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.send(from_hex("02 00 00 00") + from_hex("03 00 00 01 00"));
  EXPECT_EQ(client.read(4), "82 00 00 00");
  EXPECT_EQ(client.read_error(), ErrorCode::kMalformedPayload);
}

}  // namespace
}  // namespace pulsewheel

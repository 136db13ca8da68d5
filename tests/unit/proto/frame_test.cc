// Cutting streams into frames: what a header is judged by, and every way to split a stream.
#include "proto/frame.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/proto/bytes.h"
#include "tests/unit/proto/stream_reader.h"

namespace pulsewheel::proto {
namespace {

using Status = NextFrame::Status;

constexpr Limits kLimits{};

// A LOGIN of user "u" and nothing else.
constexpr std::string_view kLoginHex = "01 00 00 0b  01 01  00 00 00 00  01 00 00 00  75";

// Only for what does not look at the payload: it is gone when this returns.
NextFrame next(std::string_view hex, Stage stage = Stage::kAfterLogin,
               const Limits& limits = kLimits) {
  return next_frame(from_hex(hex), stage, limits);
}

// What the header alone, without a byte of payload, is answered with.
ErrorCode judge(std::string_view header_hex, Stage stage, const Limits& limits = kLimits) {
  return next(header_hex, stage, limits).error;
}

std::vector<std::byte> header(std::uint8_t type, std::uint8_t flags, std::size_t payload_size) {
  return {std::byte{type}, std::byte{flags}, static_cast<std::byte>(payload_size >> 8),
          static_cast<std::byte>(payload_size & 0xff)};
}

TEST(NextFrameTest, AsksForTheHeaderWhileItIsIncomplete) {
  for (const std::string_view hex : {"", "02", "02 00", "02 00 00"}) {
    EXPECT_EQ(next(hex).status, Status::kNeedMore) << hex;
    EXPECT_EQ(next(hex).size, 4u) << hex;
  }
}

TEST(NextFrameTest, CutsAKeepaliveWithItsFlag) {
  const NextFrame keepalive = next("02 01 00 00");
  ASSERT_EQ(keepalive.status, Status::kFrame);
  EXPECT_EQ(keepalive.frame.header.type, FrameType::kKeepalive);
  EXPECT_EQ(keepalive.frame.header.flags, kNoReply);
  EXPECT_TRUE(keepalive.frame.payload.empty());
  EXPECT_EQ(keepalive.size, 4u);
}

TEST(NextFrameTest, ViewsThePayloadInsideTheInput) {
  const auto input = from_hex("03 00 00 09  00 00 00 00 00 00 00 2a  78  02 00");
  const NextFrame first = next_frame(input, Stage::kAfterLogin, kLimits);
  ASSERT_EQ(first.status, Status::kFrame);
  EXPECT_EQ(first.size, 13u);
  EXPECT_EQ(first.frame.payload.data(), input.data() + 4);
  EXPECT_EQ(first.frame.payload.size(), 9u);
}

TEST(NextFrameTest, NamesTheWholeSizeOfAnIncompleteFrame) {
  const NextFrame message = next("03 00 1f ff  00 00");
  EXPECT_EQ(message.status, Status::kNeedMore);
  EXPECT_EQ(message.size, 4u + 0x1fff);
}

TEST(NextFrameTest, WorksAtCompileTimeSoItCannotAllocate) {
  static constexpr auto kKeepaliveFrame = encode_keepalive(kNoReply);
  static_assert(next_frame(kKeepaliveFrame, Stage::kAfterLogin, kLimits).status == Status::kFrame);
  static_assert(next_frame(kKeepaliveFrame, Stage::kBeforeLogin, kLimits).error ==
                ErrorCode::kLoginRequired);
  static_assert(next_server_frame(kKeepaliveAck).status == Status::kFrame);
}

TEST(ClientHeaderTest, StateDecidesWhichTypesAreAllowed) {
  struct Row {
    std::string_view header_hex;
    ErrorCode before, pending, after;
  };
  constexpr auto kNone = ErrorCode::kNone;
  constexpr auto kLoginRequired = ErrorCode::kLoginRequired;
  constexpr auto kNotAllowed = ErrorCode::kNotAllowed;
  constexpr auto kUnknownType = ErrorCode::kUnknownType;
  const Row rows[] = {
      {"01 00 00 0b", kNone, kNotAllowed, kNotAllowed},
      {"02 00 00 00", kLoginRequired, kNone, kNone},
      {"03 00 00 08", kLoginRequired, kNone, kNone},
      {"04 00 00 00", kLoginRequired, kNone, kNone},
      {"05 00 00 00", kUnknownType, kUnknownType, kUnknownType},
      {"81 00 00 12", kUnknownType, kUnknownType, kUnknownType},
      {"c0 00 00 03", kUnknownType, kUnknownType, kUnknownType},
      {"ff 00 00 00", kUnknownType, kUnknownType, kUnknownType},
      {"00 00 00 00", ErrorCode::kNotThisProtocol, kUnknownType, kUnknownType},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(judge(row.header_hex, Stage::kBeforeLogin), row.before) << row.header_hex;
    EXPECT_EQ(judge(row.header_hex, Stage::kLoginPending), row.pending) << row.header_hex;
    EXPECT_EQ(judge(row.header_hex, Stage::kAfterLogin), row.after) << row.header_hex;
  }
}

TEST(ClientHeaderTest, OfAllTypesOnlyFourAreAllowed) {
  int allowed = 0;
  for (int type = 0; type < 256; ++type) {
    const Header header{static_cast<FrameType>(type), 0, 0};
    for (const Stage stage : {Stage::kBeforeLogin, Stage::kAfterLogin}) {
      if (judge_client_header(header, stage, kLimits) == ErrorCode::kNone) ++allowed;
    }
  }
  EXPECT_EQ(allowed, 4);
}

TEST(ClientHeaderTest, RefusesEveryReservedFlag) {
  for (std::uint8_t type = 1; type <= 4; ++type) {
    const Stage stage = type == 1 ? Stage::kBeforeLogin : Stage::kAfterLogin;
    for (int flags = 0; flags < 256; ++flags) {
      const bool allowed = flags == 0 || (type == 2 && flags == kNoReply);
      const Header header{static_cast<FrameType>(type), static_cast<std::uint8_t>(flags), 0};
      EXPECT_EQ(judge_client_header(header, stage, kLimits),
                allowed ? ErrorCode::kNone : ErrorCode::kReservedFlags)
          << "type " << int{type} << " flags " << flags;
    }
  }
}

TEST(ClientHeaderTest, AcceptsExactlyTheLimitAndRefusesOneMore) {
  struct Row {
    std::uint8_t type;
    Stage stage;
    std::size_t payload_size_max;
  };
  const Limits limits{.payload_before_login_max = 300, .payload_after_login_max = 5000};
  const Row rows[] = {
      {0x01, Stage::kBeforeLogin, 300},
      {0x02, Stage::kAfterLogin, 0},
      {0x03, Stage::kAfterLogin, 5000},
      {0x04, Stage::kAfterLogin, 0},
  };
  for (const Row& row : rows) {
    const auto at_limit = next_frame(header(row.type, 0, row.payload_size_max), row.stage, limits);
    EXPECT_EQ(at_limit.error, ErrorCode::kNone) << int{row.type};
    for (const std::size_t over : {row.payload_size_max + 1, std::size_t{65535}}) {
      const auto refused = next_frame(header(row.type, 0, over), row.stage, limits);
      EXPECT_EQ(refused.status, Status::kError) << int{row.type} << " " << over;
      EXPECT_EQ(refused.error, ErrorCode::kPayloadTooLong) << int{row.type} << " " << over;
    }
  }
}

TEST(ClientHeaderTest, TheLargestConfigurableLimitIsTheLargestLength) {
  const Limits limits{.payload_before_login_max = 65535, .payload_after_login_max = 65535};
  EXPECT_EQ(judge("01 00 ff ff", Stage::kBeforeLogin, limits), ErrorCode::kNone);
  EXPECT_EQ(next("03 00 ff ff", Stage::kAfterLogin, limits).size, 65539u);
}

TEST(ClientHeaderTest, JudgesTypeThenStateThenFlagsThenLength) {
  EXPECT_EQ(judge("05 ff ff ff", Stage::kAfterLogin), ErrorCode::kUnknownType);
  EXPECT_EQ(judge("01 ff ff ff", Stage::kAfterLogin), ErrorCode::kNotAllowed);
  EXPECT_EQ(judge("02 ff ff ff", Stage::kBeforeLogin), ErrorCode::kLoginRequired);
  EXPECT_EQ(judge("02 ff ff ff", Stage::kAfterLogin), ErrorCode::kReservedFlags);
  EXPECT_EQ(judge("02 01 ff ff", Stage::kAfterLogin), ErrorCode::kPayloadTooLong);
}

TEST(ClientHeaderTest, NamesAnotherProtocolAtTheStartOfAConnection) {
  const std::string_view greetings[] = {
      "GET / HTTP/1.1\r\n",
      "POST /login HTTP/1.1\r\n",
      "OPTIONS * HTTP/1.1\r\n",
      "PRI * HTTP/2.0\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n",
      "PROXY TCP4 127.0.0.1 ",
      "*1\r\n$4\r\nPING\r\n",
      "hello\r\n",
      "\r\n\r\n",
  };
  for (const std::string_view greeting : greetings) {
    EXPECT_EQ(next_frame(as_bytes(greeting), Stage::kBeforeLogin, kLimits).error,
              ErrorCode::kNotThisProtocol)
        << greeting;
  }
  const std::string_view binary_greetings[] = {
      "16 03 01 02 00 01",              // TLS ClientHello
      "10 0e 00 04 4d 51 54 54",        // MQTT CONNECT
      "0d 0a 0d 0a 00 0d 0a 51 55 49",  // PROXY version 2
      "00 00 00 00 00 00 00 00",
  };
  for (const std::string_view hex : binary_greetings) {
    EXPECT_EQ(judge(hex, Stage::kBeforeLogin), ErrorCode::kNotThisProtocol) << hex;
  }
}

TEST(ClientHeaderTest, ASimilarFirstByteIsNotAnotherProtocol) {
  EXPECT_EQ(judge("16 02 00 00", Stage::kBeforeLogin), ErrorCode::kUnknownType);
  EXPECT_EQ(judge("40 00 00 00", Stage::kBeforeLogin), ErrorCode::kUnknownType);
  EXPECT_EQ(judge("5b 00 00 00", Stage::kBeforeLogin), ErrorCode::kUnknownType);
}

TEST(ServerHeaderTest, KnowsItsTypesSkipsPushesAndRefusesTheRest) {
  for (int type = 0; type < 256; ++type) {
    const bool known = (type >= 0x81 && type <= 0x84) || (type >= 0xc0 && type <= 0xc2);
    const bool push = type >= 0xd0 && type <= 0xef;
    const NextFrame next = next_server_frame(header(static_cast<std::uint8_t>(type), 0, 0));
    EXPECT_EQ(next.status, known || push ? Status::kFrame : Status::kError) << type;
    EXPECT_EQ(next.error, known || push ? ErrorCode::kNone : ErrorCode::kUnknownType) << type;
    EXPECT_EQ(is_push(static_cast<FrameType>(type)), push) << type;
  }
}

TEST(ServerHeaderTest, IgnoresFlags) {
  EXPECT_EQ(next_server_frame(from_hex("82 ff 00 00")).status, Status::kFrame);
}

TEST(ServerHeaderTest, LimitsWhatAClientHasToTake) {
  EXPECT_EQ(next_server_frame(header(0xd0, 0, 8192)).status, Status::kNeedMore);
  EXPECT_EQ(next_server_frame(header(0xd0, 0, 8193)).error, ErrorCode::kPayloadTooLong);
  EXPECT_EQ(next_server_frame(header(0x82, 0, 1)).error, ErrorCode::kPayloadTooLong);
  EXPECT_EQ(next_server_frame(header(0x84, 0, 1)).error, ErrorCode::kPayloadTooLong);
}

// A LOGIN, every kind of frame behind it, and a frame that is refused.
std::vector<std::byte> sample_stream() {
  return from_hex(std::string(kLoginHex) +
                  " 02 00 00 00  02 01 00 00"
                  " 03 00 00 08  00 00 00 00 00 00 00 01"
                  " 03 00 00 0b  00 00 00 00 00 00 00 02  02 00 00"
                  " 04 00 00 00"
                  " 02 80 00 00");
}

const std::vector<std::string>& sample_events() {
  static const std::vector<std::string> events = {
      "login:01 01 00 00 00 00 01 00 00 00 75",
      "keepalive:",
      "keepalive:",
      "message:00 00 00 00 00 00 00 01",
      "message:00 00 00 00 00 00 00 02 02 00 00",
      "logout:",
      "error:reserved_flags",
  };
  return events;
}

TEST(StreamTest, ByteByByteGivesTheSameFrames) {
  const auto stream = sample_stream();
  StreamReader reader;
  for (const std::byte& byte : stream)
    reader.feed({&byte, 1});
  EXPECT_EQ(reader.events(), sample_events());
}

TEST(StreamTest, EverySplitIntoThreeGivesTheSameFrames) {
  const auto stream = sample_stream();
  const std::span<const std::byte> bytes(stream);
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      StreamReader reader;
      reader.feed(bytes.first(first));
      reader.feed(bytes.subspan(first, second - first));
      reader.feed(bytes.subspan(second));
      ASSERT_EQ(reader.events(), sample_events()) << "split at " << first << " and " << second;
    }
  }
}

TEST(StreamTest, ThousandFramesInOneBuffer) {
  auto stream = from_hex(kLoginHex);
  for (int i = 0; i < 1000; ++i) {
    const auto keepalive = encode_keepalive();
    stream.insert(stream.end(), keepalive.begin(), keepalive.end());
  }
  StreamReader reader;
  reader.feed(stream);
  EXPECT_EQ(reader.events().size(), 1001u);
  EXPECT_EQ(reader.unread(), 0u);
}

TEST(StreamTest, AnErrorEndsTheStreamAtOnce) {
  StreamReader reader;
  reader.feed(from_hex("02 00 00 00"));
  reader.feed(from_hex(kLoginHex));
  EXPECT_EQ(reader.events(), std::vector<std::string>{"error:login_required"});
}

}  // namespace
}  // namespace pulsewheel::proto

// Payloads byte by byte: layouts, boundaries, extension fields, and buffers that are too small.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/frame.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel::proto {
namespace {

constexpr ErrorCode kNone = ErrorCode::kNone;

// The payload of a LOGIN whose length fields say what they are told, whatever follows.
std::vector<std::byte> login_payload(std::size_t uid_size, std::size_t device_size,
                                     std::size_t token_size, std::string_view rest) {
  auto payload = from_hex("01 01 00 00 00 00");
  payload.push_back(static_cast<std::byte>(uid_size));
  payload.push_back(static_cast<std::byte>(device_size));
  payload.push_back(static_cast<std::byte>(token_size >> 8));
  payload.push_back(static_cast<std::byte>(token_size & 0xff));
  const auto bytes = as_bytes(rest);
  payload.insert(payload.end(), bytes.begin(), bytes.end());
  return payload;
}

std::vector<std::byte> login_payload(std::string_view uid, std::string_view device,
                                     std::string_view token) {
  return login_payload(uid.size(), device.size(), token.size(),
                       std::string(uid) + std::string(device) + std::string(token));
}

ErrorCode decode_login_hex(std::string_view hex) {
  Login login;
  return decode_login(from_hex(hex), login);
}

// Calls `encode` with every buffer that is too small, and checks that it writes nothing.
template <class Encode>
void expect_nothing_written_below(std::size_t frame_size, const Encode& encode) {
  for (std::size_t size = 0; size < frame_size; ++size) {
    std::vector<std::byte> out(frame_size, std::byte{0xee});
    EXPECT_EQ(encode(std::span(out).first(size)), 0u) << size;
    EXPECT_EQ(out, std::vector<std::byte>(frame_size, std::byte{0xee})) << size;
  }
  std::vector<std::byte> out(frame_size);
  EXPECT_EQ(encode(std::span(out)), frame_size);
}

TEST(LoginTest, ReadsEveryField) {
  const auto payload = from_hex(
      "01 01  00 00 4e 20  03 02 00 04"
      "62 6f 62  70 63  74 6f 6b 31");
  Login login;
  ASSERT_EQ(decode_login(payload, login), kNone);
  EXPECT_EQ(login.version, 1);
  EXPECT_EQ(login.version_min, 1);
  EXPECT_EQ(login.interval_ms, 20000u);
  EXPECT_EQ(login.uid, "bob");
  EXPECT_EQ(login.device, "pc");
  EXPECT_EQ(login.token, "tok1");
}

TEST(LoginTest, WritesEveryField) {
  const Login login{.interval_ms = 20000, .uid = "bob", .device = "pc", .token = "tok1"};
  std::array<std::byte, kLoginFrameSizeMax> out{};
  const std::size_t size = encode_login(login, out);
  EXPECT_EQ(to_hex(std::span(out).first(size)),
            "01 00 00 13 01 01 00 00 4e 20 03 02 00 04 62 6f 62 70 63 74 6f 6b 31");
}

TEST(LoginTest, OffersTheOldestVersionFirst) {
  std::array<std::byte, kLoginFrameSizeMax> out{};
  ASSERT_EQ(encode_login({.version = 3, .version_min = 2, .uid = "u"}, out), 15u);
  EXPECT_EQ(to_hex(std::span(out).subspan(kHeaderSize, 2)), "02 03");
}

TEST(LoginTest, TakesTheNewestCommonVersion) {
  struct Row {
    std::string_view versions_hex;
    ErrorCode expected;
  };
  const Row rows[] = {
      {"01 01", kNone},
      {"01 02", kNone},
      {"01 ff", kNone},
      {"00 00", ErrorCode::kBadVersion},
      {"00 01", ErrorCode::kBadVersion},
      {"01 00", ErrorCode::kBadVersion},  // a range the wrong way round
      {"02 01", ErrorCode::kBadVersion},
      {"02 02", ErrorCode::kBadVersion},
      {"02 ff", ErrorCode::kBadVersion},
      {"ff 02", ErrorCode::kBadVersion},
  };
  for (const Row& row : rows) {
    const auto payload = from_hex(std::string(row.versions_hex) + " 00 00 00 00  01 00 00 00  75");
    Login login;
    EXPECT_EQ(decode_login(payload, login), row.expected) << row.versions_hex;
    if (row.expected == kNone) {
      EXPECT_EQ(login.version, 1) << row.versions_hex;
    }
  }
}

TEST(LoginTest, JudgesTheVersionBeforeAnythingElse) {
  EXPECT_EQ(decode_login_hex("02 02"), ErrorCode::kBadVersion);
  EXPECT_EQ(decode_login_hex("02 02 00 00 00 00 00 ff ff ff"), ErrorCode::kBadVersion);
}

TEST(LoginTest, LimitsEveryFieldExactly) {
  struct Row {
    std::size_t uid_size, device_size, token_size;
    ErrorCode expected;
  };
  const Row rows[] = {
      {0, 0, 0, ErrorCode::kBadUid},
      {1, 0, 0, kNone},
      {128, 0, 0, kNone},
      {129, 0, 0, ErrorCode::kBadUid},
      {255, 0, 0, ErrorCode::kBadUid},
      {1, 1, 0, kNone},
      {1, 64, 0, kNone},
      {1, 65, 0, ErrorCode::kBadDevice},
      {1, 255, 0, ErrorCode::kBadDevice},
      {1, 0, 1, kNone},
      {1, 0, 512, kNone},
      {1, 0, 513, ErrorCode::kBadToken},
      {128, 64, 512, kNone},
      {1, 0, 65535, ErrorCode::kBadToken},
  };
  for (const Row& row : rows) {
    const std::string rest(row.uid_size + row.device_size + row.token_size, 'x');
    Login login;
    EXPECT_EQ(
        decode_login(login_payload(row.uid_size, row.device_size, row.token_size, rest), login),
        row.expected)
        << row.uid_size << " " << row.device_size << " " << row.token_size;
  }
}

TEST(LoginTest, ReturnsOddUidsByteForByte) {
  using namespace std::string_view_literals;
  const std::string_view uids[] = {"\0"sv,       "a\0b"sv,     "\r\n"sv,         "{}"sv, "*:/%"sv,
                                   "<script>"sv, "\xff\xfe"sv, "\xe2\x80\xae"sv, " "sv};
  for (const std::string_view uid : uids) {
    const auto payload = login_payload(uid, uid, uid);
    Login login;
    ASSERT_EQ(decode_login(payload, login), kNone) << uid;
    EXPECT_EQ(login.uid, uid);
    EXPECT_EQ(login.device, uid);
    EXPECT_EQ(login.token, uid);
  }
}

TEST(LoginTest, ACutPayloadIsMalformedAtEveryByte) {
  const auto payload = login_payload("bob", "pc", "tok1");
  for (std::size_t size = 0; size < payload.size(); ++size) {
    Login login;
    EXPECT_EQ(decode_login(std::span(payload).first(size), login), ErrorCode::kMalformedPayload)
        << size;
  }
}

TEST(LoginTest, LengthsBeyondThePayloadAreMalformed) {
  Login login;
  EXPECT_EQ(decode_login(login_payload(128, 0, 0, "u"), login), ErrorCode::kMalformedPayload);
  EXPECT_EQ(decode_login(login_payload(1, 64, 0, "u"), login), ErrorCode::kMalformedPayload);
  EXPECT_EQ(decode_login(login_payload(1, 0, 512, "u"), login), ErrorCode::kMalformedPayload);
}

TEST(LoginTest, WritesNothingThatBreaksALimit) {
  const std::string uid(kUidSizeMax + 1, 'u');
  const std::string device(kDeviceSizeMax + 1, 'd');
  const std::string token(kTokenSizeMax + 1, 't');
  std::array<std::byte, 2048> out{};
  EXPECT_EQ(encode_login({.uid = ""}, out), 0u);
  EXPECT_EQ(encode_login({.uid = uid}, out), 0u);
  EXPECT_EQ(encode_login({.uid = "u", .device = device}, out), 0u);
  EXPECT_EQ(encode_login({.uid = "u", .token = token}, out), 0u);
  EXPECT_EQ(encode_login({.version = 1, .version_min = 2, .uid = "u"}, out), 0u);
  EXPECT_EQ(encode_login({.version = 1, .version_min = 0, .uid = "u"}, out), 0u);
}

TEST(LoginTest, TheLargestFitsTheDefaultLimit) {
  const std::string uid(kUidSizeMax, 'u');
  const std::string device(kDeviceSizeMax, 'd');
  const std::string token(kTokenSizeMax, 't');
  std::array<std::byte, kLoginFrameSizeMax> out{};
  ASSERT_EQ(encode_login({.uid = uid, .device = device, .token = token}, out), out.size());
  const NextFrame next = next_frame(out, Stage::kBeforeLogin, Limits{});
  ASSERT_EQ(next.status, NextFrame::Status::kFrame);
  Login login;
  EXPECT_EQ(decode_login(next.frame.payload, login), kNone);
  EXPECT_EQ(login.token, token);
}

// A payload that may carry extension fields, and how it is decoded.
struct Extensible {
  std::string_view name;
  std::string_view payload_hex;
  ErrorCode (*decode)(std::span<const std::byte> payload);
};

template <class Out, ErrorCode (*Decode)(std::span<const std::byte>, Out&) noexcept>
ErrorCode decode_as(std::span<const std::byte> payload) {
  Out out;
  return Decode(payload, out);
}

class ExtensionTest : public testing::TestWithParam<Extensible> {
 protected:
  static ErrorCode decode_with(std::string_view extension_hex) {
    return GetParam().decode(
        from_hex(std::string(GetParam().payload_hex) + " " + std::string(extension_hex)));
  }
};

TEST_P(ExtensionTest, SkipsWhatItDoesNotKnow) {
  EXPECT_EQ(decode_with(""), kNone);
  EXPECT_EQ(decode_with("00 01 00 00"), kNone);
  EXPECT_EQ(decode_with("7f ff 00 03 aa bb cc"), kNone);
  EXPECT_EQ(decode_with("00 01 00 01 aa  00 01 00 01 bb"), kNone);
}

TEST_P(ExtensionTest, RefusesACriticalOne) {
  EXPECT_EQ(decode_with("80 00 00 00"), ErrorCode::kUnknownExtension);
  EXPECT_EQ(decode_with("00 01 00 00  ff ff 00 01 aa"), ErrorCode::kUnknownExtension);
}

TEST_P(ExtensionTest, RefusesLeftOverBytes) {
  for (const std::string_view hex : {"00", "00 01", "00 01 00", "00 01 00 01", "00 01 00 02 aa",
                                     "00 01 ff ff aa", "00 01 00 00 00", "80 00 00 01"}) {
    EXPECT_EQ(decode_with(hex), ErrorCode::kMalformedPayload) << hex;
  }
}

TEST_P(ExtensionTest, TakesSixteenAndRefusesOneMore) {
  std::string hex;
  for (int i = 0; i < 16; ++i)
    hex += " 00 01 00 01 aa";
  EXPECT_EQ(decode_with(hex), kNone);
  EXPECT_EQ(decode_with(hex + " 00 01 00 00"), ErrorCode::kUnknownExtension);
}

TEST_P(ExtensionTest, ACutPayloadIsMalformedAtEveryByte) {
  const auto payload = from_hex(GetParam().payload_hex);
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_EQ(GetParam().decode(std::span(payload).first(size)), ErrorCode::kMalformedPayload)
        << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllFrames, ExtensionTest,
    testing::Values(
        Extensible{"Login", "01 01 00 00 00 00 01 00 00 00 75", decode_as<Login, decode_login>},
        Extensible{"LoginAck", "01 00  00 00 75 30  00 00 4e 20  00 00 00 00 00 00 00 01",
                   decode_as<LoginAck, decode_login_ack>},
        Extensible{"Error", "00 05 02 6e 6f", decode_as<Error, decode_error>},
        Extensible{"Settings", "00 00 75 30  00 00 4e 20", decode_as<Settings, decode_settings>},
        Extensible{"Goaway", "00 02 00 00 09 c4", decode_as<Goaway, decode_goaway>}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(LoginAckTest, WritesAndReadsEveryField) {
  const LoginAck ack{.status = LoginStatus::kTookOver,
                     .version = 1,
                     .timeout_ms = 30000,
                     .interval_ms = 19190,
                     .session_id = 0x0102030405060708};
  std::array<std::byte, kLoginAckFrameSize> out{};
  ASSERT_EQ(encode_login_ack(ack, out), out.size());
  EXPECT_EQ(to_hex(out), "81 00 00 12 01 01 00 00 75 30 00 00 4a f6 01 02 03 04 05 06 07 08");
  LoginAck read;
  ASSERT_EQ(decode_login_ack(std::span(out).subspan(kHeaderSize), read), kNone);
  EXPECT_EQ(read.status, LoginStatus::kTookOver);
  EXPECT_EQ(read.version, 1);
  EXPECT_EQ(read.timeout_ms, 30000u);
  EXPECT_EQ(read.interval_ms, 19190u);
  EXPECT_EQ(read.session_id, 0x0102030405060708u);
}

TEST(LoginAckTest, RefusesAVersionThatWasNotOffered) {
  LoginAck ack;
  for (const std::string_view version : {"00", "02", "ff"}) {
    const auto payload =
        from_hex(std::string(version) + " 00  00 00 75 30  00 00 4e 20  00 00 00 00 00 00 00 01");
    EXPECT_EQ(decode_login_ack(payload, ack), ErrorCode::kBadVersion) << version;
  }
}

TEST(SettingsTest, TheIntervalIsAtLeastOneAndBelowTheTimeout) {
  struct Row {
    std::string_view hex;
    ErrorCode expected;
  };
  const Row rows[] = {
      {"00 00 00 02  00 00 00 01", kNone},
      {"00 00 75 30  00 00 75 2f", kNone},
      {"ff ff ff ff  ff ff ff fe", kNone},
      {"00 00 75 30  00 00 00 00", ErrorCode::kMalformedPayload},
      {"00 00 75 30  00 00 75 30", ErrorCode::kMalformedPayload},
      {"00 00 00 00  00 00 00 00", ErrorCode::kMalformedPayload},
  };
  for (const Row& row : rows) {
    Settings settings;
    EXPECT_EQ(decode_settings(from_hex(row.hex), settings), row.expected) << row.hex;
    LoginAck ack;
    EXPECT_EQ(decode_login_ack(
                  from_hex("01 00 " + std::string(row.hex) + " 00 00 00 00 00 00 00 01"), ack),
              row.expected)
        << row.hex;
  }
}

TEST(MessageTest, ReadsTheIdAndTheRest) {
  const auto payload = from_hex("ff ee dd cc bb aa 99 88  68 69");
  Message message;
  ASSERT_EQ(decode_message(payload, message), kNone);
  EXPECT_EQ(message.id, 0xffeeddccbbaa9988u);
  EXPECT_EQ(to_hex(message.body), "68 69");
}

TEST(MessageTest, MayHaveAnEmptyBodyButNotHalfAnId) {
  Message message;
  EXPECT_EQ(decode_message(from_hex("00 00 00 00 00 00 00 01"), message), kNone);
  EXPECT_TRUE(message.body.empty());
  EXPECT_EQ(decode_message(from_hex("00 00 00 00 00 00 00"), message),
            ErrorCode::kMalformedPayload);
  EXPECT_EQ(decode_message({}, message), ErrorCode::kMalformedPayload);
}

TEST(MessageTest, WritesNoMoreThanALengthCanSay) {
  const std::vector<std::byte> body(65535 - 8 + 1);
  std::vector<std::byte> out(70000);
  EXPECT_EQ(encode_message({.id = 1, .body = std::span(body).first(65535 - 8)}, out), 4u + 65535);
  EXPECT_EQ(encode_message({.id = 1, .body = body}, out), 0u);
}

TEST(MessageAckTest, IsExactlyAnId) {
  std::uint64_t id = 0;
  EXPECT_EQ(decode_message_ack(from_hex("00 00 00 00 00 00 00 07"), id), kNone);
  EXPECT_EQ(id, 7u);
  EXPECT_EQ(decode_message_ack(from_hex("00 00 00 00 00 00 07"), id), ErrorCode::kMalformedPayload);
  EXPECT_EQ(decode_message_ack(from_hex("00 00 00 00 00 00 00 07 00"), id),
            ErrorCode::kMalformedPayload);
}

TEST(ErrorFrameTest, CutsATextThatIsTooLong) {
  const std::string text(300, 'x');
  std::array<std::byte, kErrorFrameSizeMax> out{};
  ASSERT_EQ(encode_error({.code = ErrorCode::kInternal, .text = text}, out), out.size());
  Error read;
  ASSERT_EQ(decode_error(std::span(out).subspan(kHeaderSize), read), kNone);
  EXPECT_EQ(read.code, ErrorCode::kInternal);
  EXPECT_EQ(read.text, text.substr(0, 255));
}

TEST(ErrorFrameTest, PassesOnACodeWithoutAName) {
  Error read;
  ASSERT_EQ(decode_error(from_hex("01 ff 00"), read), kNone);
  EXPECT_EQ(static_cast<int>(read.code), 0x1ff);
  EXPECT_EQ(to_string(read.code), "unknown");
  EXPECT_TRUE(may_retry(read.code));
  EXPECT_EQ(read.text, "");
}

TEST(EncodeTest, WritesNothingIntoABufferThatIsTooSmall) {
  const auto body = from_hex("01 02 03");
  expect_nothing_written_below(4 + 10 + 1,
                               [](auto out) { return encode_login({.uid = "u"}, out); });
  expect_nothing_written_below(22, [](auto out) { return encode_login_ack({}, out); });
  expect_nothing_written_below(15, [&](auto out) { return encode_message({1, body}, out); });
  expect_nothing_written_below(12, [](auto out) { return encode_message_ack(1, out); });
  expect_nothing_written_below(9, [](auto out) {
    return encode_error({ErrorCode::kInternal, "no"}, out);
  });
  expect_nothing_written_below(12, [](auto out) { return encode_settings({}, out); });
  expect_nothing_written_below(10, [](auto out) { return encode_goaway({}, out); });
}

}  // namespace
}  // namespace pulsewheel::proto

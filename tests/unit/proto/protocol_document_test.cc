// PROTOCOL.md is the specification: its examples and tables are compared with the codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "proto/frame.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel::proto {
namespace {

const std::string& document() {
  static const std::string text = [] {
    std::ifstream file(PULSEWHEEL_PROTOCOL_DOCUMENT);
    std::ostringstream whole;
    whole << file.rdbuf();
    return whole.str();
  }();
  return text;
}

// The blocks that start with "```hex NAME", by name: their bytes, without comments.
std::map<std::string, std::vector<std::byte>> examples() {
  std::map<std::string, std::vector<std::byte>> blocks;
  std::istringstream lines(document());
  std::string name;
  std::string hex;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```hex ")) {
      name = line.substr(7);
    } else if (line.starts_with("```") && !name.empty()) {
      EXPECT_TRUE(blocks.emplace(name, from_hex(hex)).second) << "two examples named " << name;
      name.clear();
      hex.clear();
    } else if (!name.empty()) {
      hex += line.substr(0, line.find('#')) + "\n";
    }
  }
  return blocks;
}

template <class T>
std::vector<std::byte> encoded(std::size_t (*encode)(const T&, std::span<std::byte>) noexcept,
                               const T& value) {
  std::vector<std::byte> out(8192);
  out.resize(encode(value, out));
  return out;
}

template <std::size_t N>
std::vector<std::byte> encoded(const std::array<std::byte, N>& frame) {
  return {frame.begin(), frame.end()};
}

// What the codec writes for each example. "login_full" has an extension field, which this version
// reads but never writes.
std::map<std::string, std::vector<std::byte>> expected_examples() {
  std::array<std::byte, kMessageAckFrameSize> message_ack{};
  EXPECT_EQ(encode_message_ack(7, message_ack), message_ack.size());
  return {
      {"login", encoded<Login>(encode_login, {.uid = "alice", .device = "phone"})},
      {"login_ack", encoded<LoginAck>(encode_login_ack, {.timeout_ms = 30000,
                                                         .interval_ms = 19190,
                                                         .session_id = 0x0000'0100'0000'0400})},
      {"keepalive", encoded(encode_keepalive())},
      {"keepalive_ack", encoded(kKeepaliveAck)},
      {"keepalive_no_reply", encoded(encode_keepalive(kNoReply))},
      {"message", encoded<Message>(encode_message, {.id = 7, .body = as_bytes("hello")})},
      {"message_ack", encoded(message_ack)},
      {"settings", encoded<Settings>(encode_settings, {.timeout_ms = 45000, .interval_ms = 30000})},
      {"goaway", encoded<Goaway>(encode_goaway, {GoawayReason::kDraining, 2500})},
      {"logout", encoded(kLogout)},
      {"logout_ack", encoded(kLogoutAck)},
      {"error", encoded<Error>(encode_error,
                               {ErrorCode::kLoginRequired, error_text(ErrorCode::kLoginRequired)})},
  };
}

TEST(ProtocolDocumentTest, ExamplesAreWhatTheCodecWrites) {
  auto written = examples();
  EXPECT_EQ(written.erase("login_full"), 1u);
  for (const auto& [name, bytes] : expected_examples()) {
    ASSERT_TRUE(written.contains(name)) << name;
    EXPECT_EQ(to_hex(written[name]), to_hex(bytes)) << name;
    written.erase(name);
  }
  for (const auto& [name, bytes] : written)
    ADD_FAILURE() << "example without a test: " << name;
}

TEST(ProtocolDocumentTest, TheFullLoginIsReadAsDescribed) {
  const auto bytes = examples().at("login_full");
  const NextFrame next = next_frame(bytes, Stage::kBeforeLogin, Limits{});
  ASSERT_EQ(next.status, NextFrame::Status::kFrame);
  EXPECT_EQ(next.size, bytes.size());
  Login login;
  ASSERT_EQ(decode_login(next.frame.payload, login), ErrorCode::kNone);
  EXPECT_EQ(login.version, 1);
  EXPECT_EQ(login.interval_ms, 30000u);
  EXPECT_EQ(login.uid, "bob");
  EXPECT_EQ(login.device, "pc");
  EXPECT_EQ(login.token, "s3cret");
}

std::string error_row(ErrorCode code) {
  std::array<char, 8> number{};
  std::snprintf(number.data(), number.size(), "0x%04x", static_cast<unsigned>(code));
  return "| `" + std::string(number.data()) + "` | `" + std::string(to_string(code)) + "` | " +
         std::string(error_text(code)) + " |\n";
}

TEST(ProtocolDocumentTest, HasARowForEveryErrorCode) {
  for (const ErrorCode code : kErrorCodes) {
    EXPECT_NE(document().find(error_row(code)), std::string::npos) << error_row(code);
  }
}

TEST(ProtocolDocumentTest, HasARowForEveryFrameTypeAndGoawayReason) {
  int types = 0;
  for (int number = 0; number < 256; ++number) {
    const auto name = to_string(static_cast<FrameType>(number));
    if (name == "unknown") continue;
    ++types;
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), "0x%02x", static_cast<unsigned>(number));
    std::string row = "| `" + std::string(hex.data()) + "` | ";
    for (const char c : name)
      row += static_cast<char>(std::toupper(c));
    EXPECT_NE(document().find(row + " |"), std::string::npos) << row;
  }
  EXPECT_EQ(types, 11);

  int reasons = 0;
  for (int number = 0; number < 65536; ++number) {
    const auto name = to_string(static_cast<GoawayReason>(number));
    if (name == "unknown") continue;
    ++reasons;
    const std::string row = "| `" + std::to_string(number) + "` | `" + std::string(name) + "` |";
    EXPECT_NE(document().find(row), std::string::npos) << row;
  }
  EXPECT_EQ(reasons, 5);
}

TEST(ErrorCodeTest, TheListHasExactlyTheCodesWithAName) {
  std::set<std::string_view> names;
  std::vector<ErrorCode> named;
  for (int number = 1; number < 65536; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    if (to_string(code) == "unknown") continue;
    named.push_back(code);
    EXPECT_TRUE(names.insert(to_string(code)).second) << to_string(code) << " twice";
  }
  EXPECT_TRUE(std::ranges::equal(named, kErrorCodes));
}

TEST(ErrorCodeTest, EverySentenceIsAsciiAndFitsErrorFrames) {
  for (const ErrorCode code : kErrorCodes) {
    const std::string_view text = error_text(code);
    EXPECT_LE(text.size(), kErrorTextSizeMax) << text;
    EXPECT_TRUE(text.ends_with('.')) << text;
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
  }
}

TEST(ErrorCodeTest, OnlyTheSecondRangeMayBeRetried) {
  EXPECT_FALSE(may_retry(ErrorCode::kBadToken));
  EXPECT_FALSE(may_retry(static_cast<ErrorCode>(0x00ff)));
  EXPECT_TRUE(may_retry(ErrorCode::kLoginTimeout));
  EXPECT_TRUE(may_retry(ErrorCode::kInternal));
}

}  // namespace
}  // namespace pulsewheel::proto

// Cutting streams into frames: what a header is judged by, and every way to split a stream.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/frame.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel::proto {
namespace {

using Status = NextFrame::Status;

constexpr Limits kLimits{};

NextFrame next(std::string_view hex, Stage stage = Stage::kAfterLogin,
               const Limits& limits = kLimits) {
  static std::vector<std::byte> bytes;  // keeps the views valid for the caller
  bytes = from_hex(hex);
  return next_frame(bytes, stage, limits);
}

TEST(NextFrameTest, AsksForTheHeaderWhileItIsIncomplete) {
  for (const std::string_view hex : {"", "02", "02 00", "02 00 00"}) {
    EXPECT_EQ(next(hex).status, Status::kNeedMore) << hex;
    EXPECT_EQ(next(hex).size, 4u) << hex;
  }
}

TEST(NextFrameTest, CutsAKeepaliveWithItsFlag) {
  const NextFrame silent = next("02 01 00 00");
  ASSERT_EQ(silent.status, Status::kFrame);
  EXPECT_EQ(silent.frame.header.type, FrameType::kKeepalive);
  EXPECT_EQ(silent.frame.header.flags, kNoReply);
  EXPECT_TRUE(silent.frame.payload.empty());
  EXPECT_EQ(silent.size, 4u);
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

}  // namespace
}  // namespace pulsewheel::proto

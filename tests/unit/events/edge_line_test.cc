#include "daemon/events/edge_line.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <string_view>

namespace pulsewheel {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(EdgeLineTest, ALineIsExactlyItsFields) {
  const WallClockMapping clock;
  const MonoTime now = MonoClock::now();
  const Edge edge{.uid = "a/b",
                  .at = now,
                  .last_seen = now - std::chrono::seconds{30},
                  .due = now,
                  .sessions = 3,
                  .kind = EdgeKind::kOffline,
                  .reason = EdgeReason::kTimeout};
  std::array<char, EdgeLineWriter::kLineBytesMax> buffer{};
  const char* const end = EdgeLineWriter().write_edge(edge, 3, 12, clock, buffer.data());
  EXPECT_EQ(std::string_view(buffer.data(), end),
            R"({"seq":12,"epoch":3,"uid":"a%2Fb","kind":"offline","reason":"timeout","at":")" +
                to_rfc3339(clock.to_wall(now)) + R"(","last_seen":")" +
                to_rfc3339(clock.to_wall(edge.last_seen)) + "\",\"sessions\":3}\n");
}

TEST(EdgeLineTest, ALastSeenThatNobodyKnowsIsNull) {
  const Edge edge{
      .uid = "alice", .at = MonoTime{}, .last_seen = kLastSeenUnknown, .due = MonoTime{}};
  std::array<char, EdgeLineWriter::kLineBytesMax> buffer{};
  const char* const end =
      EdgeLineWriter().write_edge(edge, 1, 1, WallClockMapping(), buffer.data());
  EXPECT_NE(std::string_view(buffer.data(), end).find(R"(Z","last_seen":null,"sessions":0})"),
            std::string_view::npos);
}

TEST(EdgeLineTest, TheLongestLineFitsItsRoom) {
  const std::string uid(255, '\xff');  // an EdgeBatch's longest
  Edge edge{.uid = uid, .at = MonoTime{}, .last_seen = MonoTime{}, .due = MonoTime{}};
  edge.sessions = std::numeric_limits<std::uint32_t>::max();
  edge.kind = EdgeKind::kOffline;
  std::array<char, 2 * EdgeLineWriter::kLineBytesMax> buffer{};
  EdgeLineWriter writer;
  for (const EdgeReason reason :
       {EdgeReason::kLogin, EdgeReason::kTimeout, EdgeReason::kLogout, EdgeReason::kDisconnect,
        EdgeReason::kKicked, EdgeReason::kShutdown}) {
    edge.reason = reason;
    const char* const end =
        writer.write_edge(edge, kMost, kMost, WallClockMapping(), buffer.data());
    EXPECT_LE(static_cast<std::size_t>(end - buffer.data()), EdgeLineWriter::kLineBytesMax);
  }
  const char* const end = writer.write_gap(kMost, kMost, kMost, buffer.data());
  EXPECT_LE(static_cast<std::size_t>(end - buffer.data()), EdgeLineWriter::kLineBytesMax);
}

}  // namespace
}  // namespace pulsewheel

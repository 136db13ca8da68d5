#include "tests/client_sim/edge_line.h"

#include <gtest/gtest.h>

namespace pulsewheel::sim {
namespace {

using Kind = ObservedEdge::Kind;

constexpr const char* kLine =
    R"({"seq":17,"epoch":3,"uid":"s00ab12-00000042","kind":"offline","reason":"timeout",)"
    R"("at":"2024-05-01T10:00:30.500000Z","last_seen":"2024-05-01T10:00:00.000000Z","sessions":0})";

class EdgeLineTest : public testing::Test {
 protected:
  bool parse(const std::string& line) { return parse_edge_line(line, edge, scratch); }

  EdgeLine edge;
  std::string scratch;
};

TEST_F(EdgeLineTest, ReadsTheDaemonsLayout) {
  ASSERT_TRUE(parse_edge_line(kLine, edge, scratch));
  EXPECT_EQ(edge.seq, 17U);
  EXPECT_EQ(edge.epoch, 3U);
  EXPECT_EQ(edge.uid, "s00ab12-00000042");
  EXPECT_EQ(edge.kind, Kind::kOffline);
  EXPECT_EQ(edge.reason, Reason::kTimeout);
  EXPECT_TRUE(scratch.empty()) << "the quick scan should have done";
}

TEST_F(EdgeLineTest, ReadsAnyOtherLayout) {
  ASSERT_TRUE(parse(
      R"( { "kind": "online", "uid": "a\"b", "reason": "login", "epoch": 1, "seq": 2, "x": [] } )"));
  EXPECT_EQ(edge.seq, 2U);
  EXPECT_EQ(edge.epoch, 1U);
  EXPECT_EQ(edge.uid, "a\"b");
  EXPECT_EQ(edge.kind, Kind::kOnline);
}

TEST_F(EdgeLineTest, KnowsTheReasons) {
  const auto reason_of = [&](const std::string& reason) {
    EXPECT_TRUE(parse(R"({"seq":1,"epoch":1,"uid":"a","kind":"offline","reason":")" + reason +
                      R"(","at":"","last_seen":"","sessions":0})"));
    return edge.reason;
  };
  EXPECT_EQ(reason_of("login"), Reason::kLogin);
  EXPECT_EQ(reason_of("timeout"), Reason::kTimeout);
  EXPECT_EQ(reason_of("logout"), Reason::kLogout);
  EXPECT_EQ(reason_of("disconnect"), Reason::kDisconnect);
  EXPECT_EQ(reason_of("kicked"), Reason::kKicked);
  EXPECT_EQ(reason_of("shutdown"), Reason::kShutdown);
  EXPECT_EQ(reason_of("taken_over"), Reason::kOther);
}

TEST_F(EdgeLineTest, RefusesWhatIsNoEdge) {
  const std::string line = kLine;
  for (const std::string& wrong :
       {std::string(), std::string("{}"), std::string("[]"), std::string("seq"),
        line.substr(0, line.size() - 1), line.substr(0, line.size() / 2), line + "}",
        std::string(R"({"seq":1,"epoch":1,"uid":"a","kind":"asleep","reason":"timeout"})"),
        std::string(R"({"seq":-1,"epoch":1,"uid":7,"kind":"online","reason":"login"})")}) {
    EXPECT_FALSE(parse(wrong)) << wrong;
  }
}

TEST_F(EdgeLineTest, HearsOfDroppedEdges) {
  EXPECT_EQ(parse_gap_line(R"({"gap":true,"dropped":12,"first_seq":5,"last_seq":16})"), 12U);
  EXPECT_EQ(parse_gap_line(kLine), std::nullopt);
  EXPECT_EQ(parse_gap_line("rubbish"), std::nullopt);
  EXPECT_EQ(parse_gap_line(R"({"gap":true,"dropped":"many"})"), std::nullopt);
}

}  // namespace
}  // namespace pulsewheel::sim

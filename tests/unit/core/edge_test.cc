#include "daemon/core/edge.h"

#include <string>

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

MonoTime ms(std::int64_t n) {
  return MonoTime{std::chrono::milliseconds{n}};
}

Edge edge_of(std::string_view uid) {
  return {.uid = uid,
          .at = ms(3),
          .last_seen = ms(1),
          .due = ms(2),
          .sessions = 4,
          .kind = EdgeKind::kOffline,
          .reason = EdgeReason::kTimeout};
}

TEST(EdgeTest, NamesAreThoseOfTheEventLog) {
  EXPECT_EQ(to_string(EdgeKind::kOnline), "online");
  EXPECT_EQ(to_string(EdgeKind::kOffline), "offline");
  EXPECT_EQ(to_string(EdgeReason::kLogin), "login");
  EXPECT_EQ(to_string(EdgeReason::kTimeout), "timeout");
  EXPECT_EQ(to_string(EdgeReason::kLogout), "logout");
  EXPECT_EQ(to_string(EdgeReason::kDisconnect), "disconnect");
  EXPECT_EQ(to_string(EdgeReason::kKicked), "kicked");
  EXPECT_EQ(to_string(EdgeReason::kShutdown), "shutdown");
}

TEST(EdgeBatchTest, GivesBackEveryField) {
  EdgeBatch batch;
  batch.push(edge_of("alice"));
  ASSERT_EQ(batch.size(), 1U);
  const Edge edge = batch.at(0);
  EXPECT_EQ(edge.uid, "alice");
  EXPECT_EQ(edge.at, ms(3));
  EXPECT_EQ(edge.last_seen, ms(1));
  EXPECT_EQ(edge.due, ms(2));
  EXPECT_EQ(edge.sessions, 4U);
  EXPECT_EQ(edge.kind, EdgeKind::kOffline);
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
}

TEST(EdgeBatchTest, KeepsOrderAndUidsOfAnyLengthAndBytes) {
  EdgeBatch batch;
  std::vector<std::string> uids;
  for (std::size_t size = 1; size <= 128; ++size)
    uids.emplace_back(size, static_cast<char>(size));
  uids.emplace_back("\0\r\n", 3);
  for (const std::string& uid : uids)
    batch.push(edge_of(uid));
  ASSERT_EQ(batch.size(), uids.size());
  for (std::size_t i = 0; i < uids.size(); ++i)
    EXPECT_EQ(batch.at(i).uid, uids[i]);
}

TEST(EdgeBatchTest, CopiesTheUid) {
  EdgeBatch batch;
  std::string uid = "alice";
  batch.push(edge_of(uid));
  uid = "xxxxx";
  EXPECT_EQ(batch.at(0).uid, "alice");
}

TEST(EdgeBatchTest, MovesWithItsUids) {
  EdgeBatch batch;
  batch.push(edge_of("alice"));
  const EdgeBatch moved = std::move(batch);
  EXPECT_EQ(moved.at(0).uid, "alice");
}

TEST(EdgeBatchTest, ClearEmptiesItForNewEdges) {
  EdgeBatch batch;
  batch.push(edge_of("alice"));
  batch.clear();
  EXPECT_TRUE(batch.empty());
  batch.push(edge_of("bob"));
  EXPECT_EQ(batch.at(0).uid, "bob");
}

TEST(EdgeBatchDeathTest, RefusesAnEdgeThatItDoesNotHold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const EdgeBatch batch;
  EXPECT_DEATH(static_cast<void>(batch.at(0)), "broken invariant");
}

}  // namespace
}  // namespace pulsewheel

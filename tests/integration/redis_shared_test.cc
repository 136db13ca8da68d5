// Several nodes, and others, on one ring in a real Redis.
#include "tests/integration/shared_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/ring_reader.h"
#include "tests/support/eventually.h"
#include "tests/support/shifted_wall_clock.h"

namespace pulsewheel::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// As a front end does that knows no deadlines. The second, by Redis' clock.
std::int64_t log_in_by_php(const RedisServer& redis, const std::string& uid, int timeout_s) {
  const std::int64_t now = std::stoll(redis.command({"TIME"}).elements.at(0).text);
  const std::string slot = "slot-" + std::to_string((now + timeout_s + 1) % 32);
  redis.command({"SADD", slot, uid});
  redis.command({"HSET", "timeline-index", uid, slot});
  return now;
}

/// The offline edges of a user in a node's own event log.
std::vector<nlohmann::json> offline_in_log(const Daemon& node, const std::string& uid) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& edge : node.edges()) {
    if (edge.at("uid") == uid && edge.at("kind") == "offline") found.push_back(edge);
  }
  return found;
}

void keep_alive(Client& client, seconds time) {
  const auto until = Client::Clock::now() + time;
  while (Client::Clock::now() < until) {
    client.send_keepalive();
    client.expect(proto::FrameType::kKeepaliveAck);
    std::this_thread::sleep_for(milliseconds{100});  // a client's interval, not a wait for us
  }
}

TEST(RedisSharedTest, AUserOfNobodyIsReportedOfflineByOneNodeOnce) {
  const RedisServer redis;
  const Daemon first(sharing(redis, "n1"));
  const Daemon second(sharing(redis, "n2"));
  ASSERT_TRUE(joins(first) && joins(second));
  const std::int64_t login = log_in_by_php(redis, "php", 2);
  ASSERT_TRUE(eventually([&] {
    return !offline_in_log(first, "php").empty() || !offline_in_log(second, "php").empty();
  }));
  auto edges = offline_in_log(first, "php");
  for (const nlohmann::json& edge : offline_in_log(second, "php"))
    edges.push_back(edge);
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].at("reason"), "timeout");
  EXPECT_EQ(edges[0].at("sessions"), 0);
  EXPECT_TRUE(edges[0].at("last_seen").is_null());
  const auto stream = read_stream(redis);
  ASSERT_EQ(stream.size(), 1U);
  EXPECT_EQ(stream[0].kind + " " + stream[0].uid + " " + stream[0].reason, "offline php timeout");
  EXPECT_GE(stream[0].at_ms, (login + 3) * 1'000);
  EXPECT_THAT(read_ring(redis).users, IsEmpty());
}

TEST(RedisSharedTest, AConnectedUserIsClaimedByNobody) {
  const RedisServer redis;
  const Daemon first(sharing(redis, "n1", {"presence.timeout=2s"}));
  const Daemon second(sharing(redis, "n2"));
  ASSERT_TRUE(joins(first) && joins(second));
  Client alice(first.port());
  alice.login("alice");
  keep_alive(alice, seconds{5});
  EXPECT_THAT(read_edges(redis), ElementsAre("online alice login"));
  EXPECT_TRUE(read_ring(redis).users.contains("alice"));
  EXPECT_TRUE(eventually([&] { return read_edges(redis).size() == 2; }));
  EXPECT_EQ(read_stream(redis)[1].node, "n1");
}

TEST(RedisSharedTest, AKilledNodesUsersGoOfflineOnceUnlessTheyComeBack) {
  check_a_killed_node(300, Afterlife::kNone);
}

TEST(RedisSharedTest, ANodeThatRestartsAtOnceJoinsAfterItsLeaseAndDoublesNoEdge) {
  check_a_killed_node(300, Afterlife::kRestarted);
}

TEST(RedisSharedTest, ANodeThatStopsLeavesItsUsersToTheOthers) {
  const RedisServer redis;
  Daemon first(sharing(redis, "n1", {"presence.timeout=6s"}));
  const Daemon second(sharing(redis, "n2", {"presence.timeout=6s"}));
  ASSERT_TRUE(joins(first) && joins(second));
  Client alice(first.port());
  alice.login("alice");
  Client bob(first.port());
  bob.login("bob");
  ASSERT_TRUE(eventually([&] { return read_ring(redis).users.size() == 2; }));
  const std::int64_t deadline = read_ring(redis).users.at("bob").deadline_ms;
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(redis.command({"EXISTS", "pulsewheel:node:n1"}).integer, 0);
  Client alice_again(second.port());
  alice_again.login("alice");
  while (read_edges(redis).size() < 3)
    keep_alive(alice_again, seconds{1});
  EXPECT_THAT(read_edges(redis), UnorderedElementsAre("online alice login", "online bob login",
                                                      "offline bob timeout"));
  EXPECT_EQ(read_edges(redis)[2], "offline bob timeout");
  EXPECT_GE(read_stream(redis)[2].at_ms, deadline);
  EXPECT_TRUE(read_ring(redis).users.contains("alice"));
}

TEST(RedisSharedTest, ANodeBringsNobodyBackWhomTheOthersTookOutMeanwhile) {
  const RedisServer redis;
  const TemporaryFolder state;
  const auto options_of_first = [&] {
    auto options = sharing(redis, "n1", {"presence.timeout=3s", "restart.grace=60s"});
    options.state_dir = state.path();
    return options;
  };
  const Daemon second(sharing(redis, "n2"));
  ASSERT_TRUE(joins(second));
  {
    Daemon first(options_of_first());
    ASSERT_TRUE(joins(first));
    Client alice(first.port());
    alice.login("alice");
    ASSERT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
    first.signal(SIGTERM);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(first.edges().size(), 1U);
  }
  ASSERT_TRUE(eventually([&] { return read_edges(redis).size() == 2; }));
  EXPECT_THAT(read_edges(redis), ElementsAre("online alice login", "offline alice timeout"));
  const Daemon first(options_of_first());
  EXPECT_THAT(first.get("/v1/users/alice").body, HasSubstr("\"offline\""));
}

TEST(RedisSharedTest, ANodeThatWasHeldUpBringsBackWhomTheOthersTookOut) {
  const RedisServer redis;
  const Daemon first(sharing(redis, "n1", {"presence.timeout=4s"}));
  const Daemon second(sharing(redis, "n2"));
  ASSERT_TRUE(joins(first) && joins(second));
  Client alice(first.port());
  alice.login("alice");
  ASSERT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
  first.signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return read_edges(redis).size() == 2; }));
  EXPECT_THAT(read_edges(redis), ElementsAre("online alice login", "offline alice timeout"));
  EXPECT_EQ(read_stream(redis)[1].node, "n2");
  alice.send_keepalive();  // lies unread, and proves that she is there
  first.signal(SIGCONT);
  ASSERT_TRUE(eventually([&] {
    keep_alive(alice, seconds{1});
    return HasFailure() || read_edges(redis).size() >= 3;
  }));
  ASSERT_FALSE(HasFailure()) << "she was no longer answered";
  EXPECT_EQ(read_edges(redis)[2], "online alice login");
  EXPECT_EQ(read_stream(redis)[2].node, "n1");
  EXPECT_EQ(first.edges().size(), 1U);  // for this node she was online all the time
}

TEST(RedisSharedTest, AnEmptiedRedisMakesNoEdges) {
  const RedisServer redis;
  const Daemon first(sharing(redis, "n1"));
  const Daemon second(sharing(redis, "n2"));
  ASSERT_TRUE(joins(first) && joins(second));
  Client alice(first.port());
  alice.login("alice");
  Client bob(second.port());
  bob.login("bob");
  ASSERT_TRUE(eventually([&] { return read_ring(redis).users.size() == 2; }));
  redis.command({"FLUSHALL"});
  ASSERT_TRUE(eventually([&] { return read_ring(redis).users.size() == 2; }));
  EXPECT_THAT(read_edges(redis), IsEmpty());
}

TEST(RedisSharedTest, ANodeWithAWrongClockDoesNoHarm) {
  const RedisServer redis;
  ShiftedWallClock clock;
  Daemon::Options options = sharing(redis, "n1", {"presence.timeout=3s"});
  options.in_child = [&clock] { clock.adopt_in_child(PULSEWHEEL_WALL_CLOCK_SHIM); };
  clock.jump_to(hours{5});
  const Daemon first(std::move(options));
  ASSERT_TRUE(joins(first));
  const std::int64_t login = log_in_by_php(redis, "php", 4);
  Client alice(first.port());
  alice.login("alice");
  clock.jump_to(-hours{5});
  ASSERT_TRUE(eventually([&] { return read_stream(redis).size() == 3; }));
  EXPECT_THAT(read_edges(redis), UnorderedElementsAre("online alice login", "offline alice timeout",
                                                      "offline php timeout"));
  for (const StreamEdge& edge : read_stream(redis)) {
    if (edge.kind != "offline") continue;
    EXPECT_GE(edge.at_ms, login * 1'000 + (edge.uid == "php" ? 5'000 : 3'000)) << edge.uid;
  }
}

TEST(RedisSharedTest, ANameInUseEndsTheSecondNode) {
  const RedisServer redis;
  const Daemon first(sharing(redis, "n1"));
  ASSERT_TRUE(joins(first));
  Daemon second(sharing(redis, "n1"));  // with a state folder, and so an epoch, like the first's
  EXPECT_EQ(second.wait(), 69);
  EXPECT_THAT(second.log(), HasSubstr("the name 'n1' (redis.node) is in use by another node"));
  EXPECT_EQ(first.metric("pulsewheel_redis_joined"), 1);
}

TEST(RedisSharedTest, ANameThatIsTakenLaterKeepsTheNodeOutUntilItIsFree) {
  const RedisServer redis;
  const Daemon node(sharing(redis, "n1"));
  ASSERT_TRUE(joins(node));
  redis.command({"SET", "pulsewheel:node:n1", "77"});
  EXPECT_TRUE(eventually([&] { return node.metric("pulsewheel_redis_refused") == 1; }));
  EXPECT_TRUE(
      eventually([&] { return node.log().find("is in use by epoch 77") != std::string::npos; }));
  redis.command({"DEL", "pulsewheel:node:n1"});
  EXPECT_TRUE(joins(node));
}

}  // namespace
}  // namespace pulsewheel::test

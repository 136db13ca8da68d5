// Whatever happens to the Redis behind a mirror: it is equal to memory again, and no edge comes of
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/ring_reader.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {
namespace {

/// As promised: so soon behind the return of Redis the ring equals memory.
constexpr std::chrono::seconds kRepairLimit{10};

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kDifferences = "pulsewheel_redis_differences";
constexpr const char* kRepaired = "pulsewheel_redis_repaired_total";
constexpr const char* kRepairs = "pulsewheel_redis_repairs_total";

class RedisRepairTest : public testing::Test {
 protected:
  /// `users` log in, on a daemon whose first comparison is over.
  void start(std::size_t users, std::vector<std::string> more = {}) {
    std::vector<std::string> sets{
        "redis.mode=mirror",        "redis.url=" + redis_.url(),    "redis.node=n1",
        "server.shards=2",          "server.max_connections=12000", "presence.timeout=2m",
        "redis.command_timeout=1s", "server.login_timeout=30s"};
    sets.insert(sets.end(), more.begin(), more.end());
    daemon_ = std::make_unique<Daemon>(Daemon::Options{.sets = sets});
    swarm_ = std::make_unique<Swarm>(daemon_->port());
    ASSERT_TRUE(eventually([&] { return daemon_->metric(kRepairs) >= 1; }));
    ASSERT_TRUE(swarm_->add_users("u", users));
    ASSERT_TRUE(eventually([&] { return is_equal(users); }));
    repairs_ = daemon_->metric(kRepairs);
  }

  /// Whether these many users are in the ring, each in one slot, the right one.
  bool is_equal(std::size_t users) {
    const Ring ring = read_ring(redis_);
    return ring.users.size() == users && ring.faults.empty();
  }

  /// Fails unless the ring has these users soon, and a comparison then finds no difference.
  void expect_repaired(std::size_t users) {
    EXPECT_TRUE(eventually([&] { return is_equal(users); }, kRepairLimit));
    EXPECT_TRUE(eventually([&] {
      return daemon_->metric(kRepairs) > repairs_ && daemon_->metric(kDifferences) == 0;
    }));
    EXPECT_THAT(read_ring(redis_).faults, IsEmpty());
  }

  double repairs_ = 0;  // that were over when start() was
  RedisServer redis_;
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<Swarm> swarm_;
};

TEST_F(RedisRepairTest, WhatHappenedWhileRedisWasDownIsInTheStreamAfterwards) {
  start(1, {"presence.on_disconnect=offline"});
  redis_.kill();
  ASSERT_TRUE(eventually([&] { return daemon_->metric("pulsewheel_redis_up") == 0; }));
  Client bob(daemon_->port());
  bob.login("bob");
  bob.send_logout();
  bob.expect(proto::FrameType::kLogoutAck);
  Client carol(daemon_->port());
  carol.login("carol");
  redis_.start();
  expect_repaired(2);
  const std::vector<std::string> edges = read_edges(redis_);  // of two users: not in one order
  EXPECT_THAT(edges,
              UnorderedElementsAre("online bob login", "online carol login", "offline bob logout"));
  EXPECT_LT(std::find(edges.begin(), edges.end(), "online bob login"),
            std::find(edges.begin(), edges.end(), "offline bob logout"));
}

TEST_F(RedisRepairTest, TakesOutWhomAnEarlierLifeOfTheNodeHasLeft) {
  start(10);
  const auto now = std::stoll(redis_.command({"TIME"}).elements[0].text);
  const auto leave = [&](const std::string& uid, std::int64_t deadline) {
    const std::string slot = "slot-" + std::to_string((deadline + 1) % 32);
    redis_.command({"SADD", slot, uid});
    redis_.command({"HSET", "timeline-index", uid, slot});
    redis_.command({"HSET", "pulsewheel:deadline", uid, std::to_string(deadline * 1'000)});
    redis_.command({"HSET", "pulsewheel:owners", uid, "n1:0"});
  };
  leave("ghost", now - 5);
  leave("late ghost", now + 5);
  redis_.command({"DEL", "pulsewheel:node:n1"});  // which the daemon takes for a flush
  EXPECT_TRUE(eventually([&] { return is_equal(11); }));
  EXPECT_THAT(read_edges(redis_), testing::Contains("offline ghost timeout"));
  expect_repaired(10);
  EXPECT_GE(std::stoll(redis_.command({"TIME"}).elements[0].text), now + 5);
  EXPECT_THAT(read_edges(redis_), testing::Contains("offline late ghost timeout"));
}

TEST_F(RedisRepairTest, LeavesForeignUsersAlone) {
  start(10);
  for (const char* key : {"slot-3", "slot-4"})
    redis_.command({"SADD", key, "php"});
  redis_.command({"HSET", "timeline-index", "php", "slot-3"});
  redis_.command({"SADD", "slot-5", "other"});
  redis_.command({"HSET", "timeline-index", "other", "slot-5"});
  redis_.command({"HSET", "pulsewheel:owners", "other", "n2:1"});
  redis_.command({"SET", "somebody's", "key"});
  const double repairs = daemon_->metric(kRepairs);
  redis_.command({"DEL", "pulsewheel:node:n1"});
  EXPECT_TRUE(eventually([&] { return daemon_->metric(kRepairs) > repairs; }));
  EXPECT_EQ(daemon_->metric(kDifferences), 0);
  for (const char* key : {"slot-3", "slot-4"})
    EXPECT_EQ(redis_.command({"SISMEMBER", key, "php"}).integer, 1);
  EXPECT_EQ(redis_.command({"HGET", "timeline-index", "other"}).text, "slot-5");
  EXPECT_EQ(redis_.command({"GET", "somebody's"}).text, "key");
}

TEST_F(RedisRepairTest, MendsEveryKindOfDamage) {
  start(10);
  const Ring before = read_ring(redis_);
  const auto slot_of = [&](const std::string& uid) { return before.users.at(uid).slot; };
  const auto other_than = [](const std::string& slot) {
    return std::string(slot == "slot-0" ? "slot-1" : "slot-0");
  };
  redis_.command({"SADD", other_than(slot_of("u-0")), "u-0"});
  redis_.command({"HDEL", "timeline-index", "u-1"});
  redis_.command({"HSET", "timeline-index", "u-2", other_than(slot_of("u-2"))});
  redis_.command({"HDEL", "pulsewheel:owners", "u-3"});
  redis_.command({"HSET", "pulsewheel:deadline", "u-4", "soon"});
  redis_.command({"HSET", "pulsewheel:owners", "u-5", "n1:0,n1:1"});
  redis_.command({"DEL", "pulsewheel:node:n1"});
  expect_repaired(10);
  EXPECT_GE(daemon_->metric(kRepaired), 6);
  EXPECT_EQ(daemon_->wait_for_edges(10U).size(), 10U);
}

TEST_F(RedisRepairTest, ALongerTimeoutThanTheRingIsFiledAgainAndAgain) {
  start(3);  // of two minutes
  EXPECT_TRUE(eventually([&] { return read_ring(redis_).users.at("u-0").remaining_ms < 28'000; }));
  EXPECT_TRUE(eventually([&] { return read_ring(redis_).users.at("u-0").remaining_ms > 29'000; }));
  EXPECT_TRUE(is_equal(3));
  EXPECT_EQ(daemon_->wait_for_edges(3U).size(), 3U);
}

TEST_F(RedisRepairTest, AQueueThatWasFullIsMadeGood) {
  constexpr std::size_t kUsers = 3'000;
  start(1, {"redis.queue_max=1000"});
  redis_.kill();
  ASSERT_TRUE(eventually([&] { return daemon_->metric("pulsewheel_redis_up") == 0; }));
  ASSERT_TRUE(swarm_->add_users("more", kUsers));
  ASSERT_TRUE(eventually(
      [&] { return daemon_->metric("pulsewheel_redis_lost_edges_total") >= kUsers - 1'000; }));
  redis_.start();
  expect_repaired(kUsers + 1);
  EXPECT_EQ(daemon_->wait_for_edges(kUsers + 1).size(), kUsers + 1);
}

TEST_F(RedisRepairTest, LoginsAndLogoutsDuringARepairWin) {
  start(2'000, {"redis.repair_rate=2000"});
  redis_.command({"FLUSHALL"});
  // For about as long as the comparison takes.
  for (int i = 0; i < 200; ++i) {
    Client client(daemon_->port());
    client.login("visitor-" + std::to_string(i % 20));
    if (i % 2 == 0) {
      client.send_logout();
      client.expect(proto::FrameType::kLogoutAck);
    }
    swarm_->drive(std::chrono::milliseconds{5});
  }
  expect_repaired(2'000 + 20 - 10);
}

// --- The daemon's own restart -------------------------------------------------------------------

TEST(RedisWarmStartTest, AKilledNodeTakesItsUsersBackAndNobodySeesAnEdge) {
  const RedisServer redis;
  const TemporaryFolder state;
  const auto start = [&] {
    return Daemon::Options{.sets = {"redis.mode=mirror", "redis.url=" + redis.url(),
                                    "redis.node=n1", "server.shards=2", "presence.timeout=10s"},
                           .state_dir = state.path()};
  };
  {
    Daemon daemon(start());
    std::vector<Client> clients;
    for (const char* uid : {"alice", "bob"}) {
      clients.emplace_back(daemon.port());
      clients.back().login(uid);
    }
    ASSERT_TRUE(eventually([&] { return read_ring(redis).users.size() == 2; }));
    daemon.signal(SIGKILL);
    daemon.wait();
  }
  const Daemon daemon(start());
  EXPECT_THAT(daemon.get("/v1/users/bob").body, ::testing::HasSubstr("\"online\""));
  Client alice(daemon.port());
  alice.login("alice", {}, 20'000);  // who stays when bob goes
  EXPECT_TRUE(eventually([&] { return read_edges(redis).size() == 3; }));
  EXPECT_THAT(read_edges(redis), UnorderedElementsAre("online alice login", "online bob login",
                                                      "offline bob timeout"));
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.size() == 1; }));
  EXPECT_THAT(read_ring(redis).faults, IsEmpty());
  EXPECT_EQ(read_ring(redis).users.at("alice").owners, "n1:2");
}

TEST(RedisWarmStartTest, WhoStandsInTheSnapshotOrInTheRingComesBack) {
  const RedisServer redis;
  const TemporaryFolder state;
  const auto start = [&] {
    return Daemon::Options{
        .sets = {"redis.mode=mirror", "redis.url=" + redis.url(), "redis.node=n1",
                 "server.shards=2", "presence.timeout=20s", "snapshot.interval=0s"},
        .state_dir = state.path()};
  };
  {
    Daemon daemon(start());
    Client alice(daemon.port());
    alice.login("alice", "phone");
    ASSERT_TRUE(eventually([&] { return read_ring(redis).users.size() == 1; }));
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
  EXPECT_TRUE(read_ring(redis).users.contains("alice"));
  {
    Daemon daemon(start());  // with alice, from the snapshot
    Client bob(daemon.port());
    bob.login("bob");
    ASSERT_TRUE(eventually([&] { return read_ring(redis).users.contains("bob"); }));
    daemon.signal(SIGKILL);
    daemon.wait();
  }
  const Daemon daemon(start());
  const auto alice = nlohmann::json::parse(daemon.get("/v1/users/alice").body);
  EXPECT_EQ(alice.at("state"), "online");
  EXPECT_EQ(alice.at("sessions").at(0).at("device"), "phone");
  EXPECT_THAT(daemon.get("/v1/users/bob").body, ::testing::HasSubstr("\"online\""));
  EXPECT_TRUE(eventually([&] {
    const Ring ring = read_ring(redis);
    return ring.users.size() == 2 && ring.users.at("alice").owners == "n1:3" &&
           ring.users.at("bob").owners == "n1:3";
  }));
  EXPECT_THAT(read_ring(redis).faults, IsEmpty());
  EXPECT_THAT(read_edges(redis), UnorderedElementsAre("online alice login", "online bob login"));
}

TEST(RedisWarmStartTest, ARedisThatIsNotThereDoesNotHoldUpTheStart) {
  RedisServer redis;
  redis.kill();
  Daemon daemon({.sets = {"redis.mode=mirror", "redis.url=" + redis.url(), "redis.node=n1"}});
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  // Said by a start that has waited as long as it may.
  EXPECT_THAT(daemon.log(), ::testing::Not(::testing::HasSubstr("did not say in time")));
}

}  // namespace
}  // namespace pulsewheel::test

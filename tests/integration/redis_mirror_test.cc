// The daemon keeps the ring in a real Redis equal to its memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/ring_reader.h"
#include "tests/integration/swarm.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Daemon::Options mirroring(const RedisServer& redis, std::vector<std::string> more = {}) {
  std::vector<std::string> sets{"redis.mode=mirror", "redis.url=" + redis.url(), "redis.node=n1",
                                "server.shards=2", "presence.timeout=20s"};
  sets.insert(sets.end(), more.begin(), more.end());
  return {.sets = sets};
}

/// The log has a thread of its own.
bool will_log(const Daemon& daemon, const std::string& text) {
  return eventually([&] { return daemon.log().find(text) != std::string::npos; });
}

TEST(RedisMirrorTest, ALoginIsInTheRingUntilTheLogout) {
  const RedisServer redis;
  const Daemon daemon(mirroring(redis));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
  const Ring ring = read_ring(redis);
  EXPECT_THAT(ring.faults, IsEmpty());
  EXPECT_EQ(ring.users.at("alice").owners, "n1:1");
  EXPECT_GT(ring.users.at("alice").remaining_ms, 15'000);
  EXPECT_LE(ring.users.at("alice").remaining_ms, 20'001);
  alice.send_logout();
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.empty(); }));
  EXPECT_THAT(read_edges(redis), ElementsAre("online alice login", "offline alice logout"));
}

TEST(RedisMirrorTest, AKeepaliveMovesTheDeadline) {
  const RedisServer redis;
  const Daemon daemon(mirroring(redis));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
  const auto first = read_ring(redis).users.at("alice").deadline_ms;
  EXPECT_TRUE(eventually([&] {
    alice.send_keepalive(1);
    return read_ring(redis).users.at("alice").deadline_ms > first + 1'000;
  }));
  EXPECT_THAT(read_ring(redis).faults, IsEmpty());
}

TEST(RedisMirrorTest, ASilentUserLeavesTheRing) {
  const RedisServer redis;
  const Daemon daemon(mirroring(redis, {"presence.timeout=500ms"}));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_TRUE(eventually([&] { return read_edges(redis).size() == 2; }));
  EXPECT_THAT(read_edges(redis), ElementsAre("online alice login", "offline alice timeout"));
  EXPECT_THAT(read_ring(redis).users, IsEmpty());
}

TEST(RedisMirrorTest, UidsMayHoldAnyByte) {
  const RedisServer redis;
  const Daemon daemon(mirroring(redis));
  std::vector<std::string> uids{std::string("\0", 1), "\r\n",     "{}*:/%\"'",
                                "<script>",           "\xff\xfe", std::string(128, 'u'),
                                "n1:1,n2:2"};
  std::vector<Client> clients;
  for (const std::string& uid : uids) {
    clients.emplace_back(daemon.port());
    clients.back().login(uid);
  }
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.size() == uids.size(); }));
  const Ring ring = read_ring(redis);
  EXPECT_THAT(ring.faults, IsEmpty());
  for (const std::string& uid : uids)
    EXPECT_TRUE(ring.users.contains(uid));
}

TEST(RedisMirrorTest, AStopWithoutASnapshotLeavesNobodyBehind) {
  const RedisServer redis;
  Daemon daemon(mirroring(redis, {"snapshot.enabled=false"}));
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("u", 500));
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.size() == 500; }));
  daemon.signal(SIGTERM);
  swarm.drive(std::chrono::milliseconds{500});
  EXPECT_EQ(daemon.wait(), 0);
  const Ring ring = read_ring(redis);
  EXPECT_THAT(ring.users, IsEmpty());
  EXPECT_THAT(ring.faults, IsEmpty());
  EXPECT_EQ(redis.command({"EXISTS", "pulsewheel:node:n1"}).integer, 0);
}

TEST(RedisMirrorTest, ServesWithoutRedisAndJoinsItLater) {
  RedisServer redis;
  redis.kill();
  const Daemon daemon(mirroring(redis));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_EQ(daemon.metric("pulsewheel_redis_up"), 0);
  redis.start();
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
  EXPECT_EQ(daemon.metric("pulsewheel_redis_up"), 1);
  EXPECT_THAT(read_edges(redis), ElementsAre("online alice login"));
}

TEST(RedisMirrorTest, ALookUpOfTheHostThatHangsHoldsUpNeitherTheStartNorTheEnd) {
  Daemon daemon({.sets = {"redis.mode=mirror", "redis.url=redis://redis.example:6379"},
                 .in_child = [] { preload_in_child(PULSEWHEEL_HANGING_RESOLVER_SHIM); }});
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_EQ(daemon.metric("pulsewheel_redis_up"), 0);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);  // ctest ends what hangs
}

TEST(RedisMirrorTest, ARingOfAnotherLengthIsLeftAlone) {
  const RedisServer redis;
  redis.command({"RPUSH", "testlist", "a", "b", "c"});
  const Daemon daemon(mirroring(redis));
  EXPECT_TRUE(eventually([&] { return daemon.metric("pulsewheel_redis_refused") == 1; }));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_TRUE(will_log(daemon, "has 3 slots and 32 are configured")) << daemon.log();
  EXPECT_EQ(redis.command({"DBSIZE"}).integer, 1);
}

TEST(RedisMirrorTest, AnExistingRingIsUsedAsFound) {
  const RedisServer redis;
  std::vector<std::string> push{"RPUSH", "testlist"};
  for (int i = 0; i < 32; ++i)
    push.push_back("place " + std::to_string(31 - i));
  redis.command(push);
  const Daemon daemon(mirroring(redis));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
  const Ring ring = read_ring(redis);
  EXPECT_THAT(ring.faults, IsEmpty());
  EXPECT_THAT(ring.users.at("alice").slot, HasSubstr("place "));
}

TEST(RedisMirrorTest, AKeyOfAnotherTypeIsLeftAloneUntilItIsGone) {
  const RedisServer redis;
  redis.command({"SET", "timeline-index", "somebody's"});
  const Daemon daemon(mirroring(redis));
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_TRUE(eventually([&] {
    return daemon.metric("pulsewheel_redis_error_replies_total{kind=\"wrongtype\"}") > 0;
  }));
  EXPECT_TRUE(will_log(daemon, "timeline-index")) << daemon.log();
  EXPECT_EQ(redis.command({"GET", "timeline-index"}).text, "somebody's");
  redis.command({"DEL", "timeline-index"});
  EXPECT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
}

TEST(RedisMirrorTest, ANameInUseEndsTheSecondNode) {
  const RedisServer redis;
  const Daemon first(mirroring(redis));
  EXPECT_TRUE(eventually([&] { return first.metric("pulsewheel_redis_joined") == 1; }));
  // Another epoch: its second start.
  const TemporaryFolder folder;
  {
    Daemon::Options options;
    options.state_dir = folder.path();
    Daemon(std::move(options)).signal(SIGKILL);
  }
  Daemon::Options options = mirroring(redis);
  options.state_dir = folder.path();
  Daemon second(std::move(options));
  EXPECT_EQ(second.wait(), 69);
  EXPECT_THAT(second.log(), HasSubstr("is in use by epoch 1"));
  EXPECT_EQ(first.metric("pulsewheel_redis_joined"), 1);
}

TEST(RedisMirrorTest, ANewPasswordWorksAfterAReload) {
  const RedisServer redis({.arguments = {"--requirepass", "first"}});
  const TemporaryFolder folder;
  write_file(folder / "password", "first\n");
  const std::string config =
      std::string(Daemon::kQuickConfig) + "[redis]\nmode = \"mirror\"\nurl = \"" + redis.url() +
      "\"\nnode = \"n1\"\npassword_file = \"" + (folder / "password") + "\"\n";
  const Daemon daemon({.config = config});
  EXPECT_TRUE(eventually([&] { return daemon.metric("pulsewheel_redis_joined") == 1; }));
  RedisConsole console(redis);
  console.command({"CONFIG", "SET", "requirepass", "second"});
  console.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  EXPECT_TRUE(eventually([&] {
    return daemon.metric("pulsewheel_redis_error_replies_total{kind=\"wrongpass\"}") > 0;
  }));
  EXPECT_THAT(daemon.log(), testing::Not(HasSubstr("first")));
  write_file(folder / "password", "second\n");
  EXPECT_TRUE(daemon.reload(config));
  EXPECT_TRUE(
      eventually([&] { return daemon.metric("pulsewheel_redis_joined") == 1; }, seconds{10}));
}

TEST(RedisMirrorTest, ScriptsThatRedisSeesForTheFirstTimeAreNoTrouble) {
  const RedisServer redis;
  const Daemon daemon(mirroring(redis));
  Client alice(daemon.port());
  alice.login("alice");
  ASSERT_TRUE(eventually([&] { return read_ring(redis).users.contains("alice"); }));
  EXPECT_GT(daemon.metric("pulsewheel_redis_scripts_resent_total"), 0);
  EXPECT_EQ(daemon.metric("pulsewheel_redis_error_replies_total"), 0);
  EXPECT_THAT(daemon.log(), testing::Not(HasSubstr(" warn redis")));
}

}  // namespace
}  // namespace pulsewheel::test

// A daemon that ends and starts again: who comes back in time has never been away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "daemon/base/percent.h"
#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/shifted_wall_clock.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::size_t kUsers = 200;

Json user_of(const Daemon& daemon, const std::string& uid) {
  return Json::parse(daemon.get("/v1/users/" + percent_encode(uid)).body);
}

/// In a child that then is the only process to see a small tmpfs there, over what was there.
void mount_small_disk(const std::string& path) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", path.c_str(), "tmpfs", 0, "size=64k") != 0) {
    ::_exit(126);
  }
}

class RestartTest : public ::testing::Test {
 protected:
  /// One run of the node. What `sets` says wins.
  Daemon::Options options(std::vector<std::string> sets = {}) {
    std::vector<std::string> all{"presence.timeout=30s", "restart.grace=20s", "server.shards=2",
                                 "snapshot.interval=100ms"};
    all.insert(all.end(), sets.begin(), sets.end());
    return {.sets = std::move(all), .state_dir = state_dir()};
  }
  [[nodiscard]] std::string state_dir() const { return folder_ / "state"; }
  [[nodiscard]] std::string snapshot() const { return state_dir() + "/snapshot"; }

  static bool is_draining_or_gone(const Daemon& daemon) {
    try {
      return daemon.get("/readyz").status == 503;
    } catch (const std::runtime_error&) {
      return true;
    }
  }
  /// The clients of these tests do not go when they are told to: the second signal is for them.
  static void stop(Daemon& daemon) {
    daemon.signal(SIGTERM);
    EXPECT_TRUE(eventually([&] { return is_draining_or_gone(daemon); })) << daemon.log();
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  }
  /// The log has a thread of its own.
  static void expect_logged(const Daemon& daemon, const std::string& text) {
    EXPECT_TRUE(eventually([&] { return daemon.log().find(text) != std::string::npos; }))
        << text << " is not in: " << daemon.log();
  }
  static void kill(Daemon& daemon) {
    daemon.signal(SIGKILL);
    daemon.wait();
  }
  static double written(const Daemon& daemon) {
    return daemon.metric("pulsewheel_snapshot_writes_total");
  }
  static void keep_alive(Client& client) {
    client.send_keepalive();
    client.expect(proto::FrameType::kKeepaliveAck);
  }
  /// Until everything that has happened so far is in a snapshot: the first one may have begun
  /// before, the second one has not. `happen` lets something happen that is to be written down.
  template <class Happen>
  static void wait_for_snapshot(const Daemon& daemon, Happen happen) {
    const double before = written(daemon);
    ASSERT_TRUE(eventually([&] {
      happen();
      return written(daemon) >= before + 2;
    }));
  }

  const TemporaryFolder folder_;
};

// --- A stop in order ----------------------------------------------------------------------------

TEST_F(RestartTest, WhoComesBackAfterAStopMakesNoEdgeAndTheNumbersGoOn) {
  {
    Daemon daemon(options());
    Swarm swarm(daemon.port());
    ASSERT_TRUE(swarm.add_users("user", kUsers));
    daemon.signal(SIGTERM);
    swarm.drive(milliseconds{400});
    EXPECT_EQ(daemon.wait(), 0);
    EXPECT_EQ(daemon.edges().size(), kUsers);
  }
  const Daemon daemon(options({"server.shards=3"}));
  EXPECT_EQ(daemon.metric("pulsewheel_snapshot_restored_users{state=\"online\"}"), kUsers);
  EXPECT_EQ(user_of(daemon, "user-0").at("state"), "online");
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", kUsers));
  Client client(daemon.port());
  client.login("another");
  const auto edges = daemon.wait_for_edges(kUsers + 1);
  ASSERT_EQ(edges.size(), kUsers + 1);
  EXPECT_EQ(edges.back().at("uid"), "another");
  EXPECT_EQ(edges.back().at("seq"), kUsers + 1);
  EXPECT_EQ(edges.back().at("epoch"), 2);
}

TEST_F(RestartTest, WhoDoesNotComeBackGoesOfflineOnceWithTheTimeOfTheLastPacket) {
  for (const hours jump : {hours{0}, hours{-24}, hours{24}}) {
    const TemporaryFolder folder;
    ShiftedWallClock wall;
    Daemon::Options first = options({"presence.timeout=2s", "restart.grace=1s"});
    first.state_dir = folder / "state";
    first.in_child = [&wall] { wall.adopt_in_child(PULSEWHEEL_WALL_CLOCK_SHIM); };
    const Daemon::Options second = first;
    std::int64_t last_seen = 0;
    {
      Daemon daemon(first);
      Client alice(daemon.port());
      alice.login("alice");
      alice.send_keepalive();
      alice.expect(proto::FrameType::kKeepaliveAck);
      last_seen = user_of(daemon, "alice").at("last_seen_ms");
      stop(daemon);
    }
    wall.jump_to(jump);
    const Daemon daemon(second);
    EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
    const auto edges = daemon.wait_for_edges(2);
    ASSERT_EQ(edges.size(), 2U);
    EXPECT_EQ(edges[1].at("kind"), "offline");
    EXPECT_EQ(edges[1].at("reason"), "disconnect");
    EXPECT_EQ(edges[1].at("seq"), 2);
    // By the wall clock of now, on which the packet came as long ago as it really did.
    const std::int64_t shift = std::chrono::duration_cast<milliseconds>(jump).count();
    const Json user = user_of(daemon, "alice");
    EXPECT_EQ(user.at("state"), "offline");
    EXPECT_NEAR(user.at("last_seen_ms").get<double>(), static_cast<double>(last_seen + shift), 5.0)
        << jump.count();
  }
}

TEST_F(RestartTest, DevicesAndSinceOutliveARestart) {
  Json before;
  {
    Daemon daemon(options());
    Client phone(daemon.port());
    phone.login("alice", "phone");
    Client desk(daemon.port());
    desk.login("alice", "desk");
    before = user_of(daemon, "alice");
    stop(daemon);
  }
  const Daemon daemon(options());
  const Json after = user_of(daemon, "alice");
  EXPECT_NEAR(after.at("since_ms").get<double>(), before.at("since_ms").get<double>(), 2.0);
  ASSERT_EQ(after.at("sessions").size(), 2U);
  EXPECT_EQ(after.at("sessions")[0].at("device"), "phone");
  EXPECT_EQ(after.at("sessions")[1].at("device"), "desk");
  EXPECT_TRUE(after.at("sessions")[1].at("lingering"));

  Client phone(daemon.port());
  EXPECT_EQ(phone.login("alice", "phone").status, proto::LoginStatus::kAccepted);
  phone.send_logout();
  phone.expect(proto::FrameType::kLogoutAck);
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");  // the other one may come yet
  Client desk(daemon.port());
  desk.login("alice", "desk");
  desk.send_logout();
  desk.expect(proto::FrameType::kLogoutAck);
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "logout");
}

TEST_F(RestartTest, OfflineUsersAreRemembered) {
  Json before;
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    alice.send_logout();
    alice.expect(proto::FrameType::kLogoutAck);
    ASSERT_TRUE(eventually([&] { return user_of(daemon, "alice").at("state") == "offline"; }));
    before = user_of(daemon, "alice");
    stop(daemon);
  }
  const Daemon daemon(options());
  const Json after = user_of(daemon, "alice");
  EXPECT_EQ(after.at("state"), "offline");
  EXPECT_NEAR(after.at("since_ms").get<double>(), before.at("since_ms").get<double>(), 2.0);
  EXPECT_NEAR(after.at("last_seen_ms").get<double>(), before.at("last_seen_ms").get<double>(), 2.0);
}

TEST_F(RestartTest, AStopMakesNobodyOfflineWhereTheEndOfAConnectionWould) {
  {
    Daemon daemon(options({"presence.on_disconnect=offline"}));
    Swarm swarm(daemon.port());
    ASSERT_TRUE(swarm.add_users("user", kUsers));
    daemon.signal(SIGTERM);
    swarm.drive(milliseconds{400});
    EXPECT_EQ(daemon.wait(), 0);
    EXPECT_EQ(daemon.edges().size(), kUsers);
  }
  const Daemon daemon(options());
  EXPECT_EQ(daemon.metric("pulsewheel_snapshot_restored_users{state=\"online\"}"), kUsers);
}

TEST_F(RestartTest, AFollowersCursorIsGoodBehindAStop) {
  const auto events_behind = [](const Daemon& daemon, const std::string& cursor) {
    return Json::parse(daemon.get("/v1/events?cursor=" + cursor).body).at("events");
  };
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    ASSERT_TRUE(eventually([&] { return events_behind(daemon, "1-0").size() == 1; }));
    stop(daemon);
  }
  const Daemon daemon(options());
  EXPECT_EQ(events_behind(daemon, "1-1"), Json::array());
  Client bob(daemon.port());
  bob.login("bob");
  ASSERT_TRUE(eventually([&] { return events_behind(daemon, "1-1").size() == 1; }));
  EXPECT_EQ(events_behind(daemon, "1-1")[0].at("uid"), "bob");
  EXPECT_EQ(events_behind(daemon, "1-1")[0].at("seq"), 2);
  EXPECT_TRUE(events_behind(daemon, "1-0")[0].contains("resync"));
}

TEST_F(RestartTest, AStopInAHurryLosesNobody) {
  {
    Daemon daemon(options({"drain.window=10m"}));
    Swarm swarm(daemon.port());
    ASSERT_TRUE(swarm.add_users("user", kUsers));
    daemon.signal(SIGTERM);
    ASSERT_TRUE(eventually([&] { return daemon.get("/readyz").status == 503; }));
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
    EXPECT_EQ(daemon.edges().size(), kUsers);
  }
  const Daemon daemon(options());
  EXPECT_EQ(daemon.metric("pulsewheel_snapshot_restored_users{state=\"online\"}"), kUsers);
}

TEST_F(RestartTest, AStartThatFailsDoesNotUseTheSnapshotUp) {
  const Daemon other;
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    stop(daemon);
  }
  const std::string taken = "listener.0.port=" + std::to_string(other.port());
  EXPECT_EQ(Daemon::run_to_end(options({taken})).exit_code, 69);
  const Daemon daemon(options());
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "offline");
  Client bob(daemon.port());
  bob.login("bob");
  EXPECT_EQ(daemon.wait_for_edges(2).back().at("seq"), 2);
}

// --- A run that is killed -----------------------------------------------------------------------

TEST_F(RestartTest, AfterAKillTheLastSnapshotServesInANewEpoch) {
  {
    Daemon daemon(options());
    Swarm swarm(daemon.port());
    ASSERT_TRUE(swarm.add_users("user", kUsers));
    wait_for_snapshot(daemon, [&] {
      swarm.send_all(proto::encode_keepalive());
      swarm.drive(milliseconds{20});
    });
    kill(daemon);
  }
  const Daemon daemon(options());
  EXPECT_EQ(user_of(daemon, "user-0").at("state"), "online");
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "unknown");
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", kUsers));
  Client client(daemon.port());
  client.login("another");
  const auto edges = daemon.wait_for_edges(kUsers + 1);
  ASSERT_EQ(edges.size(), kUsers + 1);
  EXPECT_EQ(edges.back().at("uid"), "another");
  EXPECT_EQ(edges.back().at("seq"), 1);
  EXPECT_EQ(edges.back().at("epoch"), 2);
}

TEST_F(RestartTest, WhoWasOfflineInTheSnapshotBeforeAKillIsUnknownUntilTheGraceEnds) {
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    alice.send_logout();
    alice.expect(proto::FrameType::kLogoutAck);
    Client bob(daemon.port());  // for whose sake snapshots are written
    bob.login("bob");
    ASSERT_TRUE(eventually([&] { return user_of(daemon, "alice").at("state") == "offline"; }));
    wait_for_snapshot(daemon, [&] { keep_alive(bob); });
    kill(daemon);
  }
  const Daemon daemon(options({"restart.grace=3s"}));
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "unknown");
  EXPECT_TRUE(eventually([&] { return user_of(daemon, "alice").at("state") == "offline"; }));
  EXPECT_FALSE(user_of(daemon, "alice").at("last_seen_ms").is_null());
}

TEST_F(RestartTest, LiveSessionsStandInASnapshotWithTheirLastPacket) {
  std::int64_t last_seen = 0;
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    const std::int64_t login = user_of(daemon, "alice").at("last_seen_ms");
    ASSERT_TRUE(eventually([&] {
      alice.send_keepalive();
      alice.expect(proto::FrameType::kKeepaliveAck);
      last_seen = user_of(daemon, "alice").at("last_seen_ms");
      return last_seen > login + 50;
    }));
    Client bob(daemon.port());
    bob.login("bob");
    wait_for_snapshot(daemon, [&] { keep_alive(bob); });
    kill(daemon);
  }
  const Daemon daemon(options());
  EXPECT_NEAR(user_of(daemon, "alice").at("last_seen_ms").get<double>(),
              static_cast<double>(last_seen), 2.0);
}

// --- Snapshots that are no good -----------------------------------------------------------------

TEST_F(RestartTest, ADamagedSnapshotIsSetAsideAndTheStartGoesOn) {
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    stop(daemon);
  }
  const std::string good = read_file(snapshot());
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() / 2), good + "x", std::string(10'000, '\xff'),
        good.substr(0, 11) + "\x63" + good.substr(12)}) {
    write_file(snapshot(), bad);
    Daemon daemon(options());
    expect_logged(daemon, snapshot() + "' cannot be used: ");
    EXPECT_EQ(read_file(snapshot() + ".bad"), bad);
    EXPECT_FALSE(fs::exists(snapshot()));
    EXPECT_EQ(user_of(daemon, "alice").at("state"), "unknown");
    stop(daemon);
  }
}

TEST_F(RestartTest, TheSnapshotOfAnotherNodeIsSetAside) {
  const TemporaryFolder other;
  Daemon::Options first = options();
  first.state_dir = other / "state";
  {
    Daemon daemon(first);
    Client alice(daemon.port());
    alice.login("alice");
    stop(daemon);
  }
  { Daemon(options()).signal(SIGTERM); }
  fs::copy_file(other / "state/snapshot", snapshot(), fs::copy_options::overwrite_existing);
  const Daemon daemon(options());
  expect_logged(daemon, "it is of another state folder");
  EXPECT_NE(user_of(daemon, "alice").at("state"), "online");
}

// --- Switched off, and in trouble ---------------------------------------------------------------

TEST_F(RestartTest, WithoutSnapshotsAStopMakesEverybodyOffline) {
  Daemon daemon(options({"snapshot.enabled=false"}));
  Client alice(daemon.port());
  alice.login("alice");
  stop(daemon);
  const auto edges = daemon.edges();
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "shutdown");
  EXPECT_FALSE(fs::exists(snapshot()));
}

TEST_F(RestartTest, ASnapshotFromBeforeTheyWereSwitchedOffIsUsedOnce) {
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    stop(daemon);
  }
  Daemon daemon(options({"snapshot.enabled=false"}));
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
  // Whoever is asked already serves, and the start goes on beside that.
  EXPECT_TRUE(eventually([&] { return !fs::exists(snapshot()); }));
  stop(daemon);
  EXPECT_EQ(daemon.edges().back().at("reason"), "shutdown");
}

TEST_F(RestartTest, AWriteThatFailsIsCountedAndTheOldSnapshotStays) {
  Daemon daemon(options());
  Client alice(daemon.port());
  alice.login("alice");
  wait_for_snapshot(daemon, [&] { keep_alive(alice); });
  fs::create_directory(snapshot() + ".tmp");  // no file can be written under that name
  alice.send_keepalive();
  ASSERT_TRUE(eventually([&] { return daemon.metric("pulsewheel_snapshot_failures_total") >= 1; }));
  expect_logged(daemon, "no snapshot was written, the one before it stays");
  EXPECT_TRUE(fs::exists(snapshot()));
  const double before = written(daemon);
  fs::remove(snapshot() + ".tmp");
  EXPECT_TRUE(eventually([&] {
    keep_alive(alice);
    return written(daemon) > before;
  }));
}

TEST_F(RestartTest, AFullDiskLeavesPresenceAloneAndIsCounted) {
  const std::string state_dir = folder_.path();
  Daemon daemon(
      {.sets = {"snapshot.interval=100ms", "presence.timeout=30s", "events.enabled=false"},
       .state_dir = state_dir,
       .in_child = [&] { mount_small_disk(state_dir); }});
  std::vector<Client> clients;
  const std::string padding(100, 'x');
  while (daemon.metric("pulsewheel_snapshot_failures_total") == 0) {
    ASSERT_LT(clients.size(), 900U);
    clients.emplace_back(daemon.port());
    clients.back().login(padding + std::to_string(clients.size()));
  }
  EXPECT_GE(daemon.metric("pulsewheel_snapshot_writes_total"), 1.0);
  clients.front().send_keepalive();
  clients.front().expect(proto::FrameType::kKeepaliveAck);
  expect_logged(daemon, "No space left on device");
  clients.clear();
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
}

TEST_F(RestartTest, AStopThatCannotWriteIsTakenForACrash) {
  {
    Daemon daemon(options());
    Client alice(daemon.port());
    alice.login("alice");
    wait_for_snapshot(daemon, [&] { keep_alive(alice); });
    fs::create_directory(snapshot() + ".tmp");
    stop(daemon);
    EXPECT_EQ(daemon.edges().size(), 1U);
    EXPECT_THAT(daemon.log(), HasSubstr("the next start will take this one for a crash"));
  }
  fs::remove(snapshot() + ".tmp");
  const Daemon daemon(options());
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "unknown");
}

TEST_F(RestartTest, AStopThatCanKeepNobodyTellsThemAll) {
  Daemon daemon(options({"snapshot.interval=0s"}));
  Client alice(daemon.port());
  alice.login("alice");
  fs::create_directory(snapshot() + ".tmp");
  stop(daemon);
  EXPECT_EQ(daemon.edges().back().at("reason"), "shutdown");
}

TEST_F(RestartTest, NothingIsWrittenWhereNothingHappens) {
  const Daemon daemon(options());
  {
    Client alice(daemon.port());
    alice.login("alice");
    alice.send_logout();
    alice.expect(proto::FrameType::kLogoutAck);
  }
  ASSERT_TRUE(eventually([&] {  // several times as long as there is between two
    const double before = written(daemon);
    ::usleep(400'000);
    return before > 0 && written(daemon) == before;
  }));
  EXPECT_EQ(daemon.metric("pulsewheel_snapshot_users"), 1.0);
}

TEST_F(RestartTest, AReloadChangesTheInterval) {
  Daemon::Options slow = options();
  slow.config = std::string(Daemon::kQuickConfig) + "snapshot.interval = \"24h\"\n";
  slow.sets = {};
  const Daemon daemon(slow);
  Client alice(daemon.port());
  alice.login("alice");
  EXPECT_EQ(written(daemon), 0.0);
  ASSERT_TRUE(daemon.reload(std::string(Daemon::kQuickConfig) + "snapshot.interval = \"100ms\"\n"));
  EXPECT_TRUE(eventually([&] { return written(daemon) >= 1.0; }));
}

}  // namespace
}  // namespace pulsewheel::test

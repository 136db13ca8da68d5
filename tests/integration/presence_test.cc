// Who is online, seen from outside: sockets in, event log and HTTP out.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/percent.h"
#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string state_of(const Daemon& daemon, const std::string& uid) {
  return nlohmann::json::parse(daemon.get("/v1/users/" + percent_encode(uid)).body).at("state");
}

TEST(PresenceTest, LoginAndLogoutMakeOneEdgeEach) {
  const Daemon daemon;
  Client client(daemon.port());
  client.login("alice");
  EXPECT_EQ(state_of(daemon, "alice"), "online");
  client.send_logout();
  client.expect(proto::FrameType::kLogoutAck);
  EXPECT_TRUE(client.at_end());

  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[0].at("kind"), "online");
  EXPECT_EQ(edges[0].at("reason"), "login");
  EXPECT_EQ(edges[0].at("sessions"), 1);
  EXPECT_EQ(edges[0].at("seq"), 1);
  EXPECT_EQ(edges[1].at("kind"), "offline");
  EXPECT_EQ(edges[1].at("reason"), "logout");
  EXPECT_EQ(edges[1].at("sessions"), 0);
  EXPECT_EQ(edges[1].at("seq"), 2);
  EXPECT_EQ(state_of(daemon, "alice"), "offline");
}

TEST(PresenceTest, SilenceIsOfflineNeverEarly) {
  const Daemon daemon({.sets = {"presence.timeout=2s"}});
  Client client(daemon.port());
  const auto ack = client.login("alice");
  EXPECT_EQ(ack.timeout_ms, 2'000U);
  client.send_keepalive();
  client.expect(proto::FrameType::kKeepaliveAck);
  const auto before_last = Client::Clock::now();
  client.send_message(7, "hello");
  client.expect(proto::FrameType::kMessageAck);

  EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kTimeout);
  EXPECT_GE(Client::Clock::now() - before_last, seconds{2});
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "timeout");
  EXPECT_GE(daemon.metric("pulsewheel_expiry_lateness_min_seconds "), 0.0);
}

TEST(PresenceTest, KeepalivesKeepAUserOnline) {
  const Daemon daemon({.sets = {"presence.timeout=2s"}});
  Client client(daemon.port());
  client.login("alice");
  const auto end = Client::Clock::now() + milliseconds{4'500};
  while (Client::Clock::now() < end) {  // paced by the round trips
    client.send_keepalive();
    client.expect(proto::FrameType::kKeepaliveAck);
  }
  EXPECT_EQ(daemon.wait_for_edges(1).size(), 1U);
  EXPECT_EQ(state_of(daemon, "alice"), "online");
}

TEST(PresenceTest, WishIsClampedAndTheAnswerSaysWhatHolds) {
  const Daemon daemon(
      {.sets = {"presence.timeout=1s", "presence.timeout_min=500ms", "presence.timeout_max=2s"}});
  Client shorter(daemon.port());
  EXPECT_EQ(shorter.login("a", {}, 1).timeout_ms, 500U);
  Client longer(daemon.port());
  const auto ack = longer.login("b", {}, 3'600'000);
  EXPECT_EQ(ack.timeout_ms, 2'000U);
  EXPECT_LT(ack.interval_ms * 3 / 2, 2'001U);
  Client exact(daemon.port());
  EXPECT_EQ(exact.login("c", {}, 1'000).timeout_ms, 1'500U);
}

TEST(PresenceTest, ReconnectWithinTheLingerMakesNoEdge) {
  const Daemon daemon({.sets = {"server.shards=4", "presence.timeout=2s"}});
  for (int i = 0; i < 20; ++i) {  // whichever shards the kernel picks
    Client client(daemon.port());
    client.login("alice");
    if (i % 2 == 0) client.reset();
  }
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "disconnect");
  EXPECT_GE(daemon.metric("pulsewheel_fences_total"), 1.0);
  EXPECT_GE(daemon.metric("pulsewheel_expiry_lateness_min_seconds "), 0.0);
}

TEST(PresenceTest, DisconnectIsOfflineAtOnceWhereConfigured) {
  const Daemon daemon({.sets = {"presence.on_disconnect=offline", "presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice");
  client.close();
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "disconnect");
}

TEST(PresenceTest, TwoSessionsOfOneUserMakeOneEdge) {
  const Daemon daemon({.sets = {"server.shards=4", "presence.timeout=2s"}});
  std::vector<Client> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("alice", "device-" + std::to_string(i));
  }
  for (Client& client : clients)
    EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kTimeout);
  EXPECT_EQ(daemon.wait_for_edges(2).size(), 2U);
  EXPECT_EQ(state_of(daemon, "alice"), "offline");
}

TEST(PresenceTest, NewerLoginOfADeviceTakesOver) {
  const Daemon daemon({.sets = {"server.shards=4", "presence.timeout=30s"}});
  Client old_one(daemon.port());
  EXPECT_EQ(old_one.login("alice", "phone").status, proto::LoginStatus::kAccepted);
  Client new_one(daemon.port());
  EXPECT_EQ(new_one.login("alice", "phone").status, proto::LoginStatus::kTookOver);
  EXPECT_EQ(old_one.expect_goaway().reason, proto::GoawayReason::kTakenOver);
  old_one.reset();
  new_one.send_keepalive();
  new_one.expect(proto::FrameType::kKeepaliveAck);
  EXPECT_EQ(state_of(daemon, "alice"), "online");
  new_one.send_logout();
  new_one.expect(proto::FrameType::kLogoutAck);
  EXPECT_EQ(daemon.wait_for_edges(2).size(), 2U);
}

TEST(PresenceTest, AnyBytesOfAUidComeBackExact) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  const std::vector<std::string> uids{std::string("\0", 1),
                                      "a\r\nb",
                                      "100%",
                                      "{}*:/?#[]",
                                      "\"'<script>\\",
                                      "\xff\xfe",
                                      "\xe2\x80\xae"
                                      "abc",
                                      std::string(128, '\x80'),
                                      "%41",
                                      "plain"};
  std::vector<Client> clients;
  for (const std::string& uid : uids) {
    clients.emplace_back(daemon.port());
    clients.back().login(uid);
    EXPECT_EQ(state_of(daemon, uid), "online") << percent_encode(uid);
  }
  std::set<std::string> logged;
  for (const auto& edge : daemon.wait_for_edges(uids.size()))
    logged.insert(edge.at("uid"));
  for (const std::string& uid : uids)
    EXPECT_TRUE(logged.contains(percent_encode(uid)));
}

TEST(PresenceTest, EpochGrowsWithEveryStart) {
  const TemporaryFolder state;
  for (int start = 1; start <= 2; ++start) {
    Daemon daemon({.state_dir = state / "state"});
    Client client(daemon.port());
    client.login("user-" + std::to_string(start));  // those before are kept through the restart
    EXPECT_EQ(daemon.wait_for_edges(static_cast<std::size_t>(start)).back().at("epoch"), start);
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
}

TEST(PresenceTest, OfflineEdgesGoToAFileOfTheirOwnWhereConfigured) {
  const TemporaryFolder folder;
  const Daemon daemon({.sets = {"events.path=" + (folder / "online.txt"),
                                "events.offline_path=" + (folder / "offline.txt")}});
  Client client(daemon.port());
  client.login("alice");
  client.send_logout();
  client.expect(proto::FrameType::kLogoutAck);
  ASSERT_TRUE(eventually([&] {  // each file has a thread of its own
    return !read_file(folder / "offline.txt").empty() && !read_file(folder / "online.txt").empty();
  }));
  EXPECT_NE(read_file(folder / "online.txt").find("\"online\""), std::string::npos);
  EXPECT_EQ(read_file(folder / "online.txt").find("\"offline\""), std::string::npos);
  EXPECT_NE(read_file(folder / "offline.txt").find("\"logout\""), std::string::npos);
}

// The daemon stands still for longer than the timeout. Who kept sending stays online, although
// every deadline had passed; who was silent goes offline once the daemon runs again.
TEST(PresenceTest, AStallMakesNobodyOfflineWhoKeptSending) {
  // A tick of a second: no other delay than the stall below is as long, and counts as one.
  const Daemon daemon({.sets = {"server.shards=2", "presence.tick=1s", "presence.timeout_min=1s",
                                "presence.timeout=2s"}});
  std::vector<Client> talking;
  for (int i = 0; i < 20; ++i) {
    talking.emplace_back(daemon.port());
    talking.back().login("talks-" + std::to_string(i));
  }
  Client silent(daemon.port());
  silent.login("silent");
  daemon.signal(SIGSTOP);
  const auto end = Client::Clock::now() + milliseconds{4'500};
  while (Client::Clock::now() < end)
    std::this_thread::yield();  // the stall itself
  for (Client& client : talking)
    client.send_keepalive(proto::kNoReply);
  daemon.signal(SIGCONT);

  EXPECT_EQ(silent.expect_goaway().reason, proto::GoawayReason::kTimeout);
  for (Client& client : talking) {
    client.send_keepalive();
    client.expect(proto::FrameType::kKeepaliveAck);
  }
  const auto edges = daemon.wait_for_edges(22);
  ASSERT_EQ(edges.size(), 22U);
  EXPECT_EQ(edges.back().at("uid"), "silent");
  EXPECT_GE(daemon.metric("pulsewheel_stalls_total"), 1.0);
  EXPECT_LE(daemon.metric("pulsewheel_stalls_total"), 2.0);  // once for each shard
}

}  // namespace
}  // namespace pulsewheel::test

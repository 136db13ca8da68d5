// Many at once: the end of thousands, their return, a race for one device, one tick on two shards.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(MassExpiryFault, EachOfThousandsIsOfflineOnce) {
  constexpr std::size_t kUsers = 2'000;
  const Daemon daemon({.sets = fault_sets({"server.shards=2"})});
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", kUsers));
  send_last_packets_together(daemon, swarm);
  ASSERT_TRUE(swarm.drive_until([&] { return swarm.totals().ended == kUsers; }));
  EXPECT_EQ(swarm.totals().goaways, kUsers);
  EXPECT_EQ(wait_for_edge_count(daemon, {kUsers, kUsers}), (EdgeCount{kUsers, kUsers}));
  for (const auto& [uid, count] : count_edges(daemon))
    ASSERT_EQ(count, (EdgeCount{1, 1})) << uid;
  EXPECT_EQ(daemon.metric("pulsewheel_edges_total{kind=\"offline\",reason=\"timeout\""), kUsers);
  EXPECT_TRUE(eventually([&] {  // gauges follow at the end of a round
    return daemon.metric("pulsewheel_users{state=\"online\"") == 0;
  }));
  EXPECT_GE(daemon.metric("pulsewheel_expiry_lateness_min_seconds "), 0.0);
}

TEST(ReconnectStormFault, EveryClientAtOnceAndBackMakesNoEdge) {
  constexpr std::size_t kUsers = 1'000;
  constexpr std::size_t kBystanders = 100;
  const Daemon daemon({.sets = fault_sets({"server.shards=2"})});
  Swarm bystanders(daemon.port());
  ASSERT_TRUE(bystanders.add_users("bystander", kBystanders));
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", kUsers));

  ASSERT_TRUE(reset_and_log_in_again(swarm, "user", kUsers));
  const auto keepalive = proto::encode_keepalive(proto::kNoReply);
  const auto end = Swarm::Clock::now() + kTimeout + seconds{1};
  while (Swarm::Clock::now() < end) {  // until the old sessions' deadlines are over
    bystanders.send_all(keepalive);
    for (std::size_t i = 0; i < kUsers; ++i)
      if (swarm.at(i).session_id != 0) swarm.send(i, keepalive);
    swarm.drive(milliseconds{500});
  }
  EXPECT_EQ(swarm.totals().logged_in, 2 * kUsers);
  EXPECT_EQ(swarm.totals().ended + bystanders.totals().ended, 0U);
  EXPECT_EQ(wait_for_edge_count(daemon, {kUsers + kBystanders, 0}),
            (EdgeCount{kUsers + kBystanders, 0}));
  EXPECT_EQ(daemon.metric("pulsewheel_users{state=\"lingering\""), 0.0);
}

TEST(DoubleLoginFault, OfAHundredRacersTheNewestWinsAndLateClosesChangeNothing) {
  constexpr std::size_t kRacers = 100;
  const Daemon daemon({.sets = fault_sets({"server.shards=4"})});
  Swarm racers(daemon.port());
  racers.add(kRacers);
  ASSERT_TRUE(racers.all_connected());
  for (std::size_t i = 0; i < kRacers; ++i)
    racers.send_login(i, "alice", "phone");
  ASSERT_TRUE(racers.drive_until([&] {
    return racers.totals().logged_in == kRacers && racers.totals().ended == kRacers - 1;
  }));

  const auto& peers = racers.peers();
  const auto newest =
      std::max_element(peers.begin(), peers.end(),
                       [](const Peer& a, const Peer& b) { return a.session_id < b.session_id; });
  const auto winner = static_cast<std::size_t>(newest - peers.begin());
  EXPECT_FALSE(newest->ended);
  for (std::size_t i = 0; i < kRacers; ++i) {
    if (i == winner) continue;
    EXPECT_EQ(racers.at(i).goaway, proto::GoawayReason::kTakenOver);
    racers.send(i, proto::kLogout);  // late, and nobody listens
    i % 2 == 0 ? racers.close(i) : racers.reset(i);
  }
  const auto end = Swarm::Clock::now() + kTimeout + seconds{1};
  while (Swarm::Clock::now() < end) {  // past the old sessions' deadlines
    racers.send(winner, proto::encode_keepalive(0));
    racers.drive(milliseconds{200});
  }
  EXPECT_GT(racers.at(winner).acks, 0U);
  EXPECT_EQ(wait_for_edge_count(daemon, {1, 0}), (EdgeCount{1, 0}));
  EXPECT_EQ(user(daemon, "alice").at("sessions").size(), 1U);
}

/// Connects devices of `uid` until two sessions are on different shards; closes none.
void spread_over_shards(const Daemon& daemon, Swarm& swarm, const std::string& uid) {
  for (int device = 0; device < 12; ++device) {  // 2^-11: all on one of the two
    const std::size_t i = swarm.size();
    swarm.add(1);
    ASSERT_TRUE(swarm.all_connected());
    swarm.send_login(i, uid, "device-" + std::to_string(device));
    ASSERT_TRUE(swarm.drive_until([&] { return swarm.at(i).session_id != 0; }));
    const auto sessions = user(daemon, uid).at("sessions");
    for (const auto& session : sessions)
      if (session.at("shard") != sessions[0].at("shard")) return;
  }
  FAIL() << "twelve connections on one shard";
}

TEST(TwoShardsFault, UsersWhoExpireOnBothInOneTickAreOfflineOnce) {
  constexpr std::size_t kUsers = 20;
  const Daemon daemon({.sets = fault_sets({"server.shards=2"})});
  Swarm swarm(daemon.port());
  for (std::size_t i = 0; i < kUsers; ++i) {
    ASSERT_NO_FATAL_FAILURE(spread_over_shards(daemon, swarm, "user-" + std::to_string(i)));
    swarm.send_all(proto::encode_keepalive(proto::kNoReply));
  }
  send_last_packets_together(daemon, swarm);
  ASSERT_TRUE(swarm.drive_until([&] { return swarm.totals().ended == swarm.size(); }));
  EXPECT_EQ(wait_for_edge_count(daemon, {kUsers, kUsers}), (EdgeCount{kUsers, kUsers}));
  for (const auto& [uid, count] : count_edges(daemon))
    EXPECT_EQ(count, (EdgeCount{1, 1})) << uid;
}

}  // namespace
}  // namespace pulsewheel::test

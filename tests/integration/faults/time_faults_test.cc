// Time that jumps, and time in which the daemon does not run.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <ostream>
#include <string>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/shifted_wall_clock.h"

namespace pulsewheel::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

double wall_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Jump {
  const char* name;
  hours by;
};
void PrintTo(const Jump& jump, std::ostream* out) {
  *out << jump.name;
}

class ClockJumpFault : public ::testing::TestWithParam<Jump> {};

TEST_P(ClockJumpFault, NobodyIsOfflineEarlyOrLateAndEdgesFollowTheWall) {
  constexpr double kMuchLessThanAJump = 60;  // seconds: far more than any machine is slow
  ShiftedWallClock wall;
  const Daemon daemon({.sets = fault_sets({"server.shards=2"}),
                       .in_child = [&wall] { wall.adopt_in_child(PULSEWHEEL_WALL_CLOCK_SHIM); }});
  Swarm talking(daemon.port());
  ASSERT_TRUE(talking.add_users("talking", 10));
  Swarm silent(daemon.port());
  ASSERT_TRUE(silent.add_users("silent", 10));
  ASSERT_EQ(daemon.wait_for_edges(20).size(), 20U);
  wall.jump_to(GetParam().by);

  const auto shift = std::chrono::duration<double>(GetParam().by).count();
  while (silent.totals().ended < silent.size()) {
    talking.send_all(proto::encode_keepalive(proto::kNoReply));
    talking.drive(milliseconds{50});
    silent.drive(milliseconds{50});
  }
  for (const Peer& peer : silent.peers())
    EXPECT_GE(peer.ended_at - peer.began, kTimeout);
  const auto edges = daemon.wait_for_edges(30);
  ASSERT_EQ(edges.size(), 30U);
  for (std::size_t i = 20; i < edges.size(); ++i) {
    EXPECT_EQ(edges[i].at("uid").get<std::string>().rfind("silent", 0), 0U);
    EXPECT_EQ(edges[i].at("reason"), "timeout");
    EXPECT_GE(silence_of(edges[i]), to_seconds(kTimeout));
    EXPECT_LT(silence_of(edges[i]), kMuchLessThanAJump);
    EXPECT_NEAR(wall_seconds(edges[i], "at"), wall_now() + shift, kMuchLessThanAJump);
  }
  EXPECT_EQ(talking.totals().ended, 0U);
  EXPECT_TRUE(eventually(  // gauges follow at the end of a round
      [&] { return daemon.metric("pulsewheel_users{state=\"online\"") == 10; }));
  EXPECT_GE(daemon.metric("pulsewheel_expiry_lateness_min_seconds "), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Jumps, ClockJumpFault,
                         ::testing::Values(Jump{"AnHourOn", hours{1}},
                                           Jump{"AnHourBack", hours{-1}}, Jump{"ADayOn", hours{24}},
                                           Jump{"ADayBack", hours{-24}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(StallFault, NobodyWhoKeptSendingIsOfflineAndTheSilentAreOnce) {
  constexpr std::size_t kTalking = 300;
  constexpr std::size_t kSilent = 30;
  constexpr std::size_t kSeconds = kTimeout.count() + 3;  // two ticks late at least
  // A tick of a second: no other delay than the stall below is as long, and counts as one.
  const Daemon daemon({.sets = fault_sets({"server.shards=1", "presence.tick=1s"})});
  Swarm talking(daemon.port());
  ASSERT_TRUE(talking.add_users("talking", kTalking));
  Swarm silent(daemon.port());
  ASSERT_TRUE(silent.add_users("silent", kSilent));
  const double stalls_before = daemon.metric("pulsewheel_stalls_total");

  const auto keepalive = proto::encode_keepalive(0);
  daemon.signal(SIGSTOP);
  for (std::size_t second = 0; second < kSeconds; ++second) {
    talking.send_all(keepalive);
    talking.drive(seconds{1});
  }
  daemon.signal(SIGCONT);
  ASSERT_TRUE(silent.drive_until([&] { return silent.totals().ended == kSilent; }));
  talking.send_all(keepalive);
  EXPECT_TRUE(
      talking.drive_until([&] { return talking.totals().acks == (kSeconds + 1) * kTalking; }));

  EXPECT_EQ(silent.totals().goaways, kSilent);
  EXPECT_EQ(talking.totals().ended, 0U);
  EXPECT_EQ(wait_for_edge_count(daemon, {kTalking + kSilent, kSilent}),
            (EdgeCount{kTalking + kSilent, kSilent}));
  for (const auto& [uid, count] : count_edges(daemon))
    EXPECT_EQ(count.offline, uid.rfind("silent", 0) == 0 ? 1U : 0U) << uid;
  EXPECT_EQ(daemon.metric("pulsewheel_stalls_total") - stalls_before, 1.0);
}

// The other side of a stall: clients that connect, log in and leave while nobody accepts.
TEST(StallFault, WhoLogsInDuringAStallIsServedAfterIt) {
  constexpr std::size_t kClients = 200;
  const Daemon daemon({.sets = fault_sets()});
  Swarm before(daemon.port());
  ASSERT_TRUE(before.add_users("user", kClients));
  daemon.signal(SIGSTOP);
  before.reset_all();
  Swarm again(daemon.port());
  again.add(kClients);
  ASSERT_TRUE(again.all_connected());  // by the kernel
  for (std::size_t i = 0; i < kClients; ++i)
    again.send_login(i, "user-" + std::to_string(i));
  again.drive(kTimeout + seconds{1});
  daemon.signal(SIGCONT);
  ASSERT_TRUE(again.drive_until([&] { return again.totals().logged_in == kClients; }));
  again.send_all(proto::encode_keepalive(0));
  ASSERT_TRUE(again.drive_until([&] { return again.totals().acks == kClients; }));
  EXPECT_EQ(wait_for_edge_count(daemon, {kClients, 0}), (EdgeCount{kClients, 0}));
}

}  // namespace
}  // namespace pulsewheel::test

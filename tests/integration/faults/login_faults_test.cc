// Clients that come in wrongly: slowly, halfway, not at all, or gone before the answer.
#include <gtest/gtest.h>

#include <algorithm>
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

constexpr auto kLoginTimeout = seconds{3};

std::vector<std::string> short_login_sets() {
  return fault_sets({kLongTimeout, "server.login_timeout=3s"});
}

bool all_timed_out(const Swarm& swarm, std::size_t count) {
  return swarm.totals().ended == count && swarm.totals().errors == count;
}

TEST(SlowLoginFault, TrickleIsClosedAtTheLoginDeadlineAndNobodyElseIsHeldUp) {
  constexpr std::size_t kSlow = 2'000;
  const Daemon daemon({.sets = short_login_sets()});
  Swarm bystander(daemon.port());
  ASSERT_TRUE(bystander.add_users("bystander", 1));
  Swarm slow(daemon.port());
  slow.add(kSlow);
  ASSERT_TRUE(slow.all_connected());

  const auto login = login_frame("someone-who-types-slowly");
  const auto keepalive = proto::encode_keepalive(0);
  for (std::size_t second = 0; !all_timed_out(slow, kSlow); ++second) {
    ASSERT_LT(second, login.size());
    slow.send_all(std::span(login).subspan(second, 1));
    bystander.send(0, keepalive);
    ASSERT_TRUE(bystander.drive_until([&] { return bystander.at(0).acks == second + 1; }));
    static_cast<void>(slow.drive_until([&] { return all_timed_out(slow, kSlow); }, seconds{1}));
  }
  for (const Peer& peer : slow.peers()) {
    EXPECT_EQ(peer.error, proto::ErrorCode::kLoginTimeout);
    ASSERT_GE(peer.ended_at - peer.began, kLoginTimeout);
  }
  EXPECT_EQ(daemon.metric("pulsewheel_sessions_closed_total{reason=\"login_timeout\""), kSlow);
}

TEST(SilentConnectionFault, ThousandsThatNeverSendAreClosedAndCounted) {
  constexpr std::size_t kSilent = 3'000;
  const Daemon daemon({.sets = short_login_sets()});
  const std::size_t before = descriptors_of(daemon.pid());
  Swarm silent(daemon.port());
  silent.add(kSilent);
  ASSERT_TRUE(silent.drive_until([&] { return all_timed_out(silent, kSilent); }));
  EXPECT_EQ(daemon.metric("pulsewheel_sessions_closed_total{reason=\"login_timeout\""), kSilent);
  for (std::size_t i = 0; i < silent.size(); ++i)
    silent.close(i);
  EXPECT_TRUE(eventually([&] { return descriptors_of(daemon.pid()) <= before; }));
}

TEST(HalfLoginFault, HalfAFrameAndAFinIsAClosedConnectionAndNothingElse) {
  const Daemon daemon({.sets = fault_sets()});
  const auto login = login_frame("alice");
  for (std::size_t size = 0; size < login.size(); ++size) {
    Client client(daemon.port());
    client.send(std::span(login).first(size));
    client.finish_sending();
    EXPECT_TRUE(client.at_end()) << size << " bytes";
  }
  EXPECT_TRUE(daemon.edges().empty());
  EXPECT_EQ(daemon.metric("pulsewheel_sessions_closed_total{reason=\"peer_closed\""),
            static_cast<double>(login.size()));
}

TEST(HalfMessageFault, FinInsideAFrameLingersLikeAnyDisconnect) {
  const Daemon daemon({.sets = fault_sets()});
  Client client(daemon.port());
  client.login("alice");
  client.send(std::span<const std::byte>(message_frame(1, 1'000)).first(500));
  client.finish_sending();
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(state_of(daemon, "alice"), "online");
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "disconnect");
  EXPECT_GE(silence_of(edges[1]), to_seconds(kTimeout));
  EXPECT_EQ(daemon.metric("pulsewheel_partial_frame_bytes"), 0.0);
}

// The home shard decides a login of a client that is gone already: whether or not the user comes
// online for it, the user must not stay so.
TEST(LoginAndResetFault, NobodyStaysOnlineForEver) {
  constexpr std::size_t kClients = 1'000;
  const Daemon daemon({.sets = fault_sets({"server.shards=4"})});
  Swarm swarm(daemon.port());
  swarm.add(kClients);
  ASSERT_TRUE(swarm.all_connected());
  for (std::size_t i = 0; i < kClients; ++i) {
    swarm.send_login(i, "fleeting-" + std::to_string(i));
    swarm.reset(i);
  }
  ASSERT_TRUE(eventually([&] {
    return daemon.metric("pulsewheel_connections{") == 0 &&
           daemon.metric("pulsewheel_users{state=\"online\"") == 0 &&
           daemon.metric("pulsewheel_users{state=\"lingering\"") == 0;
  }));
  for (const auto& [uid, count] : count_edges(daemon))
    EXPECT_EQ(count, (EdgeCount{1, 1})) << uid;
}

}  // namespace
}  // namespace pulsewheel::test

// Peers whose packets are lost, whose connections are reset, or who never read.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/private_network.h"

namespace pulsewheel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kFarAway = "127.0.0.2";

/// Clients at kFarAway can be cut off; those at 127.0.0.1 can not.
class LostPacketsFault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!network_.missing().empty()) GTEST_SKIP() << network_.missing();
  }

  PrivateNetwork network_;
};

TEST_F(LostPacketsFault, HalfOpenPeersAreOfflineOnceAndTheirDescriptorsClosed) {
  constexpr std::size_t kClients = 20;
  const Daemon daemon({.sets = fault_sets({"server.shards=2"})});
  Swarm near(daemon.port());
  ASSERT_TRUE(near.add_users("near", kClients));
  const std::size_t descriptors = descriptors_of(daemon.pid());
  Swarm far(daemon.port(), kFarAway);
  ASSERT_TRUE(far.add_users("far", kClients));
  far.send_all(proto::encode_keepalive(0));
  ASSERT_TRUE(far.drive_until([&] { return far.totals().acks == kClients; }));
  network_.cut_off(kFarAway);

  const auto keepalive = proto::encode_keepalive(proto::kNoReply);
  const EdgeCount expected{2 * kClients, kClients};
  ASSERT_TRUE(near.drive_until([&] {
    near.send_all(keepalive);
    far.send_all(keepalive);  // into the void
    return count_all_edges(daemon) == expected;
  }));
  EXPECT_TRUE(near.drive_until([&] {
    near.send_all(keepalive);
    return descriptors_of(daemon.pid()) <= descriptors;
  }));
  for (const auto& edge : daemon.edges()) {
    if (edge.at("kind") == "online") continue;
    EXPECT_EQ(edge.at("uid").get<std::string>().rfind("far", 0), 0U);
    EXPECT_EQ(edge.at("reason"), "timeout");
    EXPECT_GE(silence_of(edge), to_seconds(kTimeout));
  }
  for (const auto& [uid, count] : count_edges(daemon))
    EXPECT_LE(count.offline, 1U) << uid;
  EXPECT_EQ(near.totals().ended, 0U);
  EXPECT_EQ(far.totals().ended, 0U);  // nobody could tell them
}

TEST_F(LostPacketsFault, NewLoginTakesOverFromAHalfOpenOneWhoseEndChangesNothing) {
  const Daemon daemon({.sets = fault_sets({"server.shards=2"})});
  Swarm old_one(daemon.port(), kFarAway);
  old_one.add(1);
  ASSERT_TRUE(old_one.all_connected());
  old_one.send_login(0, "alice", "phone");
  ASSERT_TRUE(old_one.drive_until([&] { return old_one.totals().logged_in == 1; }));
  network_.cut_off(kFarAway);

  const std::size_t descriptors = descriptors_of(daemon.pid());
  Client new_one(daemon.port());
  EXPECT_EQ(new_one.login("alice", "phone").status, proto::LoginStatus::kTookOver);
  const auto end = Client::Clock::now() + kTimeout + seconds{1};
  const auto keep_alive = [&] {
    new_one.send_keepalive();
    new_one.expect(proto::FrameType::kKeepaliveAck);
  };
  while (Client::Clock::now() < end || descriptors_of(daemon.pid()) > descriptors) {
    keep_alive();
    old_one.drive(milliseconds{20});
  }
  old_one.send(0, proto::kLogout);
  network_.heal();  // and the packets of the old connection come after all
  ASSERT_TRUE(old_one.drive_until([&] {
    keep_alive();
    return old_one.at(0).ended;
  }));
  EXPECT_EQ(wait_for_edge_count(daemon, {1, 0}), (EdgeCount{1, 0}));
  EXPECT_EQ(user(daemon, "alice").at("sessions").size(), 1U);
}

TEST_F(LostPacketsFault, AnOutageShorterThanTheTimeoutMakesNoEdge) {
  constexpr std::size_t kClients = 20;
  const Daemon daemon({.sets = fault_sets({"presence.timeout=30s"})});
  Swarm far(daemon.port(), kFarAway);
  ASSERT_TRUE(far.add_users("far", kClients));
  network_.cut_off(kFarAway);
  far.send_all(proto::encode_keepalive(0));
  far.drive(seconds{2});
  EXPECT_EQ(far.totals().acks, 0U);
  network_.heal();
  ASSERT_TRUE(far.drive_until([&] { return far.totals().acks == kClients; }));
  EXPECT_EQ(wait_for_edge_count(daemon, {kClients, 0}), (EdgeCount{kClients, 0}));
}

TEST(ResetStormFault, ThousandsOfResetsLeakNothingAndMakeOneEdgeEach) {
  constexpr std::size_t kClients = 3'000;
  const Daemon daemon({.sets = fault_sets({"server.shards=2"})});
  Client bystander(daemon.port());
  bystander.login("bystander", {}, 20'000);  // who stays, whatever the others take
  const std::size_t descriptors = descriptors_of(daemon.pid());
  {
    Swarm swarm(daemon.port());
    ASSERT_TRUE(swarm.add_users("user", kClients));
    swarm.reset_all();
  }
  ASSERT_TRUE(eventually([&] {
    bystander.send_keepalive();
    bystander.expect(proto::FrameType::kKeepaliveAck);
    return daemon.metric("pulsewheel_connections{") == 1 &&  // the bystander's
           daemon.metric("pulsewheel_users{state=\"lingering\"") == 0;
  }));
  EXPECT_EQ(wait_for_edge_count(daemon, {kClients + 1, kClients}),
            (EdgeCount{kClients + 1, kClients}));
  for (const auto& [uid, count] : count_edges(daemon))
    ASSERT_EQ(count, (EdgeCount{1, uid == "bystander" ? 0U : 1U})) << uid;
  // The question for the metric had a connection, too.
  EXPECT_TRUE(eventually([&] { return descriptors_of(daemon.pid()) <= descriptors; }));
}

/// Keepalives that want a reply, `size` bytes of them.
std::vector<std::byte> flood_of(std::size_t size) {
  std::vector<std::byte> flood;
  const auto keepalive = proto::encode_keepalive(0);
  while (flood.size() < size)
    flood.insert(flood.end(), keepalive.begin(), keepalive.end());
  return flood;
}

/// Sends `flood` as far as the kernel takes it, keeping to the borders of frames.
void pour(Swarm& swarm, const std::vector<std::byte>& flood, std::size_t& rest) {
  while (const std::size_t sent = swarm.send(0, std::span(flood).last(rest)))
    rest = sent == rest ? flood.size() : rest - sent;
}

double cut_for_not_reading(const Daemon& daemon) {
  return daemon.metric("pulsewheel_sessions_closed_total{reason=\"slow_consumer\"");
}

TEST(NeverReadsFault, PeerIsCutAtTheCapOfItsBacklog) {
  constexpr double kBacklogMax = 16 * 1024;
  const Daemon daemon({.sets = fault_sets({kLongTimeout, "server.backlog_bytes_max=16KiB"})});
  Swarm deaf(daemon.port());
  ASSERT_TRUE(deaf.add_users("deaf", 1));
  const auto flood = flood_of(64 * 1024);
  std::size_t rest = flood.size();
  ASSERT_TRUE(eventually([&] {
    pour(deaf, flood, rest);
    EXPECT_LE(daemon.metric("pulsewheel_backlog_bytes"), kBacklogMax);
    return cut_for_not_reading(daemon) == 1;
  }));
  EXPECT_TRUE(eventually([&] {
    return daemon.metric("pulsewheel_connections{") == 0 &&
           daemon.metric("pulsewheel_backlog_bytes") == 0;
  }));
  EXPECT_EQ(state_of(daemon, "deaf"), "online");  // lingers
}

TEST(NeverReadsFault, PeerBelowTheCapIsCutAtTheWriteDeadlineWhateverItSends) {
  constexpr auto kWriteTimeout = seconds{2};
  constexpr double kBacklogMax = 64 * 1024;
  const Daemon daemon({.sets = fault_sets({kLongTimeout, "server.backlog_bytes_max=64KiB",
                                           "server.write_timeout=2s"})});
  Swarm deaf(daemon.port());
  ASSERT_TRUE(deaf.add_users("deaf", 1));
  const auto flood = flood_of(16 * 1024);
  const auto backlog = [&] { return daemon.metric("pulsewheel_backlog_bytes"); };
  const auto received = [&] { return daemon.metric("pulsewheel_received_bytes_total"); };
  auto last_without = Swarm::Clock::now();  // before the flood that is too much
  for (double sent = received(); backlog() == 0;) {
    last_without = Swarm::Clock::now();
    ASSERT_EQ(deaf.send(0, flood), flood.size());
    sent += static_cast<double>(flood.size());
    ASSERT_TRUE(eventually([&] { return received() == sent; }));
  }
  const auto memory = memory_kib(daemon.pid(), "VmRSS");
  ASSERT_TRUE(eventually([&] {
    deaf.send(0, proto::encode_keepalive(proto::kNoReply));  // alive, and never over the cap
    EXPECT_LT(backlog(), kBacklogMax);
    return cut_for_not_reading(daemon) == 1;
  }));
  EXPECT_GE(Swarm::Clock::now() - last_without, kWriteTimeout);
  EXPECT_TRUE(eventually([&] { return backlog() == 0; }));  // closing is paced
  EXPECT_TRUE(grew_at_most(daemon.pid(), memory, 1'024));
  EXPECT_EQ(state_of(daemon, "deaf"), "online");  // lingers
}

}  // namespace
}  // namespace pulsewheel::test

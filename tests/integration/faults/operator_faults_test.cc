// Operators and scripts that get it wrong: bad configurations, and signals by the hundred.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <ostream>
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

const std::string kGoodConfig =
    "server.max_connections = 1000\n"
    "presence.tick = \"50ms\"\n"
    "presence.timeout = \"60s\"\n";

struct BadConfig {
  const char* kind;
  std::string text;
  std::string said;  // file, line and key, as far as there are any
};
void PrintTo(const BadConfig& config, std::ostream* out) {
  *out << config.kind;
}

class BadReloadFault : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadReloadFault, OldConfigurationAndConnectionsStayAndTheMessageNamesThePlace) {
  constexpr std::size_t kUsers = 200;
  const Daemon daemon({.config = kGoodConfig});
  Swarm users(daemon.port());
  ASSERT_TRUE(users.add_users("user", kUsers));
  EXPECT_FALSE(daemon.reload(GetParam().text));
  EXPECT_EQ(daemon.metric("pulsewheel_config_last_reload_successful "), 0.0);
  EXPECT_TRUE(eventually([&] { return daemon.log().find(GetParam().said) != std::string::npos; }))
      << daemon.log();

  users.send_all(proto::encode_keepalive(0));
  EXPECT_TRUE(users.drive_until([&] { return users.totals().acks == kUsers; }));
  Client newcomer(daemon.port());
  EXPECT_EQ(newcomer.login("newcomer").timeout_ms, 60'000U);
  EXPECT_EQ(count_all_edges(daemon).offline, 0U);
  EXPECT_TRUE(daemon.reload(kGoodConfig));
  EXPECT_EQ(daemon.metric("pulsewheel_config_last_reload_successful "), 1.0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadReloadFault,
    ::testing::Values(BadConfig{"SyntaxError", kGoodConfig + "presence.timeout_max = = \"1h\"\n",
                                "pulsewheel.toml:4"},
                      BadConfig{"UnknownKey", kGoodConfig + "presence.tiemout_max = \"1h\"\n",
                                "pulsewheel.toml:4: unknown key \"presence.tiemout_max\""},
                      BadConfig{"OutOfRange", kGoodConfig + "server.accept_burst = 4097\n",
                                "pulsewheel.toml:4: server.accept_burst"},
                      BadConfig{"WrongType", kGoodConfig + "server.accept_burst = \"many\"\n",
                                "pulsewheel.toml:4: server.accept_burst"},
                      BadConfig{"Nonsense", std::string(4'096, '\xff'), "pulsewheel.toml:1"}),
    [](const auto& test) { return std::string(test.param.kind); });

TEST(UnreadableReloadFault, OldConfigurationStaysAndTheMessageNamesTheFile) {
  const Daemon daemon({.config = kGoodConfig});
  Client client(daemon.port());
  client.login("alice");
  std::filesystem::remove(daemon.config_file());
  std::filesystem::create_directory(daemon.config_file());  // for root a mode forbids nothing
  daemon.signal(SIGHUP);
  ASSERT_TRUE(
      eventually([&] { return daemon.metric("pulsewheel_config_last_reload_successful ") == 0; }));
  EXPECT_TRUE(
      eventually([&] { return daemon.log().find(daemon.config_file()) != std::string::npos; }));
  client.send_keepalive();
  client.expect(proto::FrameType::kKeepaliveAck);
}

TEST(SignalStormFault, HupsAndUsr1sDisturbNobodyAndLoseNoEdge) {
  constexpr std::size_t kUsers = 300;
  const Daemon daemon({.config = kGoodConfig});
  Swarm users(daemon.port());
  for (std::size_t i = 0; i < kUsers; ++i) {
    daemon.signal(i % 2 == 0 ? SIGHUP : SIGUSR1);
    users.add(1);
    ASSERT_TRUE(users.all_connected());
    users.send_login(i, "user-" + std::to_string(i));
    if (i % 3 == 0) users.send(i, proto::kLogout);
  }
  ASSERT_TRUE(users.drive_until([&] { return users.totals().logged_in == kUsers; }));
  users.send_all(proto::encode_keepalive(0));
  EXPECT_TRUE(users.drive_until([&] { return users.totals().acks == kUsers - kUsers / 3; }));
  const EdgeCount expected{kUsers, kUsers / 3};
  EXPECT_EQ(wait_for_edge_count(daemon, expected), expected);
  const auto edges = daemon.edges();
  for (std::size_t i = 0; i < edges.size(); ++i)
    EXPECT_EQ(edges[i].at("seq"), i + 1);
  EXPECT_GE(daemon.metric("pulsewheel_config_reloads_total{result=\"success\""), 1.0);
  EXPECT_EQ(daemon.metric("pulsewheel_config_reloads_total{result=\"failure\""), 0.0);
}

TEST(SecondTermFault, StopsAtOnceInTheMiddleOfALongDrainUnderLoad) {
  constexpr std::size_t kUsers = 1'000;
  Daemon daemon({.sets = fault_sets({kLongTimeout, "drain.window=10m", "snapshot.enabled=false"})});
  Swarm users(daemon.port());
  ASSERT_TRUE(users.add_users("user", kUsers));
  daemon.signal(SIGTERM);
  ASSERT_TRUE(users.drive_until([&] { return users.totals().goaways > 0; }));
  EXPECT_LT(users.totals().goaways, kUsers);
  for (int i = 0; i < 100; ++i) {  // and more of them, with the others between
    daemon.signal(SIGTERM);
    daemon.signal(SIGHUP);
    daemon.signal(SIGUSR1);
  }
  EXPECT_EQ(daemon.wait(), 0);  // ctest ends a test that waits for the window
  EXPECT_EQ(count_all_edges(daemon), (EdgeCount{kUsers, kUsers}));
}

}  // namespace
}  // namespace pulsewheel::test

// The daemon as a service: signals, draining, health, other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;

TEST(ServiceTest, TermSendsEverybodyAwayAndWithoutSnapshotsEndsTheirPresence) {
  Daemon daemon({.sets = {"presence.timeout=30s", "server.shards=2", "snapshot.enabled=false"}});
  std::vector<Client> clients;
  for (int i = 0; i < 30; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("user-" + std::to_string(i));
  }
  daemon.signal(SIGTERM);
  for (Client& client : clients) {
    const auto goaway = client.expect_goaway();
    EXPECT_EQ(goaway.reason, proto::GoawayReason::kDraining);
    EXPECT_GE(goaway.retry_after_ms, 100U);
    EXPECT_LE(goaway.retry_after_ms, 200U);
    client.close();
  }
  EXPECT_EQ(daemon.wait(), 0);
  const auto edges = daemon.edges();
  ASSERT_EQ(edges.size(), 60U);
  for (std::size_t i = 30; i < edges.size(); ++i)
    EXPECT_EQ(edges[i].at("reason"), "shutdown");
}

TEST(ServiceTest, SecondTermStopsAtOnce) {
  Daemon daemon({.sets = {"presence.timeout=300s", "presence.timeout_max=1h", "drain.window=10m"}});
  std::vector<Client> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("user-" + std::to_string(i));
  }
  daemon.signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return daemon.get("/readyz").status == 503; }));
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);  // long before the window is over, or ctest ends the test
}

TEST(ServiceTest, Usr1OpensTheEventLogAgain) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client first(daemon.port());
  first.login("first");
  ASSERT_EQ(daemon.wait_for_edges(1).size(), 1U);
  const std::string path = daemon.state_dir() + "/events.jsonl";
  std::filesystem::rename(path, path + ".away");
  daemon.signal(SIGUSR1);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path); }));
  Client second(daemon.port());
  second.login("second");
  const auto edges = daemon.wait_for_edges(1);
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].at("uid"), "second");
}

TEST(ServiceTest, HealthMetricsAndStatus) {
  const Daemon daemon;
  EXPECT_EQ(daemon.get("/livez").status, 200);
  EXPECT_EQ(daemon.get("/readyz").status, 200);
  Client client(daemon.port());
  client.login("alice");
  nlohmann::json status;
  EXPECT_TRUE(eventually([&] {  // the gauges follow at the end of the round
    status = nlohmann::json::parse(daemon.get("/v1/status").body);
    return status.at("users").at("online") == 1;
  }));
  EXPECT_EQ(status.at("phase"), "serving");
  EXPECT_EQ(status.at("connections"), 1);
  EXPECT_THAT(daemon.get("/metrics").body, HasSubstr("pulsewheel_expiry_lateness_seconds_bucket"));
  EXPECT_EQ(daemon.get("/v1/users/nobody").status, 200);

  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.http_port());
  EXPECT_EQ(run_program({PULSEWHEELCTL_PATH, "--url", url, "healthcheck"}).exit_code, 0);
  const Ended user = run_program({PULSEWHEELCTL_PATH, "--url", url, "user", "alice"});
  EXPECT_EQ(user.exit_code, 0);
  EXPECT_THAT(user.log, HasSubstr("online"));
}

TEST(ServiceTest, MetricsPassPromtool) {
  if (std::system("command -v promtool > /dev/null") != 0) {
    std::puts("promtool is not installed: only the text format was checked");
  }
  const Daemon daemon;
  const TemporaryFolder folder;
  const std::string metrics = daemon.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("# TYPE pulsewheel_connections gauge"));
  write_file(folder / "metrics", metrics);
  const std::string check =
      "! command -v promtool > /dev/null || promtool check metrics < " + (folder / "metrics");
  EXPECT_EQ(std::system(check.c_str()), 0);
}

class ExampleClientTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ExampleClientTest, LogsInKeepsAliveAndLogsOut) {
  const Daemon daemon({.sets = {"presence.timeout=3s"}});
  const auto& [interpreter, script] = GetParam();
  const Ended ended =
      run_program({"/usr/bin/env", interpreter, std::string(PULSEWHEEL_EXAMPLES) + script,
                   "127.0.0.1", std::to_string(daemon.port()), "example", "5"});
  EXPECT_EQ(ended.exit_code, 0) << ended.log;
  EXPECT_THAT(ended.log, HasSubstr("timeout_ms=3000"));
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "logout");
  EXPECT_GE(daemon.metric("pulsewheel_packets_total{type=\"keepalive\""), 2.0);
}

INSTANTIATE_TEST_SUITE_P(Languages, ExampleClientTest,
                         ::testing::Values(std::pair{"python3", "/client.py"},
                                           std::pair{"php", "/client.php"}),
                         [](const auto& test) { return std::string(test.param.first); });

}  // namespace
}  // namespace pulsewheel::test

// The daemon as a service: signals, draining, descriptor tables, health, other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::pair<pid_t, std::string>> threads_of(pid_t pid) {
  std::vector<std::pair<pid_t, std::string>> threads;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    threads.emplace_back(std::stoi(task.path().filename()), name);
  }
  return threads;
}

std::size_t descriptors_of(pid_t pid, pid_t thread) {
  const auto folder = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread) + "/fd";
  const std::filesystem::directory_iterator descriptors(folder);
  return static_cast<std::size_t>(std::distance(begin(descriptors), end(descriptors)));
}

TEST(ServiceTest, TermSendsEverybodyAwayAndEndsTheirPresence) {
  Daemon daemon({.sets = {"presence.timeout=30s", "server.shards=2"}});
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
  const auto status = nlohmann::json::parse(daemon.get("/v1/status").body);
  EXPECT_EQ(status.at("phase"), "serving");
  EXPECT_EQ(status.at("connections"), 1);
  EXPECT_EQ(status.at("users").at("online"), 1);
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
  const Daemon daemon;
  const auto& [interpreter, script] = GetParam();
  const Ended ended =
      run_program({"/usr/bin/env", interpreter, std::string(PULSEWHEEL_EXAMPLES) + script,
                   "127.0.0.1", std::to_string(daemon.port()), "example", "2"});
  EXPECT_EQ(ended.exit_code, 0) << ended.log;
  EXPECT_THAT(ended.log, HasSubstr("timeout_ms=1000"));
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "logout");
  EXPECT_GE(daemon.metric("pulsewheel_packets_total{type=\"keepalive\""), 2.0);
}

INSTANTIATE_TEST_SUITE_P(Languages, ExampleClientTest,
                         ::testing::Values(std::pair{"python3", "/client.py"},
                                           std::pair{"php", "/client.php"}),
                         [](const auto& test) { return std::string(test.param.first); });

TEST(SimulatorTest, FindsNoBrokenPromise) {
  const TemporaryFolder folder;
  const Ended ended = run_program({PULSEWHEEL_SIM_PATH,
                                   "--spawn",
                                   PULSEWHEELD_PATH,
                                   "--connections",
                                   "500",
                                   "--duration",
                                   "8s",
                                   "--silent-percent",
                                   "10",
                                   "--disconnect-percent",
                                   "10",
                                   "--logout-percent",
                                   "10",
                                   "--message-percent",
                                   "20",
                                   "--churn",
                                   "20",
                                   "--set",
                                   "presence.timeout=2s",
                                   "--set",
                                   "presence.timeout_min=1s",
                                   "--set",
                                   "presence.tick=100ms",
                                   "--report",
                                   folder / "r.json"});
  EXPECT_EQ(ended.exit_code, 0) << ended.log;
  const auto report = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(report.at("false_offline"), 0);
  EXPECT_EQ(report.at("missed_offline"), 0);
  EXPECT_EQ(report.at("duplicate_edges"), 0);
  EXPECT_GT(report.at("logins"), 500);
}

#ifndef __SANITIZE_THREAD__  // it keys descriptors by number, and here a number means several

class DescriptorTablesTest : public ::testing::Test {
 protected:
  const Daemon daemon_{
      {.sets = {"server.fd_tables=per-shard", "server.shards=3", "presence.timeout=30s"}}};
};

TEST_F(DescriptorTablesTest, EachShardHoldsOnlyItsOwnConnections) {
  std::vector<Client> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(daemon_.port());
    clients.back().login("user-" + std::to_string(i));
  }
  std::size_t shards = 0;
  for (const auto& [thread, name] : threads_of(daemon_.pid())) {
    if (name.rfind("pw-shard-", 0) != 0) continue;
    ++shards;
    EXPECT_LT(descriptors_of(daemon_.pid(), thread), 60U) << name;
  }
  EXPECT_EQ(shards, 3U);
}

TEST_F(DescriptorTablesTest, LoginsWhoseHomeIsAnIdleShardAreAnswered) {
  for (int i = 0; i < 12; ++i) {  // one after the other: the other shards sleep meanwhile
    Client client(daemon_.port());
    EXPECT_GT(client.login("user-" + std::to_string(i)).session_id, 0U);
  }
}

TEST_F(DescriptorTablesTest, SignalToAShardPutsNoByteIntoAClient) {
  std::vector<Client> clients;
  for (int i = 0; i < 30; ++i) {
    clients.emplace_back(daemon_.port());
    clients.back().login("user-" + std::to_string(i));
  }
  for (const auto& [thread, name] : threads_of(daemon_.pid())) {
    if (name.rfind("pw-shard-", 0) == 0) ::syscall(SYS_tgkill, daemon_.pid(), thread, SIGUSR1);
  }
  for (Client& client : clients) {  // a stray byte would stand before the acknowledgement
    client.send_keepalive();
    client.expect(proto::FrameType::kKeepaliveAck);
  }
}

TEST_F(DescriptorTablesTest, ClosedAdminConnectionEnds) {
  EXPECT_EQ(daemon_.get("/livez").status, 200);  // reads to the FIN
}

#endif

}  // namespace
}  // namespace pulsewheel::test

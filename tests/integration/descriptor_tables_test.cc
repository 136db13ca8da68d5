// Shards with descriptor tables of their own. Not under ThreadSanitizer: it keys descriptors by
// number, and here a number means several.
#ifndef __SANITIZE_THREAD__

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"

namespace pulsewheel::test {
namespace {

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

/// How many descriptors the table of the process's main thread has room for.
std::size_t table_capacity(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("FDSize:", 0) == 0) return std::stoul(line.substr(7));
  }
  return 0;
}

TEST(SharedDescriptorTableTest, HasRoomForEverybodyFromTheStart) {
  const Daemon daemon({.sets = {"server.fd_tables=shared", "server.max_connections=3000"}});
  EXPECT_GE(table_capacity(daemon.pid()), 3'000U);
}

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

}  // namespace
}  // namespace pulsewheel::test

#endif

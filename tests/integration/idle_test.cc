// Quiet: what an idle daemon does in half a minute, which is nothing. Label slow: time has to pass.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

constexpr int kWatchedMs = 30'000;

/// Context switches of each thread but the logger's, voluntary or not, by name and id.
std::map<std::string, std::uint64_t> switches_of(pid_t pid) {
  std::map<std::string, std::uint64_t> switches;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream status(task.path() / "status");
    std::string name;
    std::uint64_t count = 0;
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("Name:", 0) == 0) name = line.substr(6);
      if (line.find("ctxt_switches:") != std::string::npos) {
        count += std::stoull(line.substr(line.rfind('\t') + 1));
      }
    }
    if (name != "pw-log") switches[name + " " + task.path().filename().string()] = count;
  }
  return switches;
}

TEST(IdleTest, NoThreadWakesInHalfAMinute) {
  const Daemon daemon({.sets = {"presence.tick=1s", "presence.timeout=30s",
                                "presence.timeout_min=5s", "server.shards=2"}});
  {
    Client client(daemon.port());  // and after clients have been there, too
    client.login("alice");
    client.send_logout();
    client.expect(proto::FrameType::kLogoutAck);
  }
  ASSERT_EQ(daemon.wait_for_edges(2).size(), 2U);
  std::map<std::string, std::uint64_t> before;
  ASSERT_TRUE(eventually([&] {  // until the last closing of a connection is through
    auto now = switches_of(daemon.pid());
    ::poll(nullptr, 0, 500);
    before = switches_of(daemon.pid());
    return before == now;
  }));
  ::poll(nullptr, 0, kWatchedMs);
  EXPECT_EQ(switches_of(daemon.pid()), before);
}

}  // namespace
}  // namespace pulsewheel::test

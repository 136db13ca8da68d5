// A thousand followers while 50,000 users expire at once. Label slow, with a command of its own:
// ./dev test --label slow -R EventsSlowTest. Bounds on time are checked in release builds only.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/followers.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using std::chrono::seconds;

constexpr std::size_t kUsers = 50'000;
constexpr std::size_t kEdges = 2 * kUsers;
constexpr std::size_t kReaders = 10;
constexpr std::size_t kFollowers = 1'000;

/// The most memory that a process has had, in MiB.
std::size_t peak_memory_mib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoul(line.substr(6)) / 1024;
  }
  return 0;
}

/// Whether these have been given the number of the last edge.
bool all_are_at_the_end(const Followers& followers, std::size_t first, std::size_t last) {
  const std::string end = "1-" + std::to_string(kEdges);
  for (std::size_t i = first; i < last; ++i) {
    if (followers.at(i).last_id != end) return false;
  }
  return true;
}

TEST(EventsSlowTest, OfAThousandFollowersTenReadAllAndTheOthersAreToldToResync) {
  const TemporaryFolder folder;
  const Daemon daemon({.sets = {"presence.tick=1s", "presence.timeout_min=5s",
                                "presence.timeout=10s", "server.login_timeout=10s",
                                "server.max_connections=60000", "http.event_ring=65536"}});
  Followers followers(daemon.http_port(), {.keep_events = false, .receive_buffer_bytes = 4096});
  for (std::size_t i = 0; i < kFollowers; ++i)
    followers.add();

  // Users who log in, and fall silent in one moment; and the judge of what the daemon says of them.
  const std::string slack = kReleaseBuild ? "250ms" : "2s";
  ChildProcess users(
      {PULSEWHEEL_SIM, "--target", "127.0.0.1:" + std::to_string(daemon.port()), "--edges",
       daemon.state_dir() + "/events.jsonl", "--connections", std::to_string(kUsers),
       "--stop-all-at", "4s", "--duration", "18s", "--slack", slack, "--report", folder / "report"},
      folder / "log");
  ASSERT_TRUE(followers.read_until(
      0, kReaders, [&] { return all_are_at_the_end(followers, 0, kReaders); }, seconds{100}))
      << read_file(folder / "log");
  for (std::size_t i = 0; i < kReaders; ++i) {
    ASSERT_EQ(followers.at(i).resyncs, 0U);
    ASSERT_EQ(followers.at(i).seqs.size(), kEdges);
    for (std::uint64_t seq = 1; seq <= kEdges; ++seq)
      ASSERT_EQ(followers.at(i).seqs[seq - 1], seq);
  }

  // The others have not read a byte so far.
  EXPECT_TRUE(followers.read_until(
      kReaders, kFollowers, [&] { return all_are_at_the_end(followers, kReaders, kFollowers); }));
  for (std::size_t i = kReaders; i < kFollowers; ++i)
    EXPECT_EQ(followers.at(i).resyncs, 1U) << i;

  EXPECT_EQ(users.wait(), 0) << read_file(folder / "log");
  const auto memory = peak_memory_mib(daemon.pid());
  EXPECT_LT(memory, 160U);
  RecordProperty("peak_memory_mib", std::to_string(memory));
  for (const char* name : {"pulsewheel_expiry_lateness_max_seconds",
                           "pulsewheel_loop_delay_max_seconds", "pulsewheel_event_resyncs_total"}) {
    RecordProperty(name, std::to_string(daemon.metric(name + std::string(" "))));
  }
}

}  // namespace
}  // namespace pulsewheel::test

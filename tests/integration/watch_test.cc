// pulsewheelctl watch beside a real daemon: what it prints, over a restart, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using Lines = std::vector<std::string>;
using testing::ElementsAre;
using testing::IsEmpty;

/// A daemon that can be started again, and a watcher that finds it on its unix socket each time.
class WatchTest : public ::testing::Test {
 protected:
  WatchTest() { start(); }

  void start() {
    daemon_.emplace(
        Daemon::Options{.sets = {"http.unix_socket=" + socket_}, .state_dir = folder_ / "state"});
  }
  /// Starts a watcher and waits until it follows the daemon.
  void watch(const Lines& options = {}) {
    Lines words{PULSEWHEELCTL_PATH, "--unix-socket", socket_, "watch"};
    words.insert(words.end(), options.begin(), options.end());
    watcher_.emplace(words, folder_ / "printed");
    EXPECT_TRUE(eventually([this] { return daemon_->metric("pulsewheel_http_streams ") == 1; }));
  }
  /// Until both edges have their numbers: those of two users on two shards have no order.
  void come_and_go(const std::string& uid) {
    const std::size_t edges_before = daemon_->edges().size();
    Client client(daemon_->port());
    client.login(uid);
    client.send_logout();
    client.expect(proto::FrameType::kLogoutAck);
    EXPECT_EQ(daemon_->wait_for_edges(edges_before + 2).size(), edges_before + 2);
  }
  /// What the watcher has printed by now, without the times, which are in front.
  [[nodiscard]] Lines printed() const {
    Lines lines;
    for (const std::string& line : split_lines(read_file(folder_ / "printed"))) {
      const std::size_t time_end = line.find("Z  ");
      lines.push_back(time_end == std::string::npos ? line : line.substr(time_end + 3));
    }
    return lines;
  }
  void wait_for_lines(std::size_t count) {
    EXPECT_TRUE(eventually([&] { return printed().size() >= count; }));
  }
  int end_watcher(int signal) {
    watcher_->signal(signal);
    return watcher_->wait();
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_ / "http";
  std::optional<Daemon> daemon_;
  std::optional<ChildProcess> watcher_;
};

TEST_F(WatchTest, PrintsEdgesAsTheyHappen) {
  watch();
  come_and_go("alice");
  wait_for_lines(2);
  EXPECT_THAT(printed(), ElementsAre("online  alice  (login)", "offline  alice  (logout)"));
}

TEST_F(WatchTest, GoesOnWhereItWasBehindARestart) {
  watch();
  come_and_go("alice");
  wait_for_lines(2);
  daemon_->signal(SIGTERM);
  ASSERT_EQ(daemon_->wait(), 0) << daemon_->log();
  start();
  come_and_go("bob");  // most likely before the watcher has found the daemon again
  wait_for_lines(4);
  EXPECT_THAT(printed(), ElementsAre("online  alice  (login)", "offline  alice  (logout)",
                                     "online  bob  (login)", "offline  bob  (logout)"));
  EXPECT_TRUE(watcher_->is_running());
}

TEST_F(WatchTest, SaysBehindAKillThatEdgesMayBeMissing) {
  watch();
  come_and_go("alice");
  wait_for_lines(2);
  daemon_->signal(SIGKILL);
  daemon_->wait();
  start();
  wait_for_lines(3);
  come_and_go("bob");
  wait_for_lines(5);
  EXPECT_THAT(printed(), ElementsAre("online  alice  (login)", "offline  alice  (logout)",
                                     "-- edges are missing here: ask for the state anew",
                                     "online  bob  (login)", "offline  bob  (logout)"));
}

TEST_F(WatchTest, FollowsOneUserFromACursorOn) {
  come_and_go("alice");
  come_and_go("bob");
  come_and_go("alice");
  watch({"--uid", "alice", "--cursor", "1-1"});
  wait_for_lines(3);
  EXPECT_THAT(printed(), ElementsAre("offline  alice  (logout)", "online  alice  (login)",
                                     "offline  alice  (logout)"));
}

TEST_F(WatchTest, ASignalIsItsEndAndNoFailure) {
  for (const int signal : {SIGINT, SIGTERM}) {
    watch();
    EXPECT_EQ(end_watcher(signal), 0) << signal;
    EXPECT_TRUE(eventually([this] { return daemon_->metric("pulsewheel_http_streams ") == 0; }));
  }
  EXPECT_THAT(printed(), IsEmpty());
}

TEST_F(WatchTest, ASignalEndsItWhileNoDaemonIsThere) {
  watch();
  daemon_->signal(SIGTERM);
  ASSERT_EQ(daemon_->wait(), 0);
  EXPECT_EQ(end_watcher(SIGINT), 0);
}

TEST_F(WatchTest, EndsWhenItsOutputTakesNoMore) {
  come_and_go("alice");
  const std::string line = std::string(PULSEWHEELCTL_PATH) + " --unix-socket " + socket_ +
                           " watch --cursor 1-0 >/dev/full";
  EXPECT_EQ(run_program({"/bin/sh", "-c", line}).exit_code, 74);
}

}  // namespace
}  // namespace pulsewheel::test

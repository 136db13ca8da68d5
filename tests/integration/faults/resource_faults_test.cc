// A daemon that lacks something: descriptors, memory, room, or a disk that takes its logs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class DescriptorShortageFault : public ::testing::Test {
 protected:
  static constexpr std::size_t kUsers = 100;
  static constexpr std::size_t kNewcomers = 40;
  static constexpr std::size_t kLeft = 5;

  void SetUp() override {
    ASSERT_TRUE(users_.add_users("user", kUsers));
    limit_running(daemon_.pid(), RLIMIT_NOFILE, descriptors_of(daemon_.pid()) + kLeft);
    newcomers_.add(kNewcomers);  // the kernel connects them all
    log_in_newcomers();
  }
  void lift_limit() { limit_running(daemon_.pid(), RLIMIT_NOFILE, 10'000); }

  void log_in_newcomers() {
    ASSERT_TRUE(newcomers_.all_connected());
    for (std::size_t i = 0; i < kNewcomers; ++i) {
      if (newcomers_.at(i).ended || std::exchange(has_sent_login_[i], true)) continue;
      newcomers_.send_login(i, "newcomer-" + std::to_string(i));
    }
  }
  /// Those who were turned away try again until they are in.
  [[nodiscard]] bool newcomers_come_in() {
    return newcomers_.drive_until([&] {
      for (std::size_t i = 0; i < kNewcomers; ++i) {
        if (!newcomers_.at(i).ended) continue;
        newcomers_.close(i);
        newcomers_.reconnect(i);
        has_sent_login_[i] = false;
      }
      log_in_newcomers();
      return std::all_of(newcomers_.peers().begin(), newcomers_.peers().end(),
                         [](const Peer& peer) { return peer.session_id != 0; });
    });
  }
  /// For a time longer than T the users keep sending, and all of them are answered.
  void expect_users_stay() {
    const auto end = Swarm::Clock::now() + kTimeout + seconds{1};
    std::size_t asked = 0;
    while (Swarm::Clock::now() < end) {
      users_.send_all(proto::encode_keepalive(0));
      asked += kUsers;
      ASSERT_TRUE(users_.drive_until([&] { return users_.totals().acks == asked; }));
      newcomers_.send_all(proto::encode_keepalive(proto::kNoReply));
      newcomers_.drive(milliseconds{200});
    }
    EXPECT_EQ(users_.totals().ended, 0U);
  }

  const Daemon daemon_{{.sets = fault_sets({"server.shards=1"})}};
  Swarm users_{daemon_.port()};
  Swarm newcomers_{daemon_.port()};
  std::array<bool, kNewcomers> has_sent_login_{};  // on their connections of now
};

TEST_F(DescriptorShortageFault, UsersStayAndAcceptingPausesWithoutSpinning) {
  constexpr double kFailedAcceptsMax = 20;  // 100 ms, doubling to 1 s: 7 or 8 in 5 s
  expect_users_stay();
  EXPECT_TRUE(eventually([&] { return daemon_.log().find("cannot accept") != std::string::npos; }));
  lift_limit();
  const double failed = daemon_.metric("pulsewheel_accept_errors_total{errno=\"EMFILE\"");
  EXPECT_GE(failed, 1.0);
  EXPECT_LE(failed, kFailedAcceptsMax);
}

TEST_F(DescriptorShortageFault, NewcomersAreTurnedAwayInsteadOfHanging) {
  ASSERT_TRUE(newcomers_.drive_until([&] {
    return std::all_of(newcomers_.peers().begin(), newcomers_.peers().end(),
                       [](const Peer& peer) { return peer.ended || peer.session_id != 0; });
  }));
  EXPECT_GT(newcomers_.totals().ended, 0U);
  for (const Peer& peer : newcomers_.peers()) {
    // A LOGIN that came behind the end of its connection takes the GOAWAY with it.
    EXPECT_EQ(peer.goaway.value_or(proto::GoawayReason::kBusy), proto::GoawayReason::kBusy);
  }
}

TEST_F(DescriptorShortageFault, AcceptingGoesOnByItselfOnceThereAreDescriptors) {
  expect_users_stay();
  lift_limit();
  EXPECT_TRUE(newcomers_come_in());
}

TEST_F(DescriptorShortageFault, ThePlacesOfUsersWhoLeaveAreTaken) {
  for (std::size_t i = 0; i < kNewcomers; ++i) {
    users_.send(i, proto::kLogout);
    users_.close(i);
  }
  EXPECT_TRUE(newcomers_come_in());
}

// The limit that an operator sets is far below what is open already: nothing can be opened, and
// nothing that is open is touched.
TEST(DescriptorShortageBelowUseFault, ALimitBelowWhatIsOpenHarmsNobodyAndAReloadWorks) {
  constexpr std::size_t kUsers = 400;
  const std::string config =
      "server.max_connections = 1000\nserver.fd_tables = \"shared\"\nserver.shards = 2\n"
      "presence.tick = \"50ms\"\npresence.timeout_min = \"1s\"\n";
  const Daemon daemon(
      {.config = config + "presence.timeout = \"" + std::to_string(kTimeout.count()) + "s\"\n"});
  Swarm users(daemon.port());
  ASSERT_TRUE(users.add_users("user", kUsers));
  limit_running(daemon.pid(), RLIMIT_NOFILE, 256);
  Swarm newcomers(daemon.port());
  newcomers.add(20);
  std::size_t asked = 0;
  const auto keep_alive = [&] {
    users.send_all(proto::encode_keepalive(0));
    asked += kUsers;
    newcomers.drive(milliseconds{200});
    return users.drive_until([&] { return users.totals().acks == asked; });
  };
  for (int i = 0; i < 25; ++i)  // 5 s at least
    ASSERT_TRUE(keep_alive());
  write_file(daemon.config_file(), config + "presence.timeout = \"60s\"\n");
  daemon.signal(SIGHUP);
  ASSERT_TRUE(eventually([&] {
    return keep_alive() && daemon.log().find("configuration reloaded") != std::string::npos;
  }));
  EXPECT_EQ(users.totals().ended, 0U);
  EXPECT_EQ(wait_for_edge_count(daemon, {kUsers, 0}), (EdgeCount{kUsers, 0}));

  limit_running(daemon.pid(), RLIMIT_NOFILE, 10'000);
  Swarm later(daemon.port());
  EXPECT_TRUE(later.add_users("later", 20));
}

TEST(MemoryShortageFault, NewLoginsAreRefusedFirstAndTheDaemonLives) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer's own memory does not fit into a limit";
  constexpr std::size_t kUsers = 200;
  constexpr std::size_t kRoomBytes = 256 * 1024;
  constexpr std::size_t kNewcomers = 4'000;
  const Daemon daemon({.sets = fault_sets({"server.shards=2", "presence.timeout=8s"})});
  Swarm users(daemon.port());
  ASSERT_TRUE(users.add_users("user", kUsers));
  // Not RLIMIT_AS: malloc has reserved addresses of which it takes the memory later.
  limit_running(daemon.pid(), RLIMIT_DATA, memory_kib(daemon.pid(), "VmData") * 1024 + kRoomBytes);

  Swarm newcomers(daemon.port());
  newcomers.add(kNewcomers);
  static_cast<void>(newcomers.all_connected());
  const std::string long_uid(120, 'n');
  for (std::size_t i = 0; i < kNewcomers; ++i)
    newcomers.send_login(i, long_uid + std::to_string(i));
  const auto end = Swarm::Clock::now() + seconds{9};
  for (std::size_t asked = 0; Swarm::Clock::now() < end;) {
    users.send_all(proto::encode_keepalive(0));
    asked += kUsers;
    ASSERT_TRUE(users.drive_until([&] { return users.totals().acks == asked; }));
    newcomers.drive(milliseconds{200});
  }
  EXPECT_EQ(users.totals().ended, 0U);
  EXPECT_LT(newcomers.totals().logged_in, kNewcomers);

  newcomers.reset_all();  // and all is well again
  limit_running(daemon.pid(), RLIMIT_DATA, RLIM64_INFINITY);
  Swarm later(daemon.port());
  EXPECT_TRUE(later.add_users("later", 100));
}

TEST(UserShortageFault, LoginsBeyondUsersMaxAreRefusedAndTheOthersStay) {
  constexpr std::size_t kUsers = 50;
  const Daemon daemon({.sets = fault_sets({kLongTimeout, "server.shards=1", "presence.users_max=50",
                                           "server.max_connections=50"})});
  Swarm users(daemon.port());
  ASSERT_TRUE(users.add_users("user", kUsers));
  for (int i = 0; i < 20; ++i) {
    Client late(daemon.port());
    late.send_login("late-" + std::to_string(i));
    const auto frame = late.read_frame();
    ASSERT_TRUE(frame);
    EXPECT_THAT(frame->type, ::testing::AnyOf(proto::FrameType::kGoaway, proto::FrameType::kError));
    EXPECT_TRUE(late.at_end());
  }
  users.send_all(proto::encode_keepalive(0));
  EXPECT_TRUE(users.drive_until([&] { return users.totals().acks == kUsers; }));
  EXPECT_EQ(wait_for_edge_count(daemon, {kUsers, 0}), (EdgeCount{kUsers, 0}));
}

/// A login, a logout, and one more who falls silent: each on time, whatever the logs do.
void expect_presence_works(const Daemon& daemon, const std::string& prefix) {
  Client leaves(daemon.port());
  leaves.login(prefix + "-leaves");
  leaves.send_logout();
  leaves.expect(proto::FrameType::kLogoutAck);
  EXPECT_TRUE(eventually([&] { return state_of(daemon, prefix + "-leaves") == "offline"; }));
  Client silent(daemon.port());
  silent.login(prefix + "-silent");
  EXPECT_EQ(state_of(daemon, prefix + "-silent"), "online");
  EXPECT_EQ(silent.expect_goaway().reason, proto::GoawayReason::kTimeout);
  EXPECT_TRUE(eventually([&] { return state_of(daemon, prefix + "-silent") == "offline"; }));
}

TEST(LogDiskFault, FullDeviceUnderBothLogsLeavesPresenceAloneAndIsCounted) {
  Daemon daemon({.sets = fault_sets({"events.path=/dev/full", "events.queue_max=1"}),
                 .in_child = [] { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); }});
  expect_presence_works(daemon, "user");
  EXPECT_GE(daemon.metric("pulsewheel_event_log_errors_total"), 1.0);
  EXPECT_GE(daemon.metric("pulsewheel_event_log_dropped_total"), 1.0);
  EXPECT_GE(daemon.metric("pulsewheel_log_errors_total"), 1.0);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
}

/// Becomes, in a child, the only process that sees a small tmpfs on `folder`.
void mount_small_disk(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", folder.c_str(), "tmpfs", 0, "size=64k") != 0) {
    ::_exit(126);
  }
}

bool may_mount() {
  const TemporaryFolder folder;
  const pid_t pid = ::fork();
  if (pid == 0) {
    mount_small_disk(folder.path());
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(LogDiskFault, FullDiskIsWrittenToAgainByItselfAndNoEdgeIsLostMeanwhile) {
  if (!may_mount()) GTEST_SKIP() << "no right to mount a disk";
  constexpr std::size_t kMeanwhile = 100;
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "disk");
  const Daemon daemon({.sets = fault_sets({kLongTimeout, "events.path=" + (folder / "disk/events"),
                                           "log.destination=" + (folder / "disk/log")}),
                       .in_child = [&] { mount_small_disk(folder / "disk"); }});
  const std::string disk = "/proc/" + std::to_string(daemon.pid()) + "/root" + (folder / "disk");
  const auto lines = [&disk] { return split_lines(read_file(disk + "/events")); };
  Client before(daemon.port());
  before.login("before");
  ASSERT_TRUE(eventually([&] { return lines().size() == 1; }));
  std::ofstream(disk + "/fill") << std::string(128 * 1024, 'f');  // takes all there is
  Swarm meanwhile(daemon.port());
  ASSERT_TRUE(meanwhile.add_users("meanwhile", kMeanwhile));
  ASSERT_TRUE(eventually([&] { return daemon.metric("pulsewheel_event_log_errors_total") > 0; }));
  EXPECT_TRUE(eventually(
      [&] { return daemon.metric("pulsewheel_users{state=\"online\"") == kMeanwhile + 1; }));
  EXPECT_LT(lines().size(), 1 + kMeanwhile);

  std::filesystem::remove(disk + "/fill");
  ASSERT_TRUE(eventually([&] { return lines().size() == 1 + kMeanwhile; }));
  const auto written = lines();
  for (std::size_t i = 0; i < written.size(); ++i)
    EXPECT_EQ(nlohmann::json::parse(written[i]).at("seq"), i + 1);
  EXPECT_EQ(daemon.metric("pulsewheel_event_log_dropped_total"), 0.0);
}

/// A pipe that nobody reads, full to the last byte, as standard output and standard error.
class StuckPipe {
 public:
  StuckPipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    ::fcntl(ends_[1], F_SETPIPE_SZ, 4'096);
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    constexpr std::array<char, 4'096> kPage{};
    while (::write(ends_[1], kPage.data(), kPage.size()) > 0) {
    }
    while (::write(ends_[1], kPage.data(), 1) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);  // a write blocks from now on
  }
  ~StuckPipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  StuckPipe(const StuckPipe&) = delete;
  StuckPipe& operator=(const StuckPipe&) = delete;

  /// Call in the child.
  void become_output() const {
    ::dup2(ends_[1], STDOUT_FILENO);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  /// Reads until `text` has come.
  [[nodiscard]] bool read_until(const std::string& text) const {
    std::string all;
    std::array<char, 4'096> page;
    while (all.find(text) == std::string::npos) {
      const ssize_t n = ::read(ends_[0], page.data(), page.size());
      if (n <= 0) return false;
      all.append(page.data(), static_cast<std::size_t>(n));
    }
    return true;
  }

 private:
  std::array<int, 2> ends_{};
};

/// Far more lines than the log's queue holds.
void make_log_lines(const Daemon& daemon) {
  constexpr std::size_t kStrangers = 2'000;
  Swarm strangers(daemon.port());
  strangers.add(kStrangers);
  ASSERT_TRUE(strangers.all_connected());
  for (std::size_t i = 0; i < kStrangers; ++i)
    strangers.send(i, "GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(strangers.drive_until([&] { return strangers.totals().ended == kStrangers; }));
}

TEST(LogPipeFault, StuckPipeLeavesPresenceAloneIsCountedAndDoesNotHoldUpTheExit) {
  const StuckPipe pipe;
  Daemon daemon(
      {.sets = fault_sets({"log.rate_limit=0"}), .in_child = [&pipe] { pipe.become_output(); }});
  ASSERT_NO_FATAL_FAILURE(make_log_lines(daemon));
  expect_presence_works(daemon, "user");
  EXPECT_GE(daemon.metric("pulsewheel_log_lines_total{result=\"overrun\""), 100.0);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);  // ctest ends a test that hangs
}

TEST(LogPipeFault, ReaderWhoComesBackIsToldWhatIsMissing) {
  const StuckPipe pipe;
  const Daemon daemon({.sets = fault_sets({"log.rate_limit=0", kLongTimeout}),
                       .in_child = [&pipe] { pipe.become_output(); }});
  ASSERT_NO_FATAL_FAILURE(make_log_lines(daemon));
  EXPECT_TRUE(pipe.read_until("lost "));
}

TEST(LogPipeFault, ReaderWhoIsGoneIsNoReasonToEnd) {
  auto pipe = std::make_unique<StuckPipe>();
  const Daemon daemon(
      {.sets = fault_sets({"log.rate_limit=0"}), .in_child = [&pipe] { pipe->become_output(); }});
  pipe.reset();  // the next write is an EPIPE
  ASSERT_NO_FATAL_FAILURE(make_log_lines(daemon));
  expect_presence_works(daemon, "user");
}

}  // namespace
}  // namespace pulsewheel::test

// What the daemon tells systemd, heard by a stand-in for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/notify_socket.h"

namespace pulsewheel::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NotifyTest : public ::testing::Test {
 protected:
  /// Options of a daemon that is told of the stand-in; `watchdog` as its limit, if any.
  [[nodiscard]] Daemon::Options notified(milliseconds watchdog = {}) const {
    Daemon::Options options;
    options.in_child = [this, watchdog] {
      ::setenv("NOTIFY_SOCKET", socket_.path().c_str(), 1);
      if (watchdog == milliseconds{0}) return;
      ::setenv("WATCHDOG_USEC", std::to_string(microseconds(watchdog).count()).c_str(), 1);
      ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
    };
    return options;
  }

  const NotifySocket socket_;
};

TEST_F(NotifyTest, IsReadyWhenClientsAreServed) {
  const Daemon daemon(notified());
  const auto ready = socket_.expect("READY");
  EXPECT_EQ(ready.at("STATUS"), "serving: 0 connections, 0 users online");
  Client client(daemon.port());
  EXPECT_GT(client.login("alice").timeout_ms, 0U);
}

TEST_F(NotifyTest, AReloadHasABeginningWithItsTimeAndAnEnd) {
  const Daemon daemon(notified());
  static_cast<void>(socket_.expect("READY"));
  const auto monotonic_us = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<microseconds>(now).count();
  };
  const auto before = monotonic_us();
  daemon.signal(SIGHUP);
  const auto reloading = socket_.expect("RELOADING");
  EXPECT_GE(std::stoll(reloading.at("MONOTONIC_USEC")), before);
  EXPECT_LE(std::stoll(reloading.at("MONOTONIC_USEC")), monotonic_us());
  EXPECT_THAT(socket_.expect("READY").at("STATUS"), StartsWith("serving"));
}

TEST_F(NotifyTest, AReloadThatFailsEndsTooAndTheStatusSaysSo) {
  Daemon::Options options = notified();
  options.config = Daemon::kQuickConfig;
  const Daemon daemon(std::move(options));
  static_cast<void>(socket_.expect("READY"));
  EXPECT_FALSE(daemon.reload("presence.tick = 12\n"));
  static_cast<void>(socket_.expect("RELOADING"));
  EXPECT_THAT(socket_.expect("READY").at("STATUS"), HasSubstr("the last reload failed"));
}

TEST_F(NotifyTest, ADrainAsksForTimeAgainAndAgain) {
  Daemon::Options options = notified();
  options.sets = {"drain.window=60s", "server.shards=1", "presence.timeout=60s"};
  Daemon daemon(std::move(options));
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("user-" + std::to_string(i));
  }
  daemon.signal(SIGTERM);
  static_cast<void>(socket_.expect("STOPPING"));
  for (int i = 0; i < 2; ++i) {
    const auto extension = socket_.expect("EXTEND_TIMEOUT_USEC");
    EXPECT_GT(std::stoll(extension.at("EXTEND_TIMEOUT_USEC")), 5'000'000);
    EXPECT_THAT(extension.at("STATUS"), StartsWith("draining: "));
  }
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
}

TEST_F(NotifyTest, SaysThatItStops) {
  Daemon daemon(notified());
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  static_cast<void>(socket_.expect("STOPPING"));
}

TEST_F(NotifyTest, AServiceManagerThatIsGoneDisturbsNobody) {
  Daemon::Options options;
  options.in_child = [] { ::setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1); };
  const Daemon daemon(std::move(options));
  Client client(daemon.port());
  EXPECT_GT(client.login("alice").timeout_ms, 0U);
  EXPECT_TRUE(eventually([&] {
    return daemon.log().find("cannot tell the service manager") != std::string::npos;
  })) << daemon.log();
}

// --- Watchdog -----------------------------------------------------------------------------------

pid_t thread_of(const Daemon& daemon, const std::string& name) {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    if (found == name) return std::stoi(task.path().filename());
  }
  throw std::runtime_error("no thread " + name);
}

/// One thread that stands still while the others of its process run on.
class FrozenThread {
 public:
  explicit FrozenThread(pid_t thread) : thread_(thread) {
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0 ||
        ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) {
      throw std::runtime_error("no ptrace here");
    }
    ::waitpid(thread, nullptr, __WALL);
  }
  ~FrozenThread() { ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr); }
  FrozenThread(const FrozenThread&) = delete;
  FrozenThread& operator=(const FrozenThread&) = delete;

 private:
  const pid_t thread_;
};

constexpr milliseconds kWatchdog{100};

TEST_F(NotifyTest, TheWatchdogIsFedWithAStatusWhileAllShardsTurn) {
  Daemon::Options options = notified(kWatchdog);
  options.sets = {"server.shards=2"};
  const Daemon daemon(std::move(options));
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(socket_.expect("WATCHDOG").at("STATUS"), StartsWith("serving: "));
}

TEST_F(NotifyTest, TheWatchdogStarvesWhileOneOfTheShardsHangs) {
  Daemon::Options options = notified(kWatchdog);
  options.sets = {"server.shards=3"};
  const Daemon daemon(std::move(options));
  static_cast<void>(socket_.expect("WATCHDOG"));
  {
    const FrozenThread hanging(thread_of(daemon, "pw-shard-1"));
    while (socket_.next(5 * kWatchdog)) {  // what was on its way
    }
    ASSERT_TRUE(eventually(
        [&] { return daemon.log().find("shard 1 does not turn") != std::string::npos; }));
    EXPECT_FALSE(socket_.next(milliseconds{0}).has_value());
  }
  EXPECT_EQ(socket_.expect("WATCHDOG").at("WATCHDOG"), "1");
}

TEST_F(NotifyTest, AWatchdogOfAnotherProcessIsNotOurs) {
  Daemon::Options options;
  options.in_child = [this] {
    ::setenv("NOTIFY_SOCKET", socket_.path().c_str(), 1);
    ::setenv("WATCHDOG_USEC", "1000", 1);
    ::setenv("WATCHDOG_PID", std::to_string(::getppid()).c_str(), 1);
  };
  Daemon daemon(std::move(options));
  static_cast<void>(socket_.expect("READY"));
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  while (const auto message = socket_.next(milliseconds{0}))
    EXPECT_FALSE(message->contains("WATCHDOG"));
}

}  // namespace
}  // namespace pulsewheel::test

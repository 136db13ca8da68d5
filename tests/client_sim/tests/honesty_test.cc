// The judge is honest: the real program passes an honest daemon and fails one that lies.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client_sim/options.h"

namespace pulsewheel::sim {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;
  nlohmann::json report;
};

/// Runs the simulator against the stand-in, 15 times faster than life (T = 2 s).
class HonestyTest : public testing::Test {
 protected:
  HonestyTest() {
    std::string name = fs::temp_directory_path() / "pulsewheel-honesty-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~HonestyTest() override { fs::remove_all(folder_); }

  Outcome simulate(std::vector<std::string> flags) {
    const std::string report = folder_ / "report.json";
    std::vector<std::string> words{PULSEWHEEL_SIM, "--report", report, "--timeout", "2s"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    Outcome outcome;
    int status = 0;
    ::waitpid(child, &status, 0);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (fs::exists(report)) outcome.report = nlohmann::json::parse(std::ifstream(report));
    return outcome;
  }

  /// 1,000 users of whom all fall silent: 2,000 edges.
  Outcome simulate_silence(const std::string& lie = "lie.drop_every=0") {
    return simulate({"--spawn", PULSEWHEEL_STAND_IN, "--set", "presence.tick=100ms",
                     "--connections", "1000", "--duration", "3s", "--silent-percent", "100",
                     "--grace", "300ms", "--set", lie});
  }

  fs::path folder_;
};

TEST_F(HonestyTest, PassesAnHonestDaemon) {
  const Outcome outcome = simulate_silence();
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["connections"], 1000);
  EXPECT_EQ(outcome.report["online_edges"], 1000);
  EXPECT_EQ(outcome.report["offline_edges"], 1000);
  EXPECT_GE(outcome.report["lateness_s"]["min"], 0.0);
  EXPECT_GT(outcome.report["lateness_s"]["max"], 0.0);
}

TEST_F(HonestyTest, FailsADaemonThatIsEarlyByOneTick) {
  const Outcome outcome = simulate_silence("lie.early=100ms");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["false_offline"], 500);
  EXPECT_EQ(outcome.report["duplicate_edges"], 0);
}

TEST_F(HonestyTest, FailsADaemonThatDropsOneEdgeInAThousand) {
  // Of 2,000 edges the 1,000th is an online and the 2,000th an offline one.
  const Outcome outcome = simulate_silence("lie.drop_every=1000");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["missing_online"], 1);
  EXPECT_EQ(outcome.report["missed_offline"], 1);
  EXPECT_EQ(outcome.report["false_offline"], 0);
}

TEST_F(HonestyTest, FailsADaemonThatDoublesOneEdgeInAThousand) {
  const Outcome outcome = simulate_silence("lie.double_every=1000");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["duplicate_edges"], 2);
  EXPECT_EQ(outcome.report["missed_offline"], 0);
}

TEST_F(HonestyTest, PassesAnHonestDaemonThroughEveryHabit) {
  const Outcome outcome = simulate({"--spawn",
                                    PULSEWHEEL_STAND_IN,
                                    "--set",
                                    "presence.tick=100ms",
                                    "--connections",
                                    "900",
                                    "--devices",
                                    "3",
                                    "--duration",
                                    "6s",
                                    "--silent-percent",
                                    "20",
                                    "--disconnect-percent",
                                    "40",
                                    "--logout-percent",
                                    "20",
                                    "--churn",
                                    "100",
                                    "--message-percent",
                                    "30",
                                    "--grace",
                                    "300ms"});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["users"], 300);
  EXPECT_GT(outcome.report["offline_edges"], 50);
  EXPECT_GT(outcome.report["logins"], 1200);
  EXPECT_GT(outcome.report["messages"], 100);
}

TEST_F(HonestyTest, PassesAnHonestDaemonWhenAllStopAtOnce) {
  const Outcome outcome =
      simulate({"--spawn", PULSEWHEEL_STAND_IN, "--set", "presence.tick=100ms", "--connections",
                "1000", "--duration", "1s", "--stop-all-at", "1s", "--grace", "300ms"});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["offline_edges"], 1000);
}

TEST_F(HonestyTest, PassesAnHonestDaemonWhoseUsersAreMeantToGoOffline) {
  const Outcome outcome =
      simulate({"--spawn", PULSEWHEEL_STAND_IN, "--set", "presence.tick=100ms", "--connections",
                "200", "--duration", "5s", "--keepalive", "3s", "--expect-offline"});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_GT(outcome.report["offline_edges"], 100);
}

TEST_F(HonestyTest, RefusesAKeepaliveThatIsNotShorterThanTheTimeout) {
  EXPECT_EQ(simulate({"--spawn", PULSEWHEEL_STAND_IN, "--keepalive", "2s"}).exit_code, kExitUsage);
}

TEST_F(HonestyTest, RefusesAKeepaliveThatIsNotShorterThanTheGrantedTimeout) {
  // The flags look fine; LOGIN_ACK tells otherwise.
  const Outcome outcome =
      simulate({"--spawn", PULSEWHEEL_STAND_IN, "--set", "presence.timeout=60s", "--set",
                "lie.grant=1s", "--connections", "1", "--keepalive", "1500ms"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
}

TEST_F(HonestyTest, TellsThatNoDaemonIsThere) {
  EXPECT_EQ(simulate({"--target", "127.0.0.1:1", "--connections", "1"}).exit_code,
            kExitUnavailable);
}

TEST_F(HonestyTest, TellsThatTheDaemonDoesNotStart) {
  EXPECT_EQ(simulate({"--spawn", "/bin/false"}).exit_code, kExitUnavailable);
}

}  // namespace
}  // namespace pulsewheel::sim

// The daemon keeps its promises, as the simulator sees them: small runs with the least timeout that
// it grants. The large ones are for ./dev sim.
#include <gtest/gtest.h>

#include <string>

#include "tests/client_sim/tests/simulator_test.h"

namespace pulsewheel::sim {
namespace {

class DaemonTest : public SimulatorTest {
 protected:
  DaemonTest() : SimulatorTest(PULSEWHEEL_SIM) {}

  /// Every habit, 600 connections of 300 users, T = 5 s, a tick of 100 ms. An edge may be late for
  /// longer than by default before it counts as missed: the machine does other things too.
  Outcome simulate_everything(const std::string& flags) {
    return simulate(PULSEWHEEL_DAEMON,
                    "--set presence.tick=100ms --timeout 5s --connections 600 --devices 2 "
                    "--duration 12s --silent-percent 20 --disconnect-percent 40 "
                    "--logout-percent 20 --churn 50 --message-percent 30 --grace 3s " +
                        flags);
  }

  static void expect_no_violation(const Outcome& outcome) {
    for (const char* key : {"false_offline", "missed_offline", "missing_online", "duplicate_edges",
                            "refusals", "unexpected_closes", "unreadable_lines", "wrong_reasons",
                            "untold_takeovers", "skipped_edges"}) {
      EXPECT_EQ(outcome.report[key], 0) << key;
    }
  }

  static void expect_kept_promises(const Outcome& outcome) {
    expect_no_violation(outcome);
    EXPECT_EQ(outcome.report["connections"], 600);
    EXPECT_GT(outcome.report["offline_edges"], 50);
    EXPECT_GE(outcome.report["lateness_s"]["min"], 0.0);
  }
};

TEST_F(DaemonTest, KeepsItsPromisesThroughEveryHabit) {
  const Outcome outcome = simulate_everything("");
  expect_kept_promises(outcome);
  EXPECT_GT(outcome.report["daemon"]["rss_bytes"], 0);
  EXPECT_GT(outcome.report["daemon"]["lateness_s"]["max"], 0.0);
}

TEST_F(DaemonTest, KeepsThemWhenADisconnectIsOffline) {
  expect_kept_promises(simulate_everything("--set presence.on_disconnect=offline"));
}

TEST_F(DaemonTest, KeepsThemInTwoEventLogs) {
  expect_kept_promises(simulate_everything("--set events.path=" + file("online.jsonl") +
                                           " --set events.offline_path=" + file("offline.jsonl")));
}

TEST_F(DaemonTest, KeepsThemThroughAMixOfChurn) {
  const Outcome outcome =
      simulate(PULSEWHEEL_DAEMON,
               "--set presence.tick=100ms --timeout 5s --connections 600 --duration 10s --grace 3s "
               "--churn-percent 900 --message-percent 30");
  expect_no_violation(outcome);
  EXPECT_GT(outcome.report["churn"]["takeovers"], 20);
  EXPECT_GT(outcome.report["offline_edges"], 50);
}

TEST_F(DaemonTest, IsNotBlindToWhatCameWhileItWasFrozen) {
  const Outcome outcome =
      simulate(PULSEWHEEL_DAEMON,
               "--set presence.tick=100ms --timeout 5s --connections 600 --duration 2s --grace 3s "
               "--silent-percent 10 --freeze-daemon-at 2s --freeze-for 7s");
  expect_no_violation(outcome);
  EXPECT_GT(outcome.report["offline_after_stall"], 30);
  EXPECT_EQ(outcome.report["offline_edges"], outcome.report["offline_after_stall"]);
}

TEST_F(DaemonTest, LosesNobodyWhenAllConnectionsAreCutAtOnce) {
  const Outcome outcome =
      simulate(PULSEWHEEL_DAEMON,
               "--set presence.tick=100ms --timeout 5s --connections 600 --duration 1s --grace 3s "
               "--cut-all-at 500ms --back-within 2s");
  expect_no_violation(outcome);
  EXPECT_EQ(outcome.report["cut"]["back"], 600);
  EXPECT_EQ(outcome.report["cut"]["late"], 0);
  EXPECT_EQ(outcome.report["offline_edges"], 0);
}

TEST_F(DaemonTest, KeepsThemWhenTheTimeoutChanges) {
  const Outcome outcome =
      simulate(PULSEWHEEL_DAEMON,
               "--set presence.tick=100ms --set presence.timeout_min=1s --connections 600 "
               "--duration 9s --grace 3s --silent-percent 20 --churn-percent 300 "
               "--reload-daemon 0s:presence.timeout=6s --reload-daemon 3s:presence.timeout=12s "
               "--reload-daemon 5s:presence.timeout=4s --reload-daemon 7s:presence.timeout=8s");
  EXPECT_EQ(outcome.exit_code, 0);
  expect_no_violation(outcome);
  EXPECT_GT(outcome.report["offline_edges"], 50);
}

TEST_F(DaemonTest, ReloadThatTheDaemonRefusesEndsTheRun) {
  const Outcome outcome = simulate(
      PULSEWHEEL_DAEMON, "--connections 10 --duration 30s --reload-daemon 10ms:presence.timeot=6s");
  EXPECT_EQ(outcome.exit_code, 64);
}

// 100 of 600 users have fallen silent by then: they owe an edge once the grace is over.
constexpr const char* kRestart =
    "--set presence.tick=100ms --set restart.grace=8s --set drain.window=500ms "
    "--set drain.retry_after=200ms --timeout 5s --connections 600 --duration 4s --grace 3s "
    "--silent-percent 15 ";

TEST_F(DaemonTest, LosesNobodyWhenItIsRestarted) {
  const Outcome outcome =
      simulate(PULSEWHEEL_DAEMON, std::string(kRestart) + "--restart-daemon-at 3s");
  EXPECT_EQ(outcome.exit_code, 0);
  expect_no_violation(outcome);
  const auto& restart = outcome.report["restart"];
  EXPECT_GT(restart["back"], 400);
  EXPECT_EQ(restart["online_edges"], 0);
  EXPECT_LT(restart["offline_edges"], 150);  // who is silent
  EXPECT_EQ(restart["repeated_edges"], 0);
  EXPECT_EQ(restart["epochs_continued"], 1);
  EXPECT_EQ(restart["epochs_restarted"], 0);
}

TEST_F(DaemonTest, LosesNobodyOfItsLastSnapshotWhenItIsKilled) {
  const Outcome outcome =
      simulate(PULSEWHEEL_DAEMON,
               std::string(kRestart) + "--set snapshot.interval=500ms --kill-daemon-at 4s");
  EXPECT_EQ(outcome.exit_code, 0);
  expect_no_violation(outcome);
  const auto& restart = outcome.report["restart"];
  EXPECT_GT(restart["back"], 400);
  EXPECT_EQ(restart["online_edges"], restart["repeated_edges"]);
  EXPECT_EQ(restart["epochs_continued"], 0);
  EXPECT_EQ(restart["epochs_restarted"], 1);
}

}  // namespace
}  // namespace pulsewheel::sim

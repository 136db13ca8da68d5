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

  static void expect_kept_promises(const Outcome& outcome) {
    for (const char* key : {"false_offline", "missed_offline", "missing_online", "duplicate_edges",
                            "refusals", "unexpected_closes", "unreadable_lines"}) {
      EXPECT_EQ(outcome.report[key], 0) << key;
    }
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

}  // namespace
}  // namespace pulsewheel::sim

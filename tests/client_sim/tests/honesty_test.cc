// The judge is honest: the real program passes an honest daemon and fails one that lies.
#include <gtest/gtest.h>

#include <string>

#include "tests/client_sim/program.h"
#include "tests/client_sim/tests/simulator_test.h"

namespace pulsewheel::sim {
namespace {

/// Runs the simulator against the stand-in, 15 times faster than life (T = 2 s). The slack is for
/// machines that do other things too; nothing that is asserted here needs a small one.
class HonestyTest : public SimulatorTest {
 protected:
  HonestyTest() : SimulatorTest(PULSEWHEEL_SIM) {}

  /// The clients keep alive oftener than advised: a machine that stands still for a second makes
  /// none of them late.
  Outcome simulate_fast(const std::string& flags, const std::string& keepalive = "800ms") {
    return simulate(PULSEWHEEL_STAND_IN,
                    "--timeout 2s --set presence.tick=100ms --slack 2s --grace 0s --keepalive " +
                        keepalive + " " + flags);
  }

  /// 1,000 users of whom all fall silent: 2,000 edges.
  Outcome simulate_silence(const std::string& lie = "") {
    return simulate_fast("--connections 1000 --duration 3s --silent-percent 100 " + lie);
  }

  /// Each of 900 users is hit by churn every 6 s.
  Outcome simulate_churn(const std::string& lie = "") {
    return simulate_fast(
        "--connections 900 --duration 4s --churn-percent 1000 --message-percent 30 " + lie);
  }

  /// Longer than T. A tenth of the clients is due meanwhile; the others keep alive.
  Outcome simulate_freeze(const std::string& lie = "") {
    return simulate_fast(
        "--connections 1000 --duration 3s --silent-percent 10 --freeze-daemon-at 1s "
        "--freeze-for 3s --drain 0s --slack 1s " +
        lie);
  }

  Outcome simulate_cut(const std::string& lie = "") {
    return simulate_fast("--connections 1000 --duration 1s --cut-all-at 500ms " + lie);
  }
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
  // 29 s in place of 30 s, scaled.
  const Outcome outcome = simulate_silence("--set lie.early=100ms");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["false_offline"], 0);
  EXPECT_EQ(outcome.report["duplicate_edges"], 0);
}

TEST_F(HonestyTest, FailsADaemonThatDropsOneEdgeInAThousand) {
  // Of 2,000 edges the 1,000th is an online and the 2,000th an offline one.
  const Outcome outcome = simulate_silence("--set lie.drop_every=1000");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["missing_online"], 1);
  EXPECT_EQ(outcome.report["missed_offline"], 1);
  EXPECT_EQ(outcome.report["false_offline"], 0);
}

TEST_F(HonestyTest, FailsADaemonThatDoublesOneEdgeInAThousand) {
  const Outcome outcome = simulate_silence("--set lie.double_every=1000");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["duplicate_edges"], 2);
  EXPECT_EQ(outcome.report["missed_offline"], 0);
}

TEST_F(HonestyTest, PassesAnHonestDaemonThroughEveryHabit) {
  const Outcome outcome = simulate_fast(
      "--connections 900 --devices 3 --duration 6s --silent-percent 20 --disconnect-percent 40 "
      "--logout-percent 20 --churn 100 --message-percent 30");
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["users"], 300);
  EXPECT_GT(outcome.report["offline_edges"], 50);
  EXPECT_GT(outcome.report["logins"], 1200);
  EXPECT_GT(outcome.report["messages"], 100);
}

TEST_F(HonestyTest, PassesAnHonestDaemonWhenAllStopAtOnce) {
  const Outcome outcome = simulate_fast("--connections 1000 --duration 1s --stop-all-at 1s");
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["offline_edges"], 1000);
}

TEST_F(HonestyTest, PassesAnHonestDaemonWhoseUsersAreMeantToGoOffline) {
  const Outcome outcome = simulate_fast("--connections 200 --duration 5s --expect-offline", "3s");
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_GT(outcome.report["offline_edges"], 100);
}

TEST_F(HonestyTest, PassesAnHonestDaemonThroughAMixOfChurn) {
  const Outcome outcome = simulate_churn();
  EXPECT_EQ(outcome.exit_code, kExitFine);
  for (const char* act : {"reconnects", "resets", "takeovers", "logouts", "silences"}) {
    EXPECT_GT(outcome.report["churn"][act], 10) << act;
  }
  EXPECT_GT(outcome.report["messages"], 100);
}

TEST_F(HonestyTest, FailsADaemonThatGivesAnEdgeAReasonWithoutCause) {
  const Outcome outcome = simulate_churn("--set lie.reason=timeout");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["wrong_reasons"], 10);
  EXPECT_EQ(outcome.report["false_offline"], 0);
}

TEST_F(HonestyTest, FailsADaemonThatBlamesAnOperatorForItsEdges) {
  const Outcome outcome = simulate_silence("--set lie.reason=kicked");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["wrong_reasons"], 1000);
}

TEST_F(HonestyTest, FailsADaemonThatForgetsALogoutWhenTheUserIsBackAtOnce) {
  const Outcome outcome = simulate_churn("--set lie.mute_logout=1");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["missed_offline"], 10);
}

TEST_F(HonestyTest, FailsADaemonThatDoesNotTellTheOldConnectionOfATakeover) {
  for (const char* lie : {"mute_takeover", "keep_old", "hide_takeover"}) {
    const Outcome outcome = simulate_churn("--set lie." + std::string(lie) + "=1");
    EXPECT_EQ(outcome.exit_code, kExitPromiseBroken) << lie;
    EXPECT_GT(outcome.report["untold_takeovers"], 10) << lie;
  }
}

TEST_F(HonestyTest, FailsADaemonThatWritesEdgesForATakeover) {
  const Outcome outcome = simulate_churn("--set lie.takeover_edges=1");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["false_offline"], 10);
}

TEST_F(HonestyTest, FailsADaemonThatRepeatsANumber) {
  const Outcome outcome = simulate_silence("--set lie.repeat_every=1000");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["reordered_edges"], 2);
}

TEST_F(HonestyTest, FailsADaemonThatLeavesOutANumber) {
  const Outcome outcome = simulate_silence("--set lie.skip_every=1000");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["skipped_edges"], 2);
}

TEST_F(HonestyTest, PassesAnHonestDaemonThatWasFrozen) {
  const Outcome outcome = simulate_freeze();
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["stalls"], 1);
  EXPECT_GT(outcome.report["offline_after_stall"], 50);
  EXPECT_EQ(outcome.report["offline_edges"], outcome.report["offline_after_stall"]);
}

TEST_F(HonestyTest, FailsADaemonThatExpiresBeforeItReadsWhatCameWhileItWasFrozen) {
  const Outcome outcome = simulate_freeze("--set lie.blind=1");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["false_offline"], 100);
}

TEST_F(HonestyTest, FailsADaemonThatStaysLateAfterItWasFrozen) {
  const Outcome outcome = simulate_freeze("--set lie.hold=3500ms");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["missed_offline"], 50);
}

TEST_F(HonestyTest, PassesAnHonestDaemonWhoseConnectionsAreCutAtOnce) {
  const Outcome outcome = simulate_cut();
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_EQ(outcome.report["cut"]["connections"], 1000);
  EXPECT_EQ(outcome.report["cut"]["back"], 1000);
  EXPECT_EQ(outcome.report["online_edges"], 1000);
  EXPECT_EQ(outcome.report["offline_edges"], 0);
}

TEST_F(HonestyTest, FailsADaemonThatTakesACutForTheEnd) {
  const Outcome outcome = simulate_cut("--set lie.impatient=1");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_GT(outcome.report["false_offline"], 100);
}

TEST_F(HonestyTest, FailsADaemonThatIsSlowToTakeClientsBack) {
  const Outcome outcome = simulate_cut("--back-within 0s");
  EXPECT_EQ(outcome.exit_code, kExitPromiseBroken);
  EXPECT_EQ(outcome.report["cut"]["late"], 1000);
  EXPECT_EQ(outcome.report["false_offline"], 0);
}

TEST_F(HonestyTest, RefusesAKeepaliveThatIsNotShorterThanTheTimeout) {
  EXPECT_EQ(simulate_fast("--keepalive 2s").exit_code, kExitUsage);
}

TEST_F(HonestyTest, RefusesAKeepaliveThatIsNotShorterThanTheGrantedTimeout) {
  // The flags look fine; LOGIN_ACK tells otherwise.
  EXPECT_EQ(simulate_fast("--connections 1 --keepalive 1500ms --set lie.grant=1s").exit_code,
            kExitUsage);
}

TEST_F(HonestyTest, TellsThatNoDaemonIsThere) {
  EXPECT_EQ(simulate("", "--target 127.0.0.1:1 --connections 1").exit_code, kExitUnavailable);
}

TEST_F(HonestyTest, TellsThatTheDaemonDoesNotStart) {
  EXPECT_EQ(simulate("/bin/false", "").exit_code, kExitUnavailable);
}

TEST_F(HonestyTest, TellsThatTheReportCannotBeWritten) {
  const Outcome outcome =
      simulate_fast("--connections 1 --duration 0s --report /dev/null/report.json");
  EXPECT_EQ(outcome.exit_code, kExitCannotWrite);
}

}  // namespace
}  // namespace pulsewheel::sim

// What a Judge makes of a daemon that ends and starts again.
#include "tests/client_sim/tests/judge_fixture.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr JudgeRules kRules{.restart_grace = 60s, .snapshot_age = 20s};

/// One user with one session. The daemon leaves at 100 s, is started at 105 s and listens at 106 s;
/// grace 60 s, and its knowledge behind a kill is 20 s old at most.
class JudgeRestartTest : public JudgeFixture {
 protected:
  JudgeRestartTest() : JudgeFixture(kRules, /*users=*/1, /*sessions_per_user=*/1) {}

  void restart(bool killed) {
    judge.daemon_stopped(at(100s));
    judge.lost(0);
    judge.daemon_continued(at(106s));
    judge.daemon_restarted(
        {.killed = killed, .left = at(100s), .started = at(105s), .back = at(106s)});
  }
};

TEST_F(JudgeRestartTest, WhoComesBackOwesNoEdge) {
  log_in_and_see_online(75s);
  keep_alive(90s);
  restart(/*killed=*/false);
  log_in(110s);
  keep_alive(130s);
  EXPECT_TRUE(judge.finish(at(150s)).clean());
}

TEST_F(JudgeRestartTest, ALoginBetweenStartAndNewsOfItCounts) {
  log_in_and_see_online(75s);
  keep_alive(90s);
  judge.daemon_stopped(at(100s));
  judge.lost(0);
  log_in(105s + 500ms);
  judge.daemon_continued(at(106s));
  judge.daemon_restarted(
      {.killed = false, .left = at(100s), .started = at(105s), .back = at(106s)});
  see(Kind::kOffline, 136s);
  EXPECT_TRUE(judge.finish(at(150s)).clean());
}

TEST_F(JudgeRestartTest, AnOfflineEdgeOfWhoIsBackIsFalse) {
  for (const bool killed : {false, true}) {
    judge = Judge{kRules, 1, 1};
    log_in_and_see_online(75s);
    keep_alive(90s);
    restart(killed);
    log_in(110s);
    see(Kind::kOffline, 120s);
    EXPECT_EQ(judge.finish(at(125s)).false_offline, 1U) << killed;
  }
}

TEST_F(JudgeRestartTest, AnotherOnlineEdgeOfWhoWasOnlineLongAgoIsOneTooMany) {
  for (const bool killed : {false, true}) {
    judge = Judge{kRules, 1, 1};
    log_in_and_see_online(75s);
    keep_alive(90s);
    restart(killed);
    log_in(110s);
    see(Kind::kOnline, 111s);
    EXPECT_EQ(judge.finish(at(125s)).duplicate_edges, 1U) << killed;
  }
}

// Of 30 s there were 20 s left at 100 s, and nobody knows at which moment between 105 and 106 s the
// grace began.
TEST_F(JudgeRestartTest, WhoStaysAwayIsDueWhenTheGraceAndWhatWasLeftIsOver) {
  struct Case {
    Duration seen;
    std::uint64_t false_offline, late;
  };
  for (const Case& c :
       {Case{165s - 1ms, 1, 0}, Case{165s, 0, 0}, Case{187s, 0, 0}, Case{187s + 300ms, 0, 1}}) {
    judge = Judge{kRules, 1, 1};
    log_in_and_see_online(75s);
    keep_alive(90s);
    restart(/*killed=*/false);
    see_offline(Reason::kDisconnect, c.seen);
    const Verdict verdict = judge.finish(at(300s));
    EXPECT_EQ(verdict.false_offline, c.false_offline) << c.seen.count();
    EXPECT_EQ(verdict.late_offline, c.late) << c.seen.count();
    EXPECT_EQ(verdict.wrong_reasons, 0U) << c.seen.count();
  }
}

TEST_F(JudgeRestartTest, WhoStaysAwayAndIsForgottenIsMissed) {
  log_in_and_see_online(75s);
  keep_alive(90s);
  restart(/*killed=*/false);
  EXPECT_EQ(judge.finish(at(300s)).missed_offline, 1U);
}

TEST_F(JudgeRestartTest, BehindAKillAYoungChangeMayBeToldAgain) {
  log_in_and_see_online(85s);
  restart(/*killed=*/true);
  log_in(110s);
  see(Kind::kOnline, 111s);
  see(Kind::kOffline, 141s);
  const Verdict verdict = judge.finish(at(150s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.repeated_edges, 1U);
}

TEST_F(JudgeRestartTest, BehindAKillWhoWasYoungAndStaysAwayOwesNothing) {
  log_in_and_see_online(85s);
  restart(/*killed=*/true);
  EXPECT_TRUE(judge.finish(at(300s)).clean());
}

TEST_F(JudgeRestartTest, BehindAKillAYoungLogoutMayBeTakenBack) {
  log_in_and_see_online(75s);
  keep_alive(85s);
  judge.logout_sent(0, sent(90s));
  judge.logout_answered(0);
  see_offline(Reason::kLogout, 90s + 5ms);
  restart(/*killed=*/true);
  see(Kind::kOffline, 170s);
  const Verdict verdict = judge.finish(at(300s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.repeated_edges, 1U);
}

TEST_F(JudgeRestartTest, BehindAStopALogoutStays) {
  log_in_and_see_online(75s);
  keep_alive(85s);
  judge.logout_sent(0, sent(90s));
  judge.logout_answered(0);
  see_offline(Reason::kLogout, 90s + 5ms);
  restart(/*killed=*/false);
  see(Kind::kOffline, 170s);
  EXPECT_EQ(judge.finish(at(300s)).duplicate_edges, 1U);
}

}  // namespace
}  // namespace pulsewheel::sim

// What a Judge makes of a daemon that ends and starts again.
#include <gtest/gtest.h>

#include "tests/client_sim/judge.h"
#include "tests/client_sim/tests/judge_times.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
using Kind = ObservedEdge::Kind;

/// One user with one session. The daemon leaves at 100 s, is started at 105 s and listens at 106 s;
/// grace 60 s, and its knowledge behind a kill is 20 s old at most.
class JudgeRestartTest : public testing::Test {
 protected:
  void log_in(Duration t) {
    judge.login_sent(0, sent(t));
    judge.login_accepted(0, at(t + 3ms), kTimeout);
  }
  void log_in_and_see_online(Duration t) {
    log_in(t);
    see_online(t + 5ms);
  }
  void see_online(Duration t) { judge.edge(0, {Kind::kOnline, Reason::kLogin, at(t)}); }
  void see_offline(Duration t, Reason reason = Reason::kTimeout) {
    judge.edge(0, {Kind::kOffline, reason, at(t)});
  }
  void keep_alive(Duration t) { judge.packet_sent(0, sent(t)); }
  void restart(bool killed) {
    judge.daemon_stopped(at(100s));
    judge.lost(0);
    judge.daemon_continued(at(106s));
    judge.daemon_restarted(
        {.killed = killed, .left = at(100s), .started = at(105s), .back = at(106s)});
  }

  Judge judge{JudgeRules{.restart_grace = 60s, .snapshot_age = 20s}, /*users=*/1,
              /*sessions_per_user=*/1};
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
  see_offline(136s);
  EXPECT_TRUE(judge.finish(at(150s)).clean());
}

TEST_F(JudgeRestartTest, AnOfflineEdgeOfWhoIsBackIsFalse) {
  for (const bool killed : {false, true}) {
    Judge fresh{JudgeRules{.restart_grace = 60s, .snapshot_age = 20s}, 1, 1};
    judge = fresh;
    log_in_and_see_online(75s);
    keep_alive(90s);
    restart(killed);
    log_in(110s);
    see_offline(120s);
    EXPECT_EQ(judge.finish(at(125s)).false_offline, 1U) << killed;
  }
}

TEST_F(JudgeRestartTest, AnotherOnlineEdgeOfWhoWasOnlineLongAgoIsOneTooMany) {
  for (const bool killed : {false, true}) {
    judge = Judge{JudgeRules{.restart_grace = 60s, .snapshot_age = 20s}, 1, 1};
    log_in_and_see_online(75s);
    keep_alive(90s);
    restart(killed);
    log_in(110s);
    see_online(111s);
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
    judge = Judge{JudgeRules{.restart_grace = 60s, .snapshot_age = 20s}, 1, 1};
    log_in_and_see_online(75s);
    keep_alive(90s);
    restart(/*killed=*/false);
    see_offline(c.seen, Reason::kDisconnect);
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
  see_online(111s);
  see_offline(141s);
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
  see_offline(90s + 5ms, Reason::kLogout);
  restart(/*killed=*/true);
  see_offline(170s);
  const Verdict verdict = judge.finish(at(300s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.repeated_edges, 1U);
}

TEST_F(JudgeRestartTest, BehindAStopALogoutStays) {
  log_in_and_see_online(75s);
  keep_alive(85s);
  judge.logout_sent(0, sent(90s));
  judge.logout_answered(0);
  see_offline(90s + 5ms, Reason::kLogout);
  restart(/*killed=*/false);
  see_offline(170s);
  EXPECT_EQ(judge.finish(at(300s)).duplicate_edges, 1U);
}

}  // namespace
}  // namespace pulsewheel::sim

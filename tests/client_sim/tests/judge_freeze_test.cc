// What a Judge makes of a daemon that was frozen.
#include "tests/client_sim/tests/judge_fixture.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

TEST_F(JudgeTest, WhoeverIsDueWhileTheDaemonIsFrozenIsDueWhenItRunsAgain) {
  struct Case {
    Duration seen;
    std::uint64_t late, missed;
  };
  // Frozen from 20 s to 60 s: late after tick, slack and drain, missed after the grace.
  for (const Case& c : {Case{60s, 0, 0}, Case{62s + 250ms, 0, 0}, Case{62s + 251ms, 1, 0},
                        Case{63s + 250ms, 1, 0}, Case{63s + 251ms, 0, 1}}) {
    Judge one(JudgeRules{}, 1, 1);
    one.login_sent(0, sent(0s));
    one.login_accepted(0, at(3ms), kTimeout);
    one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
    one.daemon_stopped(at(20s));
    one.daemon_continued(at(60s));
    one.edge(0, {Kind::kOffline, Reason::kTimeout, at(c.seen)});
    const Verdict verdict = one.finish(at(90s));
    EXPECT_EQ(verdict.late_offline, c.late) << c.seen.count();
    EXPECT_EQ(verdict.missed_offline, c.missed) << c.seen.count();
    EXPECT_EQ(verdict.false_offline, 0U) << c.seen.count();
    EXPECT_EQ(verdict.lateness.count(), 0U) << "reported apart";
    EXPECT_EQ(verdict.lateness_after_stall.count(), 1U);
  }
}

TEST_F(JudgeTest, AFrozenDaemonThatForgetsTheOverdueMissesThem) {
  log_in_and_see_online(0s);
  judge.daemon_stopped(at(20s));
  judge.daemon_continued(at(60s));
  EXPECT_EQ(judge.finish(at(64s)).missed_offline, 1U);
}

TEST_F(JudgeTest, WhoKeepsAliveWhileTheDaemonIsFrozenIsAlive) {
  log_in_and_see_online(0s);
  judge.daemon_stopped(at(10s));
  keep_alive(20s);
  keep_alive(40s);
  judge.daemon_continued(at(50s));
  see(Kind::kOffline, 50s + 1ms);
  EXPECT_EQ(judge.finish(at(60s)).false_offline, 1U);
}

TEST_F(JudgeTest, WhatWasSentToAFrozenDaemonArrivesWhenItRunsAgain) {
  log_in_and_see_online(0s);
  judge.daemon_stopped(at(10s));
  keep_alive(20s);
  judge.daemon_continued(at(50s));
  see(Kind::kOffline, 81s);  // 61 s behind the packet, 31 s behind SIGCONT
  EXPECT_TRUE(judge.finish(at(90s)).clean());
}

TEST_F(JudgeTest, NothingIsMissedWhileTheDaemonIsFrozen) {
  log_in_and_see_online(0s);
  judge.daemon_stopped(at(20s));
  EXPECT_TRUE(judge.finish(at(90s)).clean());
}

TEST_F(JudgeTest, AFreezeThatWasOverLongBeforeExcusesNothing) {
  log_in_and_see_online(0s);
  judge.daemon_stopped(at(5s));
  judge.daemon_continued(at(10s));
  see(Kind::kOffline, 33s);
  const Verdict verdict = judge.finish(at(60s));
  EXPECT_EQ(verdict.missed_offline, 1U);
  EXPECT_EQ(verdict.lateness.count(), 1U);
}

TEST_F(JudgeTest, AReturnToAFrozenDaemonBeyondTheDeadlineNeedsNoEdge) {
  log_in_and_see_online(0s);
  judge.daemon_stopped(at(20s));
  judge.login_sent(0, sent(40s));
  judge.daemon_continued(at(60s));
  judge.login_accepted(0, at(60s + 1ms), kTimeout);
  EXPECT_TRUE(judge.finish(at(80s)).clean());
}

}  // namespace
}  // namespace pulsewheel::sim

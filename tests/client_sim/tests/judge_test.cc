#include "tests/client_sim/judge.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/client_sim/tests/judge_times.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
using Kind = ObservedEdge::Kind;

/// Rules of the tests: tick 1 s, slack 250 ms, grace 1 s, so an edge is late after T + 1.25 s and
/// missed after T + 2.25 s.
class JudgeTest : public testing::Test {
 protected:
  void log_in(Duration t, std::uint32_t session = 0, Duration timeout = kTimeout) {
    judge.login_sent(session, sent(t));
    judge.login_accepted(session, at(t + 3ms), timeout);
  }
  void see(Kind kind, Duration t, std::uint32_t user = 0) {
    judge.edge(user, {kind, kind == Kind::kOnline ? Reason::kLogin : Reason::kTimeout, at(t)});
  }
  void see_offline(Reason reason, Duration t) { judge.edge(0, {Kind::kOffline, reason, at(t)}); }
  void log_in_and_see_online(Duration t, std::uint32_t session = 0) {
    log_in(t, session);
    see(Kind::kOnline, t + 5ms, session / 2);
  }
  void keep_alive(Duration t, std::uint32_t session = 0) { judge.packet_sent(session, sent(t)); }

  Judge judge{JudgeRules{}, /*users=*/4, /*sessions_per_user=*/2};
};

TEST_F(JudgeTest, FindsNothingInAnHonestLife) {
  log_in_and_see_online(0s);
  keep_alive(20s);
  keep_alive(40s);
  see(Kind::kOffline, 70s + 500ms);
  const Verdict verdict = judge.finish(at(100s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.online_edges, 1U);
  EXPECT_EQ(verdict.offline_edges, 1U);
  ASSERT_EQ(verdict.lateness.count(), 1U);
  EXPECT_NEAR(verdict.lateness.summary().max, 0.498, 1e-6);  // from the stamp after the send
}

TEST_F(JudgeTest, EarlyIsJudgedByTheStampBeforeTheSend) {
  struct Case {
    Duration seen;
    bool false_offline;
  };
  for (const Case& c : {Case{30s - 1ns, true}, {30s, false}, {30s + 1ms, false}}) {
    Judge one(JudgeRules{}, 1, 1);
    one.login_sent(0, sent(0s));
    one.login_accepted(0, at(3ms), kTimeout);
    one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
    one.edge(0, {Kind::kOffline, Reason::kTimeout, at(c.seen)});
    const Verdict verdict = one.finish(at(60s));
    EXPECT_EQ(verdict.false_offline, c.false_offline ? 1U : 0U) << c.seen.count();
    EXPECT_GE(verdict.lateness.summary().min, 0.0) << c.seen.count();
  }
}

TEST_F(JudgeTest, LateAndMissedAreJudgedByTheStampAfterTheSend) {
  struct Case {
    Duration seen;
    std::uint64_t late, missed;
  };
  for (const Case& c : {Case{31s + 252ms, 0, 0}, Case{31s + 253ms, 1, 0}, Case{32s + 252ms, 1, 0},
                        Case{32s + 253ms, 0, 1}}) {
    Judge one(JudgeRules{}, 1, 1);
    one.login_sent(0, sent(0s));
    one.login_accepted(0, at(3ms), kTimeout);
    one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
    one.edge(0, {Kind::kOffline, Reason::kTimeout, at(c.seen)});
    const Verdict verdict = one.finish(at(60s));
    EXPECT_EQ(verdict.late_offline, c.late) << c.seen.count();
    EXPECT_EQ(verdict.missed_offline, c.missed) << c.seen.count();
    EXPECT_EQ(verdict.false_offline, 0U) << c.seen.count();
  }
}

TEST_F(JudgeTest, MissesAnOfflineEdgeThatNeverCame) {
  log_in_and_see_online(0s);
  EXPECT_EQ(judge.finish(at(32s + 252ms)).missed_offline, 1U);
}

TEST_F(JudgeTest, DoesNotMissWhatMayStillCome) {
  log_in_and_see_online(0s);
  EXPECT_TRUE(judge.finish(at(32s + 251ms)).clean());
}

TEST_F(JudgeTest, MissesAnOnlineEdgeThatNeverCame) {
  log_in(0s);
  EXPECT_EQ(judge.finish(at(3s)).missing_online, 1U);
}

TEST_F(JudgeTest, AnOfflineEdgeTellsThatTheOnlineEdgeIsMissing) {
  log_in(0s);
  see(Kind::kOffline, 30s + 500ms);
  const Verdict verdict = judge.finish(at(60s));
  EXPECT_EQ(verdict.missing_online, 1U);
  EXPECT_EQ(verdict.duplicate_edges, 0U);
  EXPECT_EQ(verdict.false_offline, 0U);
}

TEST_F(JudgeTest, CountsASecondEdgeOfEitherKind) {
  log_in_and_see_online(0s);
  see(Kind::kOnline, 6ms);
  see(Kind::kOffline, 30s + 500ms);
  see(Kind::kOffline, 30s + 500ms);
  const Verdict verdict = judge.finish(at(60s));
  EXPECT_EQ(verdict.duplicate_edges, 2U);
  EXPECT_EQ(verdict.false_offline + verdict.missed_offline + verdict.missing_online, 0U);
}

TEST_F(JudgeTest, AnOnlineEdgeWithoutALoginIsReordered) {
  see(Kind::kOnline, 1s, /*user=*/3);
  EXPECT_EQ(judge.finish(at(2s)).duplicate_edges, 1U);
}

TEST_F(JudgeTest, AnOnlineEdgeBeforeItsLoginIsReordered) {
  log_in(2s);
  see(Kind::kOnline, 1s);
  EXPECT_EQ(judge.verdict().duplicate_edges, 1U);
}

TEST_F(JudgeTest, TheLatestDeadlineOfAllSessionsCounts) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  see(Kind::kOffline, 40s + 100ms);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, OneSilentSessionOfTwoEndsNobody) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  see(Kind::kOffline, 30s + 500ms);
  EXPECT_EQ(judge.finish(at(60s)).false_offline, 1U);
}

TEST_F(JudgeTest, EachSessionHasItsOwnTimeout) {
  log_in(0s, 0, 60s);
  see(Kind::kOnline, 5ms);
  log_in(10s, 1, 30s);
  see(Kind::kOffline, 60s + 100ms);
  EXPECT_TRUE(judge.finish(at(70s)).clean());
}

TEST_F(JudgeTest, ALogoutIsDueAtOnce) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  see_offline(Reason::kLogout, 5s + 10ms);
  const Verdict verdict = judge.finish(at(60s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.lateness.count(), 0U) << "a logout says nothing about T";
}

TEST_F(JudgeTest, MissesTheEdgeOfALogout) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  EXPECT_EQ(judge.finish(at(7s + 252ms)).missed_offline, 1U);
}

TEST_F(JudgeTest, OfflineBeforeALogoutIsFalse) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  see(Kind::kOffline, 4s);
  EXPECT_EQ(judge.finish(at(60s)).false_offline, 1U);
}

TEST_F(JudgeTest, ALogoutOfOneOfTwoSessionsEndsNobody) {
  log_in_and_see_online(0s, 0);
  log_in(1s, 1);
  judge.logout_sent(0, sent(5s));
  see(Kind::kOffline, 31s + 500ms);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, AReconnectWithinTheLingerMakesNoEdge) {
  log_in_and_see_online(0s);
  judge.closed(0, sent(10s));
  log_in(25s);
  keep_alive(45s);
  EXPECT_TRUE(judge.finish(at(50s)).clean());
}

TEST_F(JudgeTest, AReconnectBeyondTheLingerNeedsBothEdges) {
  log_in_and_see_online(0s);
  judge.closed(0, sent(10s));
  see_offline(Reason::kDisconnect, 30s + 700ms);
  log_in(40s);
  see(Kind::kOnline, 40s + 5ms);
  keep_alive(60s);
  EXPECT_TRUE(judge.finish(at(80s)).clean());
}

TEST_F(JudgeTest, AReconnectBeyondTheLingerDoesNotHideAMissedEdge) {
  log_in_and_see_online(0s);
  log_in(40s);
  keep_alive(60s);
  EXPECT_EQ(judge.finish(at(80s)).missed_offline, 1U);
}

TEST_F(JudgeTest, AnEdgeReadLateBelongsToTheSilenceBeforeTheLogin) {
  log_in_and_see_online(0s);
  log_in(40s);
  see(Kind::kOffline, 30s + 700ms);  // seen in time, told after the login
  see(Kind::kOnline, 40s + 5ms);
  const Verdict verdict = judge.finish(at(60s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_NEAR(verdict.lateness.summary().max, 0.698, 1e-6);
}

TEST_F(JudgeTest, AKeepaliveBetweenTheDeadlineAndTheTickMayComeTooLateOrJustInTime) {
  {
    log_in_and_see_online(0s);
    keep_alive(30s + 500ms);  // not expired yet: alive again
    see(Kind::kOffline, 60s + 600ms);
    EXPECT_TRUE(judge.verdict().clean());
  }
  {
    log_in_and_see_online(0s, 2);
    keep_alive(30s + 500ms, 2);  // expired already: the daemon will close
    see(Kind::kOffline, 30s + 400ms, 1);
    EXPECT_TRUE(judge.finish(at(90s)).clean());
  }
}

TEST_F(JudgeTest, WhatTheSimulatorSentTooLateIsNotTheDaemonsFault) {
  log_in_and_see_online(0s);
  see(Kind::kOffline, 30s + 500ms);
  keep_alive(35s);  // into a session that is gone
  const Verdict verdict = judge.finish(at(100s));
  EXPECT_TRUE(verdict.clean());
}

TEST_F(JudgeTest, AFalseOfflineIsCountedOnce) {
  log_in_and_see_online(0s);
  see(Kind::kOffline, 10s);
  keep_alive(20s);
  log_in(21s);
  see(Kind::kOnline, 21s + 5ms);
  const Verdict verdict = judge.finish(at(30s));
  EXPECT_EQ(verdict.false_offline, 1U);
  EXPECT_EQ(verdict.duplicate_edges + verdict.missing_online + verdict.missed_offline, 0U);
}

TEST_F(JudgeTest, ADroppedOfflineEdgeIsCountedOnceHoweverLongTheRun) {
  log_in_and_see_online(0s);
  EXPECT_EQ(judge.finish(at(1h)).missed_offline, 1U);
}

TEST_F(JudgeTest, ARefusedLoginIsNoLifeAndNoDeath) {
  judge.login_sent(0, sent(0s));
  judge.login_refused(0);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, ARefusedLoginDoesNotExtendALingeringUser) {
  log_in_and_see_online(0s);
  judge.login_sent(0, sent(20s));
  judge.login_refused(0);
  see(Kind::kOffline, 30s + 500ms);
  EXPECT_TRUE(judge.finish(at(100s)).clean());
}

TEST_F(JudgeTest, ALoginWhoseAnswerWasLostMayHaveExtendedTheUser) {
  log_in_and_see_online(0s);
  judge.login_sent(0, sent(20s));
  judge.login_refused(0);
  see(Kind::kOffline, 50s + 500ms);
  EXPECT_TRUE(judge.finish(at(100s)).clean());
}

TEST_F(JudgeTest, AnEarlierRefusalExcusesNoFalseOffline) {
  judge.login_sent(0, sent(0s));
  judge.login_refused(0);
  log_in_and_see_online(1s);
  see(Kind::kOffline, 11s);
  EXPECT_EQ(judge.finish(at(60s)).false_offline, 1U);
}

TEST_F(JudgeTest, AnOperatorsOfflineBreaksNoPromise) {
  log_in_and_see_online(0s);
  judge.edge(0, {Kind::kOffline, Reason::kKicked, at(5s)});
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, AReasonWithoutACauseIsWrong) {
  struct Case {
    Reason reason;
    std::uint64_t after_silence, after_close, after_logout;
  };
  for (const Case& c : {Case{Reason::kTimeout, 0, 1, 1}, Case{Reason::kDisconnect, 1, 0, 1},
                        Case{Reason::kLogout, 1, 1, 0}, Case{Reason::kLogin, 1, 1, 1},
                        Case{Reason::kOther, 1, 1, 1}}) {
    const auto wrong = [&](const std::function<Duration(Judge&)>& end) {
      Judge one(JudgeRules{}, 1, 1);
      one.login_sent(0, sent(0s));
      one.login_accepted(0, at(3ms), kTimeout);
      one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
      one.edge(0, {Kind::kOffline, c.reason, at(end(one))});
      EXPECT_EQ(one.verdict().violations(), one.verdict().wrong_reasons);
      return one.finish(at(60s)).wrong_reasons;
    };
    EXPECT_EQ(wrong([](Judge&) { return 30s + 500ms; }), c.after_silence);
    EXPECT_EQ(wrong([](Judge& one) {
                one.closed(0, sent(10s));
                return 30s + 500ms;
              }),
              c.after_close);
    EXPECT_EQ(wrong([](Judge& one) {
                one.logout_sent(0, sent(10s));
                return 10s + 5ms;
              }),
              c.after_logout);
  }
}

TEST_F(JudgeTest, TheReasonIsThatOfTheSessionThatRanOutLast) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  judge.closed(0, sent(11s));
  see_offline(Reason::kDisconnect, 40s + 100ms);
  EXPECT_EQ(judge.finish(at(60s)).wrong_reasons, 1U);
}

TEST_F(JudgeTest, ACloseRightAtTheDeadlineLeavesTheReasonOpen) {
  log_in_and_see_online(0s);
  judge.closed(0, sent(30s + 100ms));
  see_offline(Reason::kTimeout, 30s + 500ms);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, AnOnlineEdgeHasTheReasonLogin) {
  log_in(0s);
  judge.edge(0, {Kind::kOnline, Reason::kTimeout, at(5ms)});
  EXPECT_EQ(judge.verdict().wrong_reasons, 1U);
}

TEST_F(JudgeTest, ATakeoverMovesTheDeadlineAndMakesNoEdge) {
  log_in_and_see_online(0s);
  log_in(20s);  // the same session, its connection still open
  see(Kind::kOffline, 50s + 500ms);
  const Verdict verdict = judge.finish(at(60s));
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.online_edges, 1U);
}

TEST_F(JudgeTest, EdgesOfATakeoverAreAFalseOffline) {
  log_in_and_see_online(0s);
  log_in(10s);
  see_offline(Reason::kDisconnect, 10s + 4ms);
  see(Kind::kOnline, 10s + 5ms);
  EXPECT_EQ(judge.finish(at(20s)).false_offline, 1U);
}

TEST_F(JudgeTest, AnAnsweredLogoutAndALoginOnItsHeelsNeedBothEdges) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  judge.logout_answered(0);
  log_in(5s + 4ms);
  EXPECT_EQ(judge.finish(at(20s)).missed_offline, 1U);
}

TEST_F(JudgeTest, ALogoutMayBeReadBeforeALoginOnAnotherConnection) {
  for (const bool logout_first : {true, false}) {
    Judge one(JudgeRules{}, 1, 2);
    one.login_sent(0, sent(0s));
    one.login_accepted(0, at(3ms), kTimeout);
    one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
    one.login_sent(1, sent(10s));
    one.logout_sent(0, sent(10s + 3ms));
    if (logout_first) one.edge(0, {Kind::kOffline, Reason::kLogout, at(10s + 9ms)});
    one.login_accepted(1, at(10s + 10ms), kTimeout);
    if (logout_first) one.edge(0, {Kind::kOnline, Reason::kLogin, at(10s + 11ms)});
    EXPECT_TRUE(one.finish(at(30s)).clean()) << logout_first;
  }
}

TEST_F(JudgeTest, TheAnswerToOneLogoutSaysNothingOfAnother) {
  log_in_and_see_online(0s, 0);
  log_in(1s, 1);
  judge.logout_sent(0, sent(5s));
  judge.logout_sent(1, sent(5s + 1ms));
  judge.logout_answered(0);
  log_in(5s + 4ms, 0);  // read before the second LOGOUT
  EXPECT_TRUE(judge.finish(at(20s)).clean());
}

TEST_F(JudgeTest, ASessionThatRanOutInAFreezeMayEndBehindALogout) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  judge.daemon_stopped(at(25s));
  judge.logout_sent(1, sent(38s));
  judge.daemon_continued(at(40s));
  see_offline(Reason::kTimeout, 40s + 100ms);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, AQuickLogoutMayBeCoveredByASessionThatHasOnlyJustRunOut) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  judge.packet_sent(1, sent(20s));
  judge.logout_sent(1, sent(30s + 400ms));  // the other one ran out at 30 s
  judge.logout_answered(1);
  log_in(30s + 405ms, 1);
  EXPECT_TRUE(judge.finish(at(50s)).clean());
}

TEST_F(JudgeTest, AQuickLogoutMayBeCoveredByASessionThatRanOutWhileTheDaemonWasFrozen) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  judge.daemon_stopped(at(20s));
  judge.logout_sent(1, sent(38s));
  judge.daemon_continued(at(40s));
  judge.logout_answered(1);
  log_in(40s + 5ms, 1);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, TheEdgesOfAQuickLogoutMayBeReadBehindTheNextLogin) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  judge.logout_answered(0);
  log_in(5s + 4ms);
  see_offline(Reason::kLogout, 5s + 10ms);
  see(Kind::kOnline, 5s + 10ms);
  EXPECT_TRUE(judge.finish(at(20s)).clean());
}

TEST_F(JudgeTest, DoesNotMissTheEdgesOfAQuickLogoutThatMayStillCome) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  judge.logout_answered(0);
  log_in(5s + 4ms);
  EXPECT_TRUE(judge.finish(at(7s)).clean());
}

TEST_F(JudgeTest, ALogoutThatNobodyAnsweredMayBeReadBehindTheNextLogin) {
  log_in_and_see_online(0s);
  judge.logout_sent(0, sent(5s));
  log_in(5s + 4ms);
  EXPECT_TRUE(judge.finish(at(20s)).clean());
}

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

TEST_F(JudgeTest, ALoginInDoubtDoesNotMakeAnOfflineFalse) {
  log_in_and_see_online(0s);
  judge.doubt_logins(true);
  judge.login_sent(0, sent(29s));
  see(Kind::kOffline, 30s + 500ms);
  judge.login_accepted(0, at(35s), kTimeout);
  see(Kind::kOnline, 35s);
  EXPECT_TRUE(judge.finish(at(50s)).clean());
}

TEST_F(JudgeTest, ALoginInDoubtIsReadWhenItIsAnswered) {
  judge.doubt_logins(true);
  judge.login_sent(0, sent(0s));
  judge.login_accepted(0, at(5s), kTimeout);
  see(Kind::kOnline, 5s);
  see(Kind::kOffline, 35s + 900ms);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST_F(JudgeTest, APacketBehindItsOwnDeadlineKeepsNobodyOnline) {
  log_in_and_see_online(0s, 0);
  log_in(10s, 1);
  keep_alive(31s, 0);  // into a connection that may be closed; the other one lasts until 40 s
  see(Kind::kOffline, 40s + 500ms);
  EXPECT_TRUE(judge.finish(at(80s)).clean());
}

TEST_F(JudgeTest, ALoginInDoubtThatWasAcceptedCounts) {
  log_in_and_see_online(0s);
  judge.doubt_logins(true);
  log_in(20s);
  see(Kind::kOffline, 31s);
  EXPECT_EQ(judge.finish(at(50s)).false_offline, 1U);
}

TEST(JudgeKickTest, AKickNeedsSomebodyWhoKicks) {
  JudgeRules rules;
  rules.kicks_are_ours = true;
  Judge judge(rules, 2, 1);
  for (const std::uint32_t user : {0U, 1U}) {
    judge.login_sent(user, sent(0s));
    judge.login_accepted(user, at(3ms), kTimeout);
    judge.edge(user, {Kind::kOnline, Reason::kLogin, at(5ms)});
  }
  judge.kick_sent(0);
  judge.edge(0, {Kind::kOffline, Reason::kKicked, at(1s)});
  EXPECT_EQ(judge.verdict().wrong_reasons, 0U);
  judge.edge(1, {Kind::kOffline, Reason::kKicked, at(1s)});
  EXPECT_EQ(judge.verdict().wrong_reasons, 1U);
}

TEST_F(JudgeTest, UsersDoNotMix) {
  log_in_and_see_online(0s, 0);
  log_in_and_see_online(0s, 2);
  keep_alive(20s, 2);
  see(Kind::kOffline, 30s + 500ms, 0);
  see(Kind::kOffline, 30s + 500ms, 1);
  EXPECT_EQ(judge.finish(at(40s)).false_offline, 1U);
}

TEST(JudgeOfflineOnDisconnectTest, ACloseIsDueAtOnce) {
  JudgeRules rules;
  rules.offline_on_disconnect = true;
  Judge judge(rules, 1, 1);
  judge.login_sent(0, sent(0s));
  judge.login_accepted(0, at(3ms), kTimeout);
  judge.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
  judge.closed(0, sent(10s));
  judge.edge(0, {Kind::kOffline, Reason::kDisconnect, at(10s + 5ms)});
  EXPECT_TRUE(judge.finish(at(60s)).clean());
}

TEST(VerdictTest, MergeAddsEverything) {
  Verdict a;
  a.false_offline = a.missed_offline = a.late_offline = a.missing_online = a.duplicate_edges = 1;
  a.wrong_reasons = a.untold_takeovers = 1;
  a.online_edges = a.offline_edges = 5;
  a.lateness.add(1s);
  a.lateness_after_stall.add(1s);
  Verdict b = a;
  b.merge(a);
  EXPECT_EQ(b.false_offline + b.missed_offline + b.late_offline + b.missing_online, 8U);
  EXPECT_EQ(b.duplicate_edges, 2U);
  EXPECT_EQ(b.wrong_reasons + b.untold_takeovers, 4U);
  EXPECT_EQ(b.violations(), 14U);
  EXPECT_EQ(b.online_edges + b.offline_edges, 20U);
  EXPECT_EQ(b.lateness.count(), 2U);
  EXPECT_EQ(b.lateness_after_stall.count(), 2U);
}

TEST(LatenessTest, QuantilesAreSamples) {
  Lateness lateness;
  for (int i = 1000; i >= 1; --i)
    lateness.add(std::chrono::milliseconds{i});
  const Lateness::Summary summary = lateness.summary();
  EXPECT_DOUBLE_EQ(summary.min, 0.001);
  EXPECT_DOUBLE_EQ(summary.p50, 0.5);
  EXPECT_DOUBLE_EQ(summary.p99, 0.99);
  EXPECT_DOUBLE_EQ(summary.p999, 0.999);
  EXPECT_DOUBLE_EQ(summary.max, 1.0);
}

TEST(LatenessTest, WithoutSamplesAllIsZero) {
  EXPECT_EQ(Lateness{}.summary().max, 0.0);
  EXPECT_EQ(Lateness{}.count(), 0U);
}

}  // namespace
}  // namespace pulsewheel::sim

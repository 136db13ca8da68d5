// What a Judge makes of edges that come early, late, twice or not at all.
#include <gmock/gmock.h>

#include "tests/client_sim/tests/judge_fixture.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
using Kind = ObservedEdge::Kind;

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

TEST_F(JudgeTest, TheFirstOfTwoLoginsBehindAnUnreadEdgeMayBeTheCauseOfTheNext) {
  log_in_and_see_online(0s);
  judge.lost(0);
  judge.login_sent(0, sent(30s + 600ms));
  judge.lost(0);
  judge.login_sent(0, sent(30s + 700ms));
  see(Kind::kOffline, 30s + 500ms);
  see(Kind::kOnline, 30s + 605ms);
  judge.login_accepted(0, at(30s + 710ms), kTimeout);
  see(Kind::kOffline, 61s);
  EXPECT_TRUE(judge.finish(at(90s)).clean());
}

/// A session of 30 s is told at 20 s that it has another timeout, and says no more.
struct TimeoutChange {
  Duration timeout;
  Duration offline;
  std::uint64_t early, late;
};

TEST_F(JudgeTest, AnotherTimeoutMovesTheDeadlineAsThePromiseSays) {
  for (const TimeoutChange& c :
       {TimeoutChange{5s, 24s + 700ms, 1, 0},  // counted from SETTINGS
        TimeoutChange{5s, 24s + 800ms, 0, 0}, TimeoutChange{5s, 26s + 200ms, 0, 0},
        TimeoutChange{5s, 26s + 300ms, 0, 1},
        TimeoutChange{25s, 29s + 900ms, 1, 0},  // by which it has no longer than it had
        TimeoutChange{25s, 30s, 0, 0}, TimeoutChange{25s, 31s + 300ms, 0, 1},
        TimeoutChange{60s, 59s + 900ms, 1, 0},  // counted from the last packet
        TimeoutChange{60s, 60s, 0, 0}, TimeoutChange{60s, 61s + 300ms, 0, 1}}) {
    Judge one(JudgeRules{}, 1, 1);
    one.login_sent(0, sent(0s));
    one.login_accepted(0, at(3ms), kTimeout);
    one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
    one.timeout_changed(0, c.timeout, at(20s));
    one.edge(0, {Kind::kOffline, Reason::kTimeout, at(c.offline)});
    const Verdict verdict = one.finish(at(90s));
    EXPECT_EQ(verdict.false_offline, c.early) << c.timeout.count() << ' ' << c.offline.count();
    EXPECT_EQ(verdict.late_offline, c.late) << c.timeout.count() << ' ' << c.offline.count();
  }
}

TEST_F(JudgeTest, LongerTimeoutBehindAShorterOneCountsFromTheLastPacket) {
  for (const Duration offline : std::initializer_list<Duration>{24s + 700ms, 25s, 26s + 300ms}) {
    Judge one(JudgeRules{}, 1, 1);
    one.login_sent(0, sent(0s));
    one.login_accepted(0, at(3ms), kTimeout);
    one.edge(0, {Kind::kOnline, Reason::kLogin, at(5ms)});
    one.timeout_changed(0, 5s, at(20s));   // until 25 s
    one.timeout_changed(0, 10s, at(21s));  // would have been over at 10 s
    one.edge(0, {Kind::kOffline, Reason::kTimeout, at(offline)});
    const Verdict verdict = one.finish(at(90s));
    EXPECT_EQ(verdict.false_offline, offline < 25s - 250ms ? 1U : 0U) << offline.count();
    EXPECT_EQ(verdict.late_offline, offline > 26s + 250ms ? 1U : 0U) << offline.count();
  }
}

TEST_F(JudgeTest, PacketRightBehindAShorterTimeoutKeepsTheUserOnline) {
  log_in_and_see_online(0s);
  judge.timeout_changed(0, 5s, at(20s));
  keep_alive(20s + 1ms);
  see(Kind::kOffline, 25s + 500ms);
  EXPECT_TRUE(judge.finish(at(60s)).clean());
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

class JudgeDoubtTest : public JudgeTest {
 protected:
  void see_an_edge_behind_the_answer_to_a_login_in_doubt() {
    log_in_and_see_online(0s, 0);
    judge.doubt_logins(true);
    judge.login_sent(1, sent(29s));
    judge.login_accepted(1, at(30s + 200ms), kTimeout);
    see(Kind::kOffline, 30s + 250ms);
  }
};

TEST_F(JudgeDoubtTest, AnEdgeToldBehindTheAnswerMayHaveComeBeforeALoginInDoubtWasRead) {
  see_an_edge_behind_the_answer_to_a_login_in_doubt();
  see(Kind::kOnline, 30s + 251ms);
  see(Kind::kOffline, 60s + 700ms);
  EXPECT_TRUE(judge.finish(at(90s)).clean());
}

TEST_F(JudgeDoubtTest, ALoginInDoubtThatWasReadBehindAnEdgeNeedsOneOfItsOwn) {
  see_an_edge_behind_the_answer_to_a_login_in_doubt();
  EXPECT_EQ(judge.finish(at(50s)).missing_online, 1U);
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

TEST_F(JudgeTest, AFindingNamesTheUserAndWhatIsKnownOfTheSessions) {
  log_in_and_see_online(0s, /*session=*/2);
  keep_alive(10s, 2);
  see(Kind::kOffline, 30s + 500ms, /*user=*/1);
  const auto findings = judge.take_findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].user, 1U);
  EXPECT_THAT(findings[0].text, testing::StartsWith("a false offline; was online; session 0 live"));
  EXPECT_THAT(findings[0].text,
              testing::HasSubstr("last packet 20.500 s before, timeout 30000 ms"));
  EXPECT_THAT(judge.take_findings(), testing::IsEmpty());
}

TEST_F(JudgeTest, FindingsAreBoundedAndTheirNumberIsNot) {
  constexpr std::uint64_t kMany = 1'000;
  for (std::uint64_t i = 0; i < kMany; ++i)
    see(Kind::kOnline, 1s);
  EXPECT_EQ(judge.verdict().duplicate_edges, kMany);
  EXPECT_LT(judge.take_findings().size(), 50U);
}

}  // namespace
}  // namespace pulsewheel::sim

// What a Judge makes of edges' reasons, of takeovers, and of logouts on the heels of which a login
// comes.
#include <functional>

#include "tests/client_sim/tests/judge_fixture.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace pulsewheel::sim

#include "daemon/core/presence_registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

using std::chrono::seconds;

class PresenceRegistryTest : public PresenceFixture {};

// Online and offline.

TEST_F(PresenceRegistryTest, TheFirstLoginIsAnOnlineEdge) {
  const LoginDecision decision =
      registry().login({"alice", "", session(1), at(90)}, at(100), edges_);
  EXPECT_EQ(decision.verdict, LoginVerdict::kAccepted);
  EXPECT_FALSE(decision.taken_over);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.uid, "alice");
  EXPECT_EQ(edge.kind, EdgeKind::kOnline);
  EXPECT_EQ(edge.reason, EdgeReason::kLogin);
  EXPECT_EQ(edge.at, at(100));
  EXPECT_EQ(edge.due, at(100));
  EXPECT_EQ(edge.last_seen, at(90));
  EXPECT_EQ(edge.sessions, 1U);
  EXPECT_EQ(state("alice", 100), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, ASecondSessionOfTheUserIsNoEdge) {
  login("alice", session(1), 0);
  drop_edges();
  login("alice", session(2), 10);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().online_users(), 1U);
  EXPECT_EQ(registry().live_sessions(), 2U);
}

TEST_F(PresenceRegistryTest, LogoutOfTheOnlySessionIsAnOfflineEdgeAtOnce) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kLogout, 5'000, 34'000));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.kind, EdgeKind::kOffline);
  EXPECT_EQ(edge.reason, EdgeReason::kLogout);
  EXPECT_EQ(edge.at, at(5'000));
  EXPECT_EQ(edge.due, at(5'000));
  EXPECT_EQ(edge.last_seen, at(33'000));
  EXPECT_EQ(edge.sessions, 0U);
  EXPECT_EQ(state("alice", 5'000), PresenceState::kOffline);
}

TEST_F(PresenceRegistryTest, SilenceOfTheOnlySessionIsAnOfflineEdgeThatWasDueAtTheDeadline) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kTimeout, 30'400, 30'000));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
  EXPECT_EQ(edge.at, at(30'400));
  EXPECT_EQ(edge.due, at(30'000));
  EXPECT_EQ(edge.last_seen, at(29'000));
}

TEST_F(PresenceRegistryTest, AnEndedSessionLeavesTheUserOnlineWhileAnotherLives) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0);
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kLogout, 1'000, 30'000));
  EXPECT_TRUE(edges_.empty());
  EXPECT_TRUE(end(user, session(2), CloseReason::kLogout, 2'000, 30'000));
  EXPECT_EQ(only_edge().reason, EdgeReason::kLogout);
}

TEST_F(PresenceRegistryTest, TheReasonIsThatOfTheLastSessionAlive) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0);
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kLogout, 1'000, 30'000));
  EXPECT_TRUE(end(user, session(2), CloseReason::kTimeout, 31'000, 30'500));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
  EXPECT_EQ(edge.due, at(30'500));
}

TEST_F(PresenceRegistryTest, TwoSessionsOfTwoShardsExpiringInOneTickAreOneEdge) {
  const UserRef user = login("alice", session(1, 0), 0).user;
  login("alice", session(1, 1), 0);
  drop_edges();
  EXPECT_TRUE(end(user, session(1, 0), CloseReason::kTimeout, 30'000, 29'500));
  EXPECT_TRUE(end(user, session(1, 1), CloseReason::kTimeout, 30'000, 29'700));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.kind, EdgeKind::kOffline);
  EXPECT_EQ(edge.due, at(29'700));
}

TEST_F(PresenceRegistryTest, LastSeenIsTheNewestOfAllSessionsAlsoOfEndedOnes) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0);
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kLogout, 20'000, 21'000));
  EXPECT_TRUE(end(user, session(2), CloseReason::kTimeout, 20'100, 20'050));
  EXPECT_EQ(only_edge().last_seen, at(20'000));
}

TEST_F(PresenceRegistryTest, ComingBackIsAnOnlineEdgeAndKeepsTheRecord) {
  const UserRef before = login("alice", session(1), 0).user;
  end(before, session(1), CloseReason::kLogout, 1'000, 30'000);
  drop_edges();
  const UserRef after = login("alice", session(2), 2'000).user;
  EXPECT_EQ(after, before);
  EXPECT_EQ(only_edge().kind, EdgeKind::kOnline);
}

// Lingering.

TEST_F(PresenceRegistryTest, AClosedConnectionLingersUntilItsDeadlineAndNotATickLonger) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 5'000, 30'500));
  EXPECT_EQ(registry().lingering_users(), 1U);
  EXPECT_EQ(registry().live_sessions(), 0U);
  advance(30'999);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(state("alice", 30'999), PresenceState::kOnline);
  advance(31'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.at, at(31'000));
  EXPECT_EQ(edge.due, at(30'500));
  EXPECT_EQ(edge.last_seen, at(29'500));
  EXPECT_EQ(registry().lingering_users(), 0U);
}

TEST_F(PresenceRegistryTest, EveryReasonButLogoutTimeoutTakeoverAndKickLingers) {
  for (std::size_t i = 0; i < kCloseReasonCount; ++i) {
    const auto reason = static_cast<CloseReason>(i);
    if (reason == CloseReason::kTimeout) continue;  // its deadline has come by definition
    const std::string uid = "user" + std::to_string(i);
    const auto number = static_cast<std::uint32_t>(i);
    const UserRef user = login(uid, session(number), 0).user;
    EXPECT_TRUE(end(user, session(number), reason, 1'000, 30'000));
    EXPECT_EQ(state(uid, 1'000) == PresenceState::kOnline, lingers(reason)) << to_string(reason);
  }
}

TEST_F(PresenceRegistryTest, WithLingerOffAClosedConnectionEndsAtOnce) {
  make({.linger = false});
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerReset, 5'000, 30'000));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(5'000));
}

TEST_F(PresenceRegistryTest, AConnectionWhoseCloseIsReadAfterItsDeadlineWaitsForTheWheel) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 30'000, 30'000));
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(30'000));
}

TEST_F(PresenceRegistryTest, ALogoutWaitsForTheWheelWhereAnotherSessionHasRunOut) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  login("alice", session(2), 0, "tablet");
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 10'000, 30'000));
  EXPECT_TRUE(end(user, session(2), CloseReason::kLogout, 30'500, 60'000));
  EXPECT_TRUE(edges_.empty()) << "the phone may be coming back";
  advance(31'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kLogout);
  EXPECT_EQ(edge.due, at(30'500));
}

TEST_F(PresenceRegistryTest, ALoginBehindACloseThatWasReadLateIsNoEdge) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  advance(70'000);
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 70'000, 30'000));
  login("alice", session(2), 70'000);  // came back at 20'000, through a shard that was stalled
  advance(71'000);
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRegistryTest, ALoginWhileLingeringIsNoEdgeAndDisarmsTheHook) {
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kPeerClosed, 5'000, 30'000);
  drop_edges();
  EXPECT_EQ(login("alice", session(2), 6'000).user, user);
  EXPECT_EQ(armed_hooks(), 0U);
  advance(60'000);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().lingering_users(), 0U);
  EXPECT_EQ(state("alice", 60'000), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, ADeviceThatReturnsDisarmsTheHookToo) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  end(user, session(1), CloseReason::kPeerClosed, 5'000, 30'000);
  ASSERT_EQ(armed_hooks(), 1U);
  login("alice", session(2), 6'000, "phone");
  EXPECT_EQ(armed_hooks(), 0U);
}

TEST_F(PresenceRegistryTest, ALoginAfterTheHookExpiredButBeforeItWasHandledKeepsTheUserOnline) {
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kPeerClosed, 5'000, 30'000);
  drop_edges();
  HookList expired;
  ASSERT_TRUE(wheel_.advance(clock_.floor(at(30'000)), 10, expired));
  ASSERT_FALSE(expired.empty());
  login("alice", session(2), 30'000);
  EXPECT_TRUE(expired.empty());
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(state("alice", 30'000), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, AHookHandedInEarlyIsArmedAgain) {
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kPeerClosed, 0, 30'000);
  drop_edges();
  HookList expired;
  ASSERT_TRUE(wheel_.advance(Tick{30}, 10, expired));
  registry().expire_lingering(*expired.pop_front(), at(29'999), edges_);  // a clock a bit behind
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  EXPECT_EQ(only_edge().due, at(30'000));
}

TEST_F(PresenceRegistryTest, ALingeringUserEndsAtTheLatestDeadlineOfAllClosedSessions) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  login("alice", session(2), 0, "tablet");
  login("alice", session(3), 0, "tv");
  end(user, session(2), CloseReason::kPeerClosed, 1'000, 60'000);
  end(user, session(1), CloseReason::kPeerClosed, 1'000, 30'000);
  end(user, session(3), CloseReason::kPeerClosed, 1'000, 45'000);
  drop_edges();
  EXPECT_EQ(advance(59'999), 0U) << "one wake-up a user is enough";
  EXPECT_TRUE(edges_.empty());
  advance(60'000);
  EXPECT_EQ(only_edge().due, at(60'000));
}

TEST_F(PresenceRegistryTest, ASilentSessionLeavesTheUserOnlineWhileALaterOneLingers) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0, "phone");
  end(user, session(2), CloseReason::kPeerClosed, 1'000, 40'000);
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kTimeout, 30'000, 30'000));
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().lingering_users(), 1U);
  advance(40'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(40'000));
}

TEST_F(PresenceRegistryTest, OfTwoSessionsThatHaveBothRunOutTheLaterGivesTheReason) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0, "phone");
  end(user, session(2), CloseReason::kPeerClosed, 1'000, 30'200);
  drop_edges();
  // The silent session's end arrives before the hook of the lingering one comes round.
  EXPECT_TRUE(end(user, session(1), CloseReason::kTimeout, 30'300, 30'100));
  EXPECT_TRUE(edges_.empty()) << "the phone may be coming back";
  advance(31'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(30'200));
  advance(60'000);
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRegistryTest, AnOldConnectionsLingerDoesNotOutliveALogoutOfTheSameDevice) {
  for (const std::string_view device : {"", "phone"}) {
    const UserRef user = login("alice", session(1), 0, device).user;
    end(user, session(1), CloseReason::kPeerReset, 1'000, 30'000);
    login("alice", session(2), 2'000, device);
    drop_edges();
    end(user, session(2), CloseReason::kLogout, 3'000, 30'000);
    EXPECT_EQ(only_edge().reason, EdgeReason::kLogout) << device;
  }
}

TEST_F(PresenceRegistryTest, AnotherDevicesLingerOutlivesALogout) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  end(user, session(1), CloseReason::kPeerReset, 1'000, 30'000);
  login("alice", session(2), 2'000, "tablet");
  drop_edges();
  end(user, session(2), CloseReason::kLogout, 3'000, 32'000);
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  EXPECT_EQ(only_edge().reason, EdgeReason::kDisconnect);
}

TEST_F(PresenceRegistryTest, OfSeveralClosedSessionsWithoutALabelTheLatestLingers) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0);
  end(user, session(2), CloseReason::kPeerClosed, 1'000, 40'000);
  end(user, session(1), CloseReason::kPeerClosed, 2'000, 30'000);
  const UserView view = registry().find("alice", at(2'000));
  ASSERT_EQ(view.sessions.size(), 1U);
  EXPECT_EQ(view.sessions[0].deadline, at(40'000));
}

TEST_F(PresenceRegistryTest, ALingeringSessionBesideALiveOneIsForgottenAtItsDeadline) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  login("alice", session(2), 0, "tablet");
  end(user, session(1), CloseReason::kPeerClosed, 1'000, 30'000);
  drop_edges();
  EXPECT_EQ(registry().find("alice", at(1'000)).sessions.size(), 2U);
  advance(30'000);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().find("alice", at(30'000)).sessions.size(), 1U);
  EXPECT_EQ(armed_hooks(), 0U);
}

TEST_F(PresenceRegistryTest, ATimeoutReportedBeforeItsDeadlineWaitsForIt) {
  make({.linger = false});  // shards read their clocks apart, whatever the policy
  const UserRef user = login("alice", session(1, 1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1, 1), CloseReason::kTimeout, 29'999, 30'000));
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
  EXPECT_EQ(edge.due, at(30'000));
  EXPECT_GE(edge.at, edge.due);
}

// Takeover, and late news.

TEST_F(PresenceRegistryTest, TheSameDeviceTakesOverAndOtherDevicesDoNot) {
  const LoginDecision phone = login("alice", session(1), 0, "phone");
  EXPECT_FALSE(login("alice", session(2), 0, "tablet").taken_over);
  EXPECT_FALSE(login("bob", session(3), 0, "phone").taken_over);
  drop_edges();
  const LoginDecision again = login("alice", session(4), 1'000, "phone");
  EXPECT_EQ(again.taken_over, session(1));
  EXPECT_GT(again.session_id, phone.session_id);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().live_sessions(), 3U);
}

TEST_F(PresenceRegistryTest, SessionsWithoutALabelDoNotTakeOver) {
  login("alice", session(1), 0);
  EXPECT_FALSE(login("alice", session(2), 0).taken_over);
  EXPECT_EQ(registry().live_sessions(), 2U);
}

TEST_F(PresenceRegistryTest, ALateEndOfATakenOverSessionChangesNothing) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  login("alice", session(2), 1'000, "phone");
  drop_edges();
  for (std::size_t i = 0; i < kCloseReasonCount; ++i) {
    EXPECT_FALSE(end(user, session(1), static_cast<CloseReason>(i), 30'000, 30'000));
  }
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().live_sessions(), 1U);
  EXPECT_EQ(state("alice", 30'000), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, OfAHundredRacersForOneDeviceTheLastOneStays) {
  UserRef user;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const LoginDecision decision =
        login("alice", session(i, static_cast<ShardIndex>(i % 4)), 0, "x");
    ASSERT_EQ(decision.verdict, LoginVerdict::kAccepted);
    EXPECT_EQ(decision.taken_over.has_value(), i > 0);
    user = decision.user;
  }
  EXPECT_EQ(only_edge().kind, EdgeKind::kOnline);
  EXPECT_EQ(registry().live_sessions(), 1U);
  for (std::uint32_t i = 0; i < 99; ++i) {
    EXPECT_FALSE(end(user, session(i, static_cast<ShardIndex>(i % 4)), CloseReason::kPeerReset,
                     1'000, 30'000));
  }
  EXPECT_TRUE(edges_.empty());
  EXPECT_TRUE(end(user, session(99, 3), CloseReason::kLogout, 2'000, 30'000));
  EXPECT_EQ(only_edge().kind, EdgeKind::kOffline);
}

TEST_F(PresenceRegistryTest, ASessionEndsOnce) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0);
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 1'000, 30'000));
  EXPECT_FALSE(end(user, session(1), CloseReason::kPeerClosed, 1'000, 30'000));
  EXPECT_FALSE(end(user, session(1), CloseReason::kLogout, 1'000, 30'000));
  EXPECT_EQ(registry().live_sessions(), 1U);
}

TEST_F(PresenceRegistryTest, AReusedSessionSlotIsAnotherSession) {
  const UserRef user = login("alice", SessionRef{7, 2, 1}, 0).user;
  drop_edges();
  EXPECT_FALSE(end(user, SessionRef{7, 1, 1}, CloseReason::kLogout, 1, 30'000));  // generation
  EXPECT_FALSE(end(user, SessionRef{7, 2, 0}, CloseReason::kLogout, 1, 30'000));  // shard
  EXPECT_FALSE(end(user, SessionRef{6, 2, 1}, CloseReason::kLogout, 1, 30'000));  // slot
  EXPECT_FALSE(end(user, SessionRef{}, CloseReason::kLogout, 1, 30'000));
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRegistryTest, NobodysRefFindsNoLingeringSession) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  end(user, session(1), CloseReason::kPeerClosed, 0, 30'000);
  drop_edges();
  EXPECT_FALSE(end(user, SessionRef{}, CloseReason::kLogout, 1, 30'000));
  EXPECT_EQ(state("alice", 1), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, AUserRefOfAnotherShardSlotOrGenerationFindsNobody) {
  make({.shard = 2});
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  UserRef other = user;
  other.shard = 1;
  EXPECT_FALSE(end(other, session(1), CloseReason::kLogout, 1, 30'000));
  other = user;
  other.index = 0xffff'ffff;
  EXPECT_FALSE(end(other, session(1), CloseReason::kLogout, 1, 30'000));
  other = user;
  ++other.generation;
  EXPECT_FALSE(end(other, session(1), CloseReason::kLogout, 1, 30'000));
  EXPECT_FALSE(end(UserRef{}, session(1), CloseReason::kLogout, 1, 30'000));
  EXPECT_TRUE(edges_.empty());
  EXPECT_TRUE(end(user, session(1), CloseReason::kLogout, 1, 30'000));
}

TEST_F(PresenceRegistryTest, ARefOfAForgottenUserDoesNotReachTheNextUserOfItsSlot) {
  make({.offline_users_max = 0});
  const UserRef alice = login("alice", session(1), 0).user;
  end(alice, session(1), CloseReason::kLogout, 1, 30'000);
  const UserRef bob = login("bob", session(1), 2).user;
  ASSERT_EQ(bob.index, alice.index);
  drop_edges();
  EXPECT_FALSE(end(alice, session(1), CloseReason::kLogout, 3, 30'000));
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(state("bob", 3), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, TheNextUserOfASlotInheritsNothing) {
  make({.offline_users_max = 0});
  const UserRef alice = login("alice", session(1), 50'000).user;
  end(alice, session(1), CloseReason::kLogout, 50'000, 60'000);
  drop_edges();
  registry().login({"bob", "", session(2), at(40'000)}, at(50'001), edges_);
  EXPECT_EQ(only_edge().last_seen, at(40'000));
}

// Ids.

TEST_F(PresenceRegistryTest, SessionIdsCarryEpochCountAndShard) {
  make({.shard = 5, .node_epoch = 3});
  const SessionId first = login("alice", session(1), 0).session_id;
  EXPECT_EQ(first, (SessionId{3} << 40) | (SessionId{1} << 10) | 5U);
  EXPECT_EQ(login("bob", session(2), 0).session_id, first + (1U << 10));
}

TEST_F(PresenceRegistryTest, IdsOfALaterEpochAreGreater) {
  make({.shard = 1'023, .node_epoch = 7});
  const SessionId before = login("alice", session(1), 0).session_id;
  make({.shard = 0, .node_epoch = 8});
  EXPECT_GT(login("alice", session(1), 0).session_id, before);
}

TEST_F(PresenceRegistryTest, ARefusedLoginUsesUpNoId) {
  make({.sessions_per_user_max = 1});
  const SessionId first = login("alice", session(1), 0).session_id;
  EXPECT_EQ(login("alice", session(2), 0).verdict, LoginVerdict::kTooManySessions);
  EXPECT_EQ(login("bob", session(3), 0).session_id, first + (1U << 10));
}

// Limits.

TEST_F(PresenceRegistryTest, OneSessionMoreThanTheCapIsRefusedAndChangesNothing) {
  make({.sessions_per_user_max = 2});
  login("alice", session(1), 0, "a");
  login("alice", session(2), 0, "b");
  drop_edges();
  EXPECT_EQ(login("alice", session(3), 0, "c").verdict, LoginVerdict::kTooManySessions);
  EXPECT_EQ(login("alice", session(3), 0).verdict, LoginVerdict::kTooManySessions);
  EXPECT_EQ(registry().live_sessions(), 2U);
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRegistryTest, ATakeoverNeedsNoRoomUnderTheCap) {
  make({.sessions_per_user_max = 1});
  login("alice", session(1), 0, "a");
  EXPECT_EQ(login("alice", session(2), 0, "a").taken_over, session(1));
}

TEST_F(PresenceRegistryTest, LingeringSessionsDoNotCountAgainstTheCap) {
  make({.sessions_per_user_max = 1});
  const UserRef user = login("alice", session(1), 0, "a").user;
  end(user, session(1), CloseReason::kPeerClosed, 0, 30'000);
  EXPECT_EQ(login("alice", session(2), 0, "b").verdict, LoginVerdict::kAccepted);
}

TEST_F(PresenceRegistryTest, LingeringSessionsAreBoundedAndTheEarliestGoesFirst) {
  make({.sessions_per_user_max = 2});
  constexpr std::int64_t kDeadlines[] = {50'000, 30'000, 40'000, 20'000};
  UserRef user;
  for (std::uint32_t i = 0; i < 4; ++i) {
    user = login("alice", session(i), 0, std::string(1, static_cast<char>('a' + i))).user;
    end(user, session(i), CloseReason::kPeerClosed, 0, kDeadlines[i]);
  }
  const UserView view = registry().find("alice", at(0));
  std::vector<MonoTime> deadlines;
  for (const UserSession& s : view.sessions)
    deadlines.push_back(s.deadline);
  std::sort(deadlines.begin(), deadlines.end());
  EXPECT_EQ(deadlines, (std::vector<MonoTime>{at(40'000), at(50'000)}));
}

TEST_F(PresenceRegistryTest, AFullShardRefusesNewUsersAndServesThoseItHas) {
  make({.users_max = 2});
  login("alice", session(1), 0);
  const UserRef bob = login("bob", session(2), 0).user;
  EXPECT_EQ(login("carol", session(3), 0).verdict, LoginVerdict::kServerFull);
  EXPECT_EQ(registry().find("carol", at(0)).since, std::nullopt);
  EXPECT_EQ(login("alice", session(4), 0).verdict, LoginVerdict::kAccepted);
  end(bob, session(2), CloseReason::kLogout, 1, 30'000);
  EXPECT_EQ(login("carol", session(3), 2).verdict, LoginVerdict::kAccepted);
}

// Kick and shutdown.

TEST_F(PresenceRegistryTest, AKickEndsLiveAndLingeringSessionsInOneEdge) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  login("alice", session(2), 0, "tablet");
  login("alice", session(3), 0, "tv");
  end(user, session(3), CloseReason::kPeerClosed, 0, 30'000);
  drop_edges();
  std::vector<SessionRef> live{session(99)};
  EXPECT_TRUE(registry().kick("alice", at(1'000), edges_, live));
  EXPECT_EQ(live, (std::vector<SessionRef>{session(99), session(1), session(2)}));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kKicked);
  EXPECT_EQ(edge.due, at(1'000));
  EXPECT_EQ(armed_hooks(), 0U);
  EXPECT_FALSE(end(user, session(1), CloseReason::kKicked, 1'001, 30'000));
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRegistryTest, AKickOfAPlainSessionNamesIt) {
  login("alice", session(1, 3), 0);
  std::vector<SessionRef> live;
  EXPECT_TRUE(registry().kick("alice", at(1), edges_, live));
  EXPECT_EQ(live, std::vector<SessionRef>{session(1, 3)});
}

TEST_F(PresenceRegistryTest, NobodyIsKickedWhoIsNotOnline) {
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 1, 30'000);
  drop_edges();
  std::vector<SessionRef> live;
  EXPECT_FALSE(registry().kick("alice", at(2), edges_, live));
  EXPECT_FALSE(registry().kick("nobody", at(2), edges_, live));
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRegistryTest, ShutdownEndsEverybodyOnceWithinItsBudgets) {
  constexpr std::size_t kUsers = 1'500;
  for (std::uint32_t i = 0; i < kUsers; ++i)
    login("user" + std::to_string(i), session(i), 0);
  drop_edges();
  std::size_t calls = 1;
  while (!registry().shutdown(at(1), 100, edges_)) {
    EXPECT_LE(edges_.size(), calls * 100);
    ++calls;
  }
  EXPECT_EQ(edges_.size(), kUsers);
  EXPECT_EQ(calls, kUsers / 100);
  EXPECT_EQ(edges_.at(0).reason, EdgeReason::kShutdown);
  EXPECT_EQ(registry().online_users(), 0U);
  EXPECT_EQ(registry().live_sessions(), 0U);
}

TEST_F(PresenceRegistryTest, ShutdownOfAnEmptyRegistryIsDoneAtOnce) {
  EXPECT_TRUE(registry().shutdown(at(0), 0, edges_));
}

TEST_F(PresenceRegistryTest, ShutdownAlsoFindsWhoCameMeanwhile) {
  login("alice", session(1), 0);
  login("bob", session(2), 0);
  EXPECT_FALSE(registry().shutdown(at(1), 1, edges_));  // alice
  login("alice", session(3), 2);
  drop_edges();
  while (!registry().shutdown(at(3), 1'000, edges_)) {
  }
  EXPECT_EQ(edges_.size(), 2U);
}

// Offline users.

TEST_F(PresenceRegistryTest, AnOfflineUserIsRememberedForTheRetention) {
  make({.offline_retention = seconds{10}});
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 5'000, 30'000);
  EXPECT_EQ(registry().forget_offline(at(14'999), 10), at(15'000));
  const UserView view = registry().find("alice", at(14'999));
  EXPECT_EQ(view.state, PresenceState::kOffline);
  EXPECT_EQ(view.since, at(5'000));
  EXPECT_EQ(view.last_seen, at(29'000));
  EXPECT_EQ(registry().forget_offline(at(15'000), 10), std::nullopt);
  EXPECT_EQ(registry().offline_users(), 0U);
  EXPECT_EQ(registry().find("alice", at(15'000)).last_seen, std::nullopt);
}

TEST_F(PresenceRegistryTest, ARetentionThatIsOverShowsBeforeTheSweep) {
  make({.offline_retention = seconds{10}});
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 5'000, 30'000);
  EXPECT_TRUE(registry().find("alice", at(14'999)).since);
  EXPECT_FALSE(registry().find("alice", at(15'000)).since);
}

TEST_F(PresenceRegistryTest, TheSweepKeepsToItsBudgetAndSaysWhatIsNext) {
  make({.offline_retention = seconds{10}});
  for (std::uint32_t i = 0; i < 3; ++i) {
    const UserRef user = login("user" + std::to_string(i), session(i), i).user;
    end(user, session(i), CloseReason::kLogout, i, 30'000);
  }
  EXPECT_EQ(registry().forget_offline(at(20'000), 2), at(10'002));
  EXPECT_EQ(registry().offline_users(), 1U);
  EXPECT_EQ(registry().forget_offline(at(20'000), 2), std::nullopt);
}

TEST_F(PresenceRegistryTest, WithTooManyOfflineUsersTheOldestIsForgotten) {
  make({.offline_users_max = 2});
  for (const std::string_view uid : {"alice", "bob", "carol"}) {
    const UserRef user = login(uid, session(1), 0).user;
    end(user, session(1), CloseReason::kLogout, 1, 30'000);
  }
  EXPECT_EQ(registry().offline_users(), 2U);
  EXPECT_FALSE(registry().find("alice", at(2)).since);
  EXPECT_TRUE(registry().find("bob", at(2)).since);
}

TEST_F(PresenceRegistryTest, AReturnMovesAUserToTheEndOfTheOfflineQueue) {
  make({.offline_users_max = 2});
  for (const std::string_view uid : {"alice", "bob", "alice", "carol"}) {
    const UserRef user = login(uid, session(1), 0).user;
    end(user, session(1), CloseReason::kLogout, 1, 30'000);
  }
  EXPECT_FALSE(registry().find("bob", at(2)).since);
  EXPECT_TRUE(registry().find("alice", at(2)).since);
}

// Change of options.

TEST_F(PresenceRegistryTest, ALoweredBoundOnOfflineUsersForgetsTheOldestWithTheNextSweeps) {
  make({.offline_users_max = 4});
  for (std::uint32_t i = 0; i < 4; ++i) {
    const UserRef user = login("user" + std::to_string(i), session(i), i).user;
    end(user, session(i), CloseReason::kLogout, i, 30'000);
  }
  registry().change({.offline_users_max = 1});
  EXPECT_LE(registry().forget_offline(at(10), 2), at(10));  // work is left
  EXPECT_EQ(registry().offline_users(), 2U);
  EXPECT_EQ(registry().forget_offline(at(10), 2), at(3) + std::chrono::hours{24});
  EXPECT_EQ(registry().offline_users(), 1U);
  EXPECT_TRUE(registry().find("user3", at(10)).since);
}

TEST_F(PresenceRegistryTest, AChangedRetentionHoldsForThoseRememberedAlready) {
  make({.offline_retention = seconds{10}});
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 0, 30'000);
  registry().change({.offline_retention = seconds{20}});
  EXPECT_TRUE(registry().find("alice", at(19'999)).since);
  registry().change({.offline_retention = seconds{5}});
  EXPECT_FALSE(registry().find("alice", at(5'000)).since);
  EXPECT_EQ(registry().forget_offline(at(5'000), 1), std::nullopt);
}

TEST_F(PresenceRegistryTest, WithoutLingerFromNowOnWhoLingersLingersOn) {
  const UserRef alice = login("alice", session(1), 0).user;
  const UserRef bob = login("bob", session(2), 0).user;
  end(alice, session(1), CloseReason::kPeerClosed, 1'000, 30'000);
  registry().change({.linger = false});
  end(bob, session(2), CloseReason::kPeerClosed, 1'000, 30'000);
  EXPECT_EQ(state("alice", 1'000), PresenceState::kOnline);
  EXPECT_EQ(state("bob", 1'000), PresenceState::kOffline);
}

TEST_F(PresenceRegistryTest, LoweredLimitsRefuseNewcomersAndEndNobody) {
  login("alice", session(1), 0);
  login("alice", session(2), 0);
  login("bob", session(3), 0);
  registry().change({.sessions_per_user_max = 1, .users_max = 1});
  EXPECT_EQ(login("alice", session(4), 0).verdict, LoginVerdict::kTooManySessions);
  EXPECT_EQ(login("carol", session(5), 0).verdict, LoginVerdict::kServerFull);
  EXPECT_EQ(registry().live_sessions(), 3U);
}

TEST_F(PresenceRegistryTest, ALoweredNumberOfSessionsBoundsTheLingeringOnesAtTheNextEnd) {
  std::vector<UserRef> users;
  for (std::uint32_t i = 0; i < 5; ++i)
    users.push_back(login("alice", session(i), 0, "device" + std::to_string(i)).user);
  for (std::uint32_t i = 0; i < 4; ++i)
    end(users[i], session(i), CloseReason::kPeerClosed, 1'000, 30'000 + i);
  registry().change({.sessions_per_user_max = 2});
  end(users[4], session(4), CloseReason::kPeerClosed, 1'000, 40'000);
  EXPECT_EQ(registry().find("alice", at(1'000)).sessions.size(), 2U);
  EXPECT_EQ(state("alice", 39'999), PresenceState::kOnline);
}

TEST_F(PresenceRegistryTest, AChangeKeepsWhatTheNodeIs) {
  make({.shard = 3, .node_epoch = 7, .hash_seed = 9});
  registry().change({});
  EXPECT_EQ(registry().options().shard, 3);
  EXPECT_EQ(registry().options().node_epoch, 7U);
  EXPECT_EQ(registry().options().hash_seed, 9U);
}

// Look-up.

TEST_F(PresenceRegistryTest, AUidWithoutARecordIsUnknownUntilToldOtherwise) {
  make({.unknown_until = at(60'000)});
  EXPECT_EQ(state("nobody", 59'999), PresenceState::kUnknown);
  EXPECT_EQ(state("nobody", 60'000), PresenceState::kOffline);
}

TEST_F(PresenceRegistryTest, AUidWithARecordIsKnownWhileOthersAreNot) {
  make({.unknown_until = at(60'000)});
  const UserRef alice = login("alice", session(1), 0).user;
  login("bob", session(2), 0);
  end(alice, session(1), CloseReason::kLogout, 1'000, 30'000);
  EXPECT_EQ(state("alice", 1'000), PresenceState::kOffline);
  EXPECT_EQ(state("bob", 1'000), PresenceState::kOnline);
  EXPECT_EQ(registry().find("nobody", at(1'000)).since, std::nullopt);
}

TEST_F(PresenceRegistryTest, AnOnlineUsersLastSeenIsTheNewestThatWasReported) {
  const UserRef alice = login("alice", session(1), 0).user;
  login("alice", session(2), 1'000);
  end(alice, session(2), CloseReason::kLogout, 9'000, 10'000);  // its last packet: at 9 s
  EXPECT_EQ(registry().find("alice", at(9'500)).last_seen, at(9'000));
}

TEST_F(PresenceRegistryTest, AKicksLastSeenIsTheNewestThatTheCallerKnows) {
  std::vector<SessionRef> live;
  login("alice", session(1), 0);
  drop_edges();
  EXPECT_TRUE(registry().kick("alice", at(9'000), edges_, live, at(8'500)));
  EXPECT_EQ(only_edge().last_seen, at(8'500));
  EXPECT_EQ(registry().find("alice", at(9'000)).last_seen, at(8'500));
}

TEST_F(PresenceRegistryTest, AUidWithoutARecordIsOfflineWithoutALastSeen) {
  const UserView view = registry().find("nobody", at(0));
  EXPECT_EQ(view.state, PresenceState::kOffline);
  EXPECT_EQ(view.since, std::nullopt);
  EXPECT_EQ(view.last_seen, std::nullopt);
  EXPECT_TRUE(view.sessions.empty());
}

TEST_F(PresenceRegistryTest, AViewShowsLiveAndLingeringSessions) {
  const LoginDecision phone = login("alice", session(1), 0, "phone");
  const LoginDecision plain = login("alice", session(2, 3), 100);
  end(phone.user, session(1), CloseReason::kPeerClosed, 5'000, 31'000);
  const UserView view = registry().find("alice", at(5'000));
  EXPECT_EQ(view.since, at(0));
  ASSERT_EQ(view.sessions.size(), 2U);
  const UserSession& lingering = view.sessions[0];
  EXPECT_TRUE(lingering.lingering);
  EXPECT_EQ(lingering.session.generation, 0U);
  EXPECT_EQ(lingering.id, phone.session_id);
  EXPECT_EQ(lingering.device, "phone");
  EXPECT_EQ(lingering.last_packet, at(30'000));
  EXPECT_EQ(lingering.deadline, at(31'000));
  const UserSession& live = view.sessions[1];
  EXPECT_FALSE(live.lingering);
  EXPECT_EQ(live.session, session(2, 3));
  EXPECT_EQ(live.id, plain.session_id);
  EXPECT_EQ(live.login_at, at(100));
  EXPECT_EQ(live.last_packet, at(100));
}

TEST_F(PresenceRegistryTest, AUserWhoComesBackToOnePlainSessionKeepsIdAndTimes) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  const LoginDecision plain = login("alice", session(2, 3), 100);
  end(user, session(1), CloseReason::kLogout, 5'000, 31'000);
  const UserView view = registry().find("alice", at(5'000));
  ASSERT_EQ(view.sessions.size(), 1U);
  EXPECT_EQ(view.sessions[0].session, session(2, 3));
  EXPECT_EQ(view.sessions[0].id, plain.session_id);
  EXPECT_EQ(view.sessions[0].login_at, at(100));
}

TEST_F(PresenceRegistryTest, UidsAreBytesAndTheirLengthCounts) {
  std::vector<std::string> uids;
  for (const std::size_t size : {1U, 15U, 16U, 17U, 127U, 128U}) {
    uids.emplace_back(size, '\0');
    uids.emplace_back(size, '\xff');
  }
  for (const std::string_view uid : {"\r\n", "{}", "*", ":", "/", "%41", "\"", "<script>"}) {
    uids.emplace_back(uid);
  }
  std::uint32_t number = 0;
  for (const std::string& uid : uids)
    login(uid, session(++number), 0);
  EXPECT_EQ(registry().online_users(), uids.size());
  for (std::size_t i = 0; i < uids.size(); ++i)
    EXPECT_EQ(edges_.at(i).uid, uids[i]);
}

TEST_F(PresenceRegistryTest, ADestroyedRegistryLeavesNothingOnTheWheel) {
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kPeerClosed, 0, 30'000);
  ASSERT_EQ(armed_hooks(), 1U);
  make();
  EXPECT_EQ(armed_hooks(), 0U);
}

using PresenceRegistryDeathTest = PresenceRegistryTest;

TEST_F(PresenceRegistryDeathTest, ALoginWithoutAUidIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(login("", session(1), 0), "broken invariant");
}

TEST_F(PresenceRegistryDeathTest, AHookOfAnotherKindIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TimerHook hook(HookKind::kSession);
  EXPECT_DEATH(registry().expire_lingering(hook, at(0), edges_), "broken invariant");
}

// Homes.

TEST(HomeShardTest, IsTheSameForTheSameSeedAndSpreadsEvenly) {
  constexpr std::size_t kShards = 4;
  constexpr std::size_t kUids = 40'000;
  std::size_t counts[kShards] = {};
  for (std::size_t i = 0; i < kUids; ++i) {
    const std::string uid = "user" + std::to_string(i);
    const ShardIndex home = home_shard_of(uid, 42, kShards);
    ASSERT_LT(home, kShards);
    ASSERT_EQ(home, home_shard_of(uid, 42, kShards));
    ++counts[home];
  }
  for (const std::size_t count : counts)
    EXPECT_NEAR(static_cast<double>(count), 10'000, 500);
}

TEST(HomeShardTest, DependsOnTheSeed) {
  std::size_t moved = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::string uid = "user" + std::to_string(i);
    moved += home_shard_of(uid, 1, 4) != home_shard_of(uid, 2, 4) ? 1U : 0U;
  }
  EXPECT_GT(moved, 600U);
}

TEST(HomeShardTest, OneShardIsHomeToAll) {
  EXPECT_EQ(home_shard_of("alice", 7, 1), 0);
}

TEST(PresenceStateTest, NamesAreThoseOfTheApi) {
  EXPECT_EQ(to_string(PresenceState::kOffline), "offline");
  EXPECT_EQ(to_string(PresenceState::kOnline), "online");
  EXPECT_EQ(to_string(PresenceState::kUnknown), "unknown");
}

}  // namespace
}  // namespace pulsewheel

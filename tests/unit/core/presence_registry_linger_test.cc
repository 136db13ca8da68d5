// Sessions that have lost their connection, and how long they keep their users online.
#include "daemon/core/presence_registry.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

class PresenceLingerTest : public PresenceFixture {};

TEST_F(PresenceLingerTest, AClosedConnectionLingersUntilItsDeadlineAndNotATickLonger) {
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

TEST_F(PresenceLingerTest, EveryReasonButLogoutTimeoutTakeoverAndKickLingers) {
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

TEST_F(PresenceLingerTest, WithLingerOffAClosedConnectionEndsAtOnce) {
  make({.linger = false});
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerReset, 5'000, 30'000));
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(5'000));
}

TEST_F(PresenceLingerTest, AConnectionWhoseCloseIsReadAfterItsDeadlineWaitsForTheWheel) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 30'000, 30'000));
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(30'000));
}

TEST_F(PresenceLingerTest, ALogoutWaitsForTheWheelWhereAnotherSessionHasRunOut) {
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

TEST_F(PresenceLingerTest, ALoginBehindACloseThatWasReadLateIsNoEdge) {
  const UserRef user = login("alice", session(1), 0).user;
  drop_edges();
  advance(70'000);
  EXPECT_TRUE(end(user, session(1), CloseReason::kPeerClosed, 70'000, 30'000));
  login("alice", session(2), 70'000);  // came back at 20'000, through a shard that was stalled
  advance(71'000);
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceLingerTest, ALoginWhileLingeringIsNoEdgeAndDisarmsTheHook) {
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

TEST_F(PresenceLingerTest, ADeviceThatReturnsDisarmsTheHookToo) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  end(user, session(1), CloseReason::kPeerClosed, 5'000, 30'000);
  ASSERT_EQ(armed_hooks(), 1U);
  login("alice", session(2), 6'000, "phone");
  EXPECT_EQ(armed_hooks(), 0U);
}

TEST_F(PresenceLingerTest, ALoginAfterTheHookExpiredButBeforeItWasHandledKeepsTheUserOnline) {
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

TEST_F(PresenceLingerTest, AHookHandedInEarlyIsArmedAgain) {
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

TEST_F(PresenceLingerTest, ALingeringUserEndsAtTheLatestDeadlineOfAllClosedSessions) {
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

TEST_F(PresenceLingerTest, ASilentSessionLeavesTheUserOnlineWhileALaterOneLingers) {
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

TEST_F(PresenceLingerTest, OfTwoSessionsThatHaveBothRunOutTheLaterGivesTheReason) {
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

TEST_F(PresenceLingerTest, WhatRanOutBesideASessionThatSeemedAliveIsOfNoAccount) {
  const UserRef user = login("alice", session(1, 1), 0).user;
  login("alice", session(2, 2), 0, "phone");
  drop_edges();
  EXPECT_TRUE(end(user, session(1, 1), CloseReason::kTimeout, 30'300, 30'200));
  EXPECT_TRUE(end(user, session(2, 2), CloseReason::kPeerClosed, 30'301, 30'100));
  EXPECT_TRUE(edges_.empty());
  advance(31'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.at, at(31'000)) << "not before the later of the two deadlines";
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(30'100));
}

TEST_F(PresenceLingerTest, AnOldConnectionsLingerDoesNotOutliveALogoutOfTheSameDevice) {
  for (const std::string_view device : {"", "phone"}) {
    const UserRef user = login("alice", session(1), 0, device).user;
    end(user, session(1), CloseReason::kPeerReset, 1'000, 30'000);
    login("alice", session(2), 2'000, device);
    drop_edges();
    end(user, session(2), CloseReason::kLogout, 3'000, 30'000);
    EXPECT_EQ(only_edge().reason, EdgeReason::kLogout) << device;
  }
}

TEST_F(PresenceLingerTest, AnotherDevicesLingerOutlivesALogout) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  end(user, session(1), CloseReason::kPeerReset, 1'000, 30'000);
  login("alice", session(2), 2'000, "tablet");
  drop_edges();
  end(user, session(2), CloseReason::kLogout, 3'000, 32'000);
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  EXPECT_EQ(only_edge().reason, EdgeReason::kDisconnect);
}

TEST_F(PresenceLingerTest, OfSeveralClosedSessionsWithoutALabelTheLatestLingers) {
  const UserRef user = login("alice", session(1), 0).user;
  login("alice", session(2), 0);
  end(user, session(2), CloseReason::kPeerClosed, 1'000, 40'000);
  end(user, session(1), CloseReason::kPeerClosed, 2'000, 30'000);
  const UserView view = registry().find("alice", at(2'000));
  ASSERT_EQ(view.sessions.size(), 1U);
  EXPECT_EQ(view.sessions[0].deadline, at(40'000));
}

TEST_F(PresenceLingerTest, ALingeringSessionBesideALiveOneIsForgottenAtItsDeadline) {
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

TEST_F(PresenceLingerTest, ATimeoutReportedBeforeItsDeadlineWaitsForIt) {
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

}  // namespace
}  // namespace pulsewheel

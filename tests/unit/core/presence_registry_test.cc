// Logins, ends and edges; takeovers and late news; limits. Other subjects have files of their own.
#include "daemon/core/presence_registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

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

// Uids and the end.

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

}  // namespace
}  // namespace pulsewheel

// Users who are written down by one run and taken back by the next.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

class PresenceRestoreTest : public PresenceFixture {
 protected:
  static SessionImage lingering(std::int64_t deadline_ms, std::string_view device = "") {
    return {.ending = EdgeReason::kTimeout,
            .login_at = at(-60'000),
            .last_packet = at(-5'000),
            .deadline = at(deadline_ms),
            .device = device};
  }
  bool restore(std::string_view uid, const std::vector<SessionImage>& sessions,
               std::int64_t since_ms = -60'000, std::int64_t last_seen_ms = -5'000) {
    return registry().restore({.uid = uid, .since = at(since_ms), .last_seen = at(last_seen_ms)},
                              sessions, at(0));
  }
  UserImageBatch list() {
    UserImageBatch users;
    std::uint32_t cursor = 0;
    while (registry().list_users(&cursor, 100, users)) {
    }
    return users;
  }
};

// --- Written down -------------------------------------------------------------------------------

TEST_F(PresenceRestoreTest, ListsEveryUserOnceHoweverSmallThePartsAre) {
  for (std::uint32_t i = 0; i < 1'000; ++i)
    login("user-" + std::to_string(i), session(i), 0);
  std::map<std::string, int> seen;
  std::uint32_t cursor = 0;
  for (bool more = true; more;) {
    UserImageBatch part;
    more = registry().list_users(&cursor, 7, part);
    for (const UserImage& user : part.users())
      ++seen[std::string(user.uid)];
  }
  EXPECT_EQ(seen.size(), 1'000U);
  for (const auto& [uid, times] : seen)
    EXPECT_EQ(times, 1) << uid;
}

TEST_F(PresenceRestoreTest, ListsALiveSessionByItsNameAndAClosedOneByItsDeadline) {
  login("alice", session(1), 100);
  const UserRef bob = login("bob", session(2), 200, "phone").user;
  end(bob, session(2), CloseReason::kPeerClosed, 3'000, 30'000);
  const UserImageBatch users = list();
  ASSERT_EQ(users.size(), 2U);
  const UserImage& live = users.users()[0];
  EXPECT_EQ(live.uid, "alice");
  ASSERT_EQ(live.session_count, 1U);
  EXPECT_EQ(users.sessions_of(live)[0].session, session(1));
  EXPECT_EQ(users.sessions_of(live)[0].ending, EdgeReason::kTimeout);

  const UserImage& closed = users.users()[1];
  EXPECT_EQ(closed.since, at(200));
  EXPECT_EQ(closed.last_seen, at(29'000));
  ASSERT_EQ(closed.session_count, 1U);
  const SessionImage& session = users.sessions_of(closed)[0];
  EXPECT_FALSE(session.live());
  EXPECT_EQ(session.device, "phone");
  EXPECT_EQ(session.deadline, at(30'000));
  EXPECT_EQ(session.last_packet, at(29'000));
  EXPECT_EQ(session.ending, EdgeReason::kDisconnect);
}

TEST_F(PresenceRestoreTest, ListsAnOfflineUserWithoutSessions) {
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 5'000, 30'000);
  const UserImageBatch users = list();
  ASSERT_EQ(users.size(), 1U);
  EXPECT_FALSE(users.users()[0].online());
  EXPECT_EQ(users.users()[0].since, at(5'000));
  EXPECT_EQ(users.users()[0].last_seen, at(29'000));
}

// --- Taken back ---------------------------------------------------------------------------------

TEST_F(PresenceRestoreTest, AUserWhoComesBackMakesNoEdge) {
  EXPECT_TRUE(restore("alice", {lingering(30'000)}));
  EXPECT_EQ(state("alice", 0), PresenceState::kOnline);
  login("alice", session(1), 20'000);
  EXPECT_EQ(advance(40'000), 0U);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().find("alice", at(20'000)).since, at(-60'000));
}

TEST_F(PresenceRestoreTest, AUserWhoDoesNotComeBackGoesOfflineOnceAsSeenLast) {
  EXPECT_TRUE(restore("alice", {lingering(30'000)}));
  advance(29'000);
  EXPECT_TRUE(edges_.empty());
  advance(30'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.kind, EdgeKind::kOffline);
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
  EXPECT_EQ(edge.last_seen, at(-5'000));
  EXPECT_EQ(edge.due, at(30'000));
  advance(100'000);
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRestoreTest, TheLatestOfSeveralDevicesKeepsTheUserOnline) {
  EXPECT_TRUE(restore("alice", {lingering(10'000, "phone"), lingering(50'000, "desk")}));
  EXPECT_EQ(registry().find("alice", at(0)).sessions.size(), 2U);
  advance(49'000);
  EXPECT_TRUE(edges_.empty());
  advance(50'000);
  EXPECT_EQ(only_edge().kind, EdgeKind::kOffline);
}

TEST_F(PresenceRestoreTest, ADeviceThatComesBackAndLogsOutEndsItsUser) {
  EXPECT_TRUE(restore("alice", {lingering(50'000, "phone")}));
  const UserRef user = login("alice", session(1), 1'000, "phone").user;
  end(user, session(1), CloseReason::kLogout, 2'000, 31'000);
  EXPECT_EQ(only_edge().reason, EdgeReason::kLogout);
}

TEST_F(PresenceRestoreTest, OfSessionsWithOneLabelTheLatestCounts) {
  EXPECT_TRUE(restore("alice", {lingering(10'000), lingering(40'000), lingering(20'000)}));
  const UserView view = registry().find("alice", at(0));
  ASSERT_EQ(view.sessions.size(), 1U);
  EXPECT_EQ(view.sessions[0].deadline, at(40'000));
}

TEST_F(PresenceRestoreTest, TakesNoMoreSessionsOfAUserThanMayLinger) {
  make({.sessions_per_user_max = 2});
  EXPECT_TRUE(
      restore("alice", {lingering(10'000, "a"), lingering(40'000, "b"), lingering(20'000, "c")}));
  EXPECT_EQ(registry().find("alice", at(0)).sessions.size(), 2U);
  advance(39'000);
  EXPECT_TRUE(edges_.empty());
}

TEST_F(PresenceRestoreTest, TakesNobodyTwiceAndNobodyBeyondTheLimit) {
  make({.users_max = 2});
  EXPECT_TRUE(restore("alice", {lingering(10'000)}));
  EXPECT_FALSE(restore("alice", {lingering(20'000)}));
  EXPECT_TRUE(restore("bob", {lingering(10'000)}));
  EXPECT_FALSE(restore("carol", {lingering(10'000)}));
  EXPECT_EQ(registry().online_users(), 2U);
  EXPECT_EQ(registry().lingering_users(), 2U);
}

TEST_F(PresenceRestoreTest, AnOfflineUserIsRememberedForWhatIsLeftOfTheRetention) {
  make({.offline_retention = std::chrono::seconds{100}});
  EXPECT_TRUE(restore("alice", {}, -60'000, -90'000));
  EXPECT_FALSE(restore("bob", {}, -100'000, -130'000));
  EXPECT_EQ(registry().find("alice", at(0)).last_seen, at(-90'000));
  EXPECT_EQ(registry().find("alice", at(0)).since, at(-60'000));
  EXPECT_EQ(registry().forget_offline(at(39'999), 10), at(40'000));
  registry().forget_offline(at(40'000), 10);
  EXPECT_EQ(registry().offline_users(), 0U);
}

TEST_F(PresenceRestoreTest, WhatIsOfflineSinceBeforeACrashIsUnknownUntilTheGraceEnds) {
  make({.unknown_until = at(60'000), .run_began = at(0)});
  EXPECT_TRUE(restore("alice", {}, -10'000, -20'000));
  EXPECT_EQ(state("alice", 1'000), PresenceState::kUnknown);
  EXPECT_EQ(registry().find("alice", at(1'000)).last_seen, at(-20'000));
  EXPECT_EQ(state("alice", 60'000), PresenceState::kOffline);

  const UserRef user = login("alice", session(1), 2'000).user;
  end(user, session(1), CloseReason::kLogout, 3'000, 30'000);
  EXPECT_EQ(state("alice", 4'000), PresenceState::kOffline);
}

TEST_F(PresenceRestoreTest, AnotherWordOfALingeringUserCountsWhereItIsNewer) {
  EXPECT_TRUE(restore("alice", {lingering(10'000, "phone"), lingering(30'000, "desk")}));
  EXPECT_FALSE(registry().restore("alice", at(-1'000), at(45'000), at(0)));
  const UserView view = registry().find("alice", at(0));
  EXPECT_EQ(view.sessions.size(), 2U);
  EXPECT_EQ(view.last_seen, at(-1'000));
  advance(44'000);
  EXPECT_TRUE(edges_.empty());
  EXPECT_FALSE(registry().restore("alice", at(-9'000), at(44'500), at(44'000)));
  advance(45'000);
  EXPECT_EQ(only_edge().last_seen, at(-1'000));
}

TEST_F(PresenceRestoreTest, WhatIsTakenBackIsListedAsItWas) {
  EXPECT_TRUE(restore("alice", {lingering(10'000, "phone"), lingering(30'000, "desk")}));
  EXPECT_TRUE(restore("bob", {}, -10'000, -20'000));
  const UserImageBatch users = list();
  ASSERT_EQ(users.size(), 2U);
  EXPECT_EQ(users.users()[0].since, at(-60'000));
  EXPECT_EQ(users.sessions_of(users.users()[0])[1].device, "desk");
  EXPECT_EQ(users.sessions_of(users.users()[0])[1].deadline, at(30'000));
  EXPECT_EQ(users.users()[1].since, at(-10'000));
  EXPECT_EQ(users.users()[1].last_seen, at(-20'000));
}

}  // namespace
}  // namespace pulsewheel

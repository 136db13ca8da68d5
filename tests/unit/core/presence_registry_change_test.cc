// Limits and policies that change while users are there.
#include "daemon/core/presence_registry.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

using std::chrono::seconds;

class PresenceChangeTest : public PresenceFixture {};

TEST_F(PresenceChangeTest, ALoweredBoundOnOfflineUsersForgetsTheOldestWithTheNextSweeps) {
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

TEST_F(PresenceChangeTest, AChangedRetentionHoldsForThoseRememberedAlready) {
  make({.offline_retention = seconds{10}});
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 0, 30'000);
  registry().change({.offline_retention = seconds{20}});
  EXPECT_TRUE(registry().find("alice", at(19'999)).since);
  registry().change({.offline_retention = seconds{5}});
  EXPECT_FALSE(registry().find("alice", at(5'000)).since);
  EXPECT_EQ(registry().forget_offline(at(5'000), 1), std::nullopt);
}

TEST_F(PresenceChangeTest, WithoutLingerFromNowOnWhoLingersLingersOn) {
  const UserRef alice = login("alice", session(1), 0).user;
  const UserRef bob = login("bob", session(2), 0).user;
  end(alice, session(1), CloseReason::kPeerClosed, 1'000, 30'000);
  registry().change({.linger = false});
  end(bob, session(2), CloseReason::kPeerClosed, 1'000, 30'000);
  EXPECT_EQ(state("alice", 1'000), PresenceState::kOnline);
  EXPECT_EQ(state("bob", 1'000), PresenceState::kOffline);
}

TEST_F(PresenceChangeTest, LoweredLimitsRefuseNewcomersAndEndNobody) {
  login("alice", session(1), 0);
  login("alice", session(2), 0);
  login("bob", session(3), 0);
  registry().change({.sessions_per_user_max = 1, .users_max = 1});
  EXPECT_EQ(login("alice", session(4), 0).verdict, LoginVerdict::kTooManySessions);
  EXPECT_EQ(login("carol", session(5), 0).verdict, LoginVerdict::kServerFull);
  EXPECT_EQ(registry().live_sessions(), 3U);
}

TEST_F(PresenceChangeTest, ALoweredNumberOfSessionsBoundsTheLingeringOnesAtTheNextEnd) {
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

TEST_F(PresenceChangeTest, AChangeKeepsWhatTheNodeIs) {
  make({.shard = 3, .node_epoch = 7, .hash_seed = 9});
  registry().change({});
  EXPECT_EQ(registry().options().shard, 3);
  EXPECT_EQ(registry().options().node_epoch, 7U);
  EXPECT_EQ(registry().options().hash_seed, 9U);
}

}  // namespace
}  // namespace pulsewheel

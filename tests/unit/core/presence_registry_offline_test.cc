// Whom the registry remembers after they went offline, and for how long.
#include "daemon/core/presence_registry.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

using std::chrono::seconds;

class PresenceOfflineTest : public PresenceFixture {};

TEST_F(PresenceOfflineTest, AnOfflineUserIsRememberedForTheRetention) {
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

TEST_F(PresenceOfflineTest, ARetentionThatIsOverShowsBeforeTheSweep) {
  make({.offline_retention = seconds{10}});
  const UserRef user = login("alice", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 5'000, 30'000);
  EXPECT_TRUE(registry().find("alice", at(14'999)).since);
  EXPECT_FALSE(registry().find("alice", at(15'000)).since);
}

TEST_F(PresenceOfflineTest, TheSweepKeepsToItsBudgetAndSaysWhatIsNext) {
  make({.offline_retention = seconds{10}});
  for (std::uint32_t i = 0; i < 3; ++i) {
    const UserRef user = login("user" + std::to_string(i), session(i), i).user;
    end(user, session(i), CloseReason::kLogout, i, 30'000);
  }
  EXPECT_EQ(registry().forget_offline(at(20'000), 2), at(10'002));
  EXPECT_EQ(registry().offline_users(), 1U);
  EXPECT_EQ(registry().forget_offline(at(20'000), 2), std::nullopt);
}

TEST_F(PresenceOfflineTest, WithTooManyOfflineUsersTheOldestIsForgotten) {
  make({.offline_users_max = 2});
  for (const std::string_view uid : {"alice", "bob", "carol"}) {
    const UserRef user = login(uid, session(1), 0).user;
    end(user, session(1), CloseReason::kLogout, 1, 30'000);
  }
  EXPECT_EQ(registry().offline_users(), 2U);
  EXPECT_FALSE(registry().find("alice", at(2)).since);
  EXPECT_TRUE(registry().find("bob", at(2)).since);
}

TEST_F(PresenceOfflineTest, AReturnMovesAUserToTheEndOfTheOfflineQueue) {
  make({.offline_users_max = 2});
  for (const std::string_view uid : {"alice", "bob", "alice", "carol"}) {
    const UserRef user = login(uid, session(1), 0).user;
    end(user, session(1), CloseReason::kLogout, 1, 30'000);
  }
  EXPECT_FALSE(registry().find("bob", at(2)).since);
  EXPECT_TRUE(registry().find("alice", at(2)).since);
}

}  // namespace
}  // namespace pulsewheel

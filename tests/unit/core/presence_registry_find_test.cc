// What a look-up says of a uid.
#include "daemon/core/presence_registry.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

class PresenceFindTest : public PresenceFixture {};

TEST_F(PresenceFindTest, AUidWithoutARecordIsUnknownUntilToldOtherwise) {
  make({.unknown_until = at(60'000)});
  EXPECT_EQ(state("nobody", 59'999), PresenceState::kUnknown);
  EXPECT_EQ(state("nobody", 60'000), PresenceState::kOffline);
}

TEST_F(PresenceFindTest, AUidWithARecordIsKnownWhileOthersAreNot) {
  make({.unknown_until = at(60'000)});
  const UserRef alice = login("alice", session(1), 0).user;
  login("bob", session(2), 0);
  end(alice, session(1), CloseReason::kLogout, 1'000, 30'000);
  EXPECT_EQ(state("alice", 1'000), PresenceState::kOffline);
  EXPECT_EQ(state("bob", 1'000), PresenceState::kOnline);
  EXPECT_EQ(registry().find("nobody", at(1'000)).since, std::nullopt);
}

TEST_F(PresenceFindTest, AnOnlineUsersLastSeenIsTheNewestThatWasReported) {
  const UserRef alice = login("alice", session(1), 0).user;
  login("alice", session(2), 1'000);
  end(alice, session(2), CloseReason::kLogout, 9'000, 10'000);  // its last packet: at 9 s
  EXPECT_EQ(registry().find("alice", at(9'500)).last_seen, at(9'000));
}

TEST_F(PresenceFindTest, AKicksLastSeenIsTheNewestThatTheCallerKnows) {
  std::vector<SessionRef> live;
  login("alice", session(1), 0);
  drop_edges();
  EXPECT_TRUE(registry().kick("alice", at(9'000), edges_, live, at(8'500)));
  EXPECT_EQ(only_edge().last_seen, at(8'500));
  EXPECT_EQ(registry().find("alice", at(9'000)).last_seen, at(8'500));
}

TEST_F(PresenceFindTest, AUidWithoutARecordIsOfflineWithoutALastSeen) {
  const UserView view = registry().find("nobody", at(0));
  EXPECT_EQ(view.state, PresenceState::kOffline);
  EXPECT_EQ(view.since, std::nullopt);
  EXPECT_EQ(view.last_seen, std::nullopt);
  EXPECT_TRUE(view.sessions.empty());
}

TEST_F(PresenceFindTest, AViewShowsLiveAndLingeringSessions) {
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

TEST_F(PresenceFindTest, AUserWhoComesBackToOnePlainSessionKeepsIdAndTimes) {
  const UserRef user = login("alice", session(1), 0, "phone").user;
  const LoginDecision plain = login("alice", session(2, 3), 100);
  end(user, session(1), CloseReason::kLogout, 5'000, 31'000);
  const UserView view = registry().find("alice", at(5'000));
  ASSERT_EQ(view.sessions.size(), 1U);
  EXPECT_EQ(view.sessions[0].session, session(2, 3));
  EXPECT_EQ(view.sessions[0].id, plain.session_id);
  EXPECT_EQ(view.sessions[0].login_at, at(100));
}

TEST(PresenceStateTest, NamesAreThoseOfTheApi) {
  EXPECT_EQ(to_string(PresenceState::kOffline), "offline");
  EXPECT_EQ(to_string(PresenceState::kOnline), "online");
  EXPECT_EQ(to_string(PresenceState::kUnknown), "unknown");
}

}  // namespace
}  // namespace pulsewheel

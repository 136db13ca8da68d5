// What the HTTP port is told of a user's sessions.
#include "daemon/server/user_reports.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

using std::chrono::seconds;

class UserReportsTest : public PresenceFixture {
 protected:
  /// alice has logged in, sent a packet at 5 s, and lost her connection; her timeout is 30 s.
  void let_alice_linger() {
    const UserRef alice = login("alice", session(1), 0).user;
    registry().end_session({alice, session(1), CloseReason::kPeerClosed, at(5'000), at(35'000),
                            std::nullopt, seconds{30}},
                           at(6'000), edges_);
  }
  SessionExplanation only_session(std::int64_t ms) {
    const UserFacts facts{
        .uid = "alice", .view = registry().find("alice", at(ms)), .live = {}, .places = {}};
    const Explanation explained = explain(facts, 0, at(ms));
    EXPECT_EQ(explained.sessions.size(), 1U);
    EXPECT_EQ(report_of(facts).sessions.at(0).timeout_ms,
              explained.sessions.at(0).session.timeout_ms);
    return explained.sessions.at(0);
  }
};

TEST_F(UserReportsTest, ALingeringSessionsTimeoutIsTheNegotiatedOneBeforeAndBehindAHold) {
  let_alice_linger();
  EXPECT_EQ(only_session(10'000).session.timeout_ms, 30'000U);
  EXPECT_EQ(only_session(10'000).remaining_ms, 25'000);

  std::vector<SessionRef> live;
  registry().hold("alice", at(3'600'000), at(10'000), live);
  EXPECT_EQ(only_session(50'000).session.timeout_ms, 30'000U);
  EXPECT_EQ(only_session(50'000).remaining_ms, 25'000);

  registry().release("alice", at(100'000), live);
  EXPECT_EQ(only_session(100'000).session.timeout_ms, 30'000U);
  EXPECT_EQ(only_session(100'000).remaining_ms, 25'000);
}

TEST_F(UserReportsTest, OfASessionOfAnEarlierRunTheTimeoutIsWhatItGot) {
  registry().restore("alice", at(-5'000), at(40'000), at(0));
  EXPECT_EQ(only_session(0).session.timeout_ms, 45'000U);
}

}  // namespace
}  // namespace pulsewheel

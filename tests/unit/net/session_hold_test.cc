// Sessions of users whose expiry is paused.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;

class SessionHoldTest : public testing::Test {
 protected:
  SessionHoldTest() { client_.log_in(); }

  Session& session() { return client_.session(); }

  FakeShard shard_;
  LoopbackClient client_{shard_};
};

TEST_F(SessionHoldTest, HeldSessionIsNeverSilent) {
  const MonoTime login = session().fsm().last_packet();
  session().hold(login + 1s);
  shard_.reach(login + 3h);
  EXPECT_FALSE(session().closed());
  EXPECT_TRUE(shard_.ends.empty());
}

TEST_F(SessionHoldTest, ReleasedSessionHasTheTimeThatItHadLeft) {
  const MonoTime login = session().fsm().last_packet();
  session().hold(login + 10s);
  shard_.reach(login + 1h);
  session().release(login + 1h);
  const MonoTime deadline = login + 1h + 20s;
  EXPECT_EQ(session().fsm().deadline(), deadline);
  shard_.reach(shard_.due(deadline) - 1s);
  EXPECT_TRUE(shard_.ends.empty());
  shard_.reach(shard_.due(deadline));
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kTimeout);
  EXPECT_EQ(shard_.ends[0].deadline, deadline);
}

TEST_F(SessionHoldTest, EndOfAHeldSessionSaysSinceWhenItWasHeld) {
  const MonoTime login = session().fsm().last_packet();
  session().hold(login + 10s);
  client_.finish_sending();
  shard_.run_until([this] { return !shard_.ends.empty(); });
  EXPECT_EQ(shard_.ends[0].held_since, login + 10s);
  EXPECT_EQ(shard_.ends[0].deadline, login + 30s) << "as without the hold";
  EXPECT_TRUE(shard_.context.held_since.empty());
}

TEST_F(SessionHoldTest, HomeHearsTheDeadlineWithoutTheHold) {
  const MonoTime login = session().fsm().last_packet();
  session().hold(login + 10s);
  EXPECT_EQ(session().touch()->deadline, login + 30s);
}

TEST_F(SessionHoldTest, ReleaseWithoutAHoldChangesNothing) {
  const MonoTime deadline = session().fsm().deadline();
  session().release(deadline + 1h);
  EXPECT_EQ(session().fsm().deadline(), deadline);
}

TEST_F(SessionHoldTest, NothingIsLeftBehindByARelease) {
  session().hold(session().fsm().last_packet());
  EXPECT_EQ(shard_.context.held_since.size(), 1U);
  session().release(session().fsm().last_packet() + 1s);
  EXPECT_TRUE(shard_.context.held_since.empty());
}

}  // namespace
}  // namespace pulsewheel

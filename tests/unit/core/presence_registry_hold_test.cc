// Users whose expiry is paused: nobody runs out meanwhile, and what was left is left afterwards.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

using HoldVerdict = PresenceRegistry::HoldVerdict;

class PresenceHoldTest : public PresenceFixture {
 protected:
  HoldVerdict hold(std::string_view uid, std::int64_t ms, std::int64_t until_ms = 3'600'000) {
    live_.clear();
    return registry().hold(uid, at(until_ms), at(ms), live_);
  }
  std::optional<Duration> release(std::string_view uid, std::int64_t ms) {
    live_.clear();
    return registry().release(uid, at(ms), live_);
  }
  /// A session ends whose last packet came at `packet_ms`.
  bool end_of(UserRef user, SessionRef ref, CloseReason reason, std::int64_t packet_ms,
              std::int64_t now_ms, std::optional<MonoTime> held_since = {}) {
    return registry().end_session(
        {user, ref, reason, at(packet_ms), at(packet_ms + kTimeoutMs), held_since}, at(now_ms),
        edges_);
  }
  /// Turns the wheel to `ms`, second by second, and handles what expires.
  void turn(std::int64_t ms) {
    for (; turned_ <= ms; turned_ += 1'000) {
      HookList expired;
      EXPECT_TRUE(wheel_.advance(clock_.floor(at(turned_)), 1'000'000, expired));
      while (TimerHook* hook = expired.pop_front()) {
        if (hook->kind() == HookKind::kHold) {
          registry().expire_hold(*hook, at(turned_), live_);
        } else {
          registry().expire_lingering(*hook, at(turned_), edges_);
        }
      }
    }
  }
  bool is_held(std::string_view uid) { return registry().find(uid, at(0)).hold.has_value(); }

  std::vector<SessionRef> live_;

 private:
  std::int64_t turned_ = 0;
};

TEST_F(PresenceHoldTest, LingeringUserStaysAndHasAfterwardsWhatWasLeft) {
  const UserRef alice = login("alice", session(1), 0).user;
  end_of(alice, session(1), CloseReason::kPeerClosed, 0, 1'000);
  drop_edges();
  EXPECT_EQ(hold("alice", 10'000), HoldVerdict::kHeld);
  turn(500'000);
  EXPECT_EQ(state("alice", 500'000), PresenceState::kOnline);
  EXPECT_EQ(release("alice", 500'000), std::chrono::seconds{490});
  turn(519'000);
  EXPECT_EQ(edges_.size(), 0U);
  turn(520'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kDisconnect);
  EXPECT_EQ(edge.due, at(520'000));
  EXPECT_EQ(edge.last_seen, at(0));
}

TEST_F(PresenceHoldTest, LiveSessionsAreNamedAtHoldAndRelease) {
  login("alice", session(1), 0);
  login("alice", session(2, 1), 0, "phone");
  hold("alice", 1'000);
  EXPECT_EQ(live_, (std::vector{session(1), session(2, 1)}));
  release("alice", 2'000);
  EXPECT_EQ(live_, (std::vector{session(1), session(2, 1)}));
}

TEST_F(PresenceHoldTest, ConnectionThatClosesMeanwhileKeepsWhatItHadLeft) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 10'000);
  end_of(alice, session(1), CloseReason::kPeerReset, 0, 300'000, at(10'000));
  turn(400'000);
  release("alice", 400'000);
  turn(419'000);
  EXPECT_EQ(edges_.size(), 0U);
  turn(420'000);
  EXPECT_EQ(only_edge().due, at(420'000));
}

TEST_F(PresenceHoldTest, PacketMeanwhileGivesTheWholeTimeout) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 10'000);
  end_of(alice, session(1), CloseReason::kPeerReset, 200'000, 300'000, at(10'000));
  release("alice", 400'000);
  turn(429'000);
  EXPECT_EQ(edges_.size(), 0U);
  turn(430'000);
  EXPECT_EQ(only_edge().due, at(430'000));
}

TEST_F(PresenceHoldTest, SilenceDeclaredBeforeTheShardHeardOfTheHoldIsNotFinal) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 29'000);
  EXPECT_TRUE(end_of(alice, session(1), CloseReason::kTimeout, 0, 31'000));
  turn(100'000);
  EXPECT_EQ(edges_.size(), 0U);
  release("alice", 100'000);
  turn(101'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
  EXPECT_EQ(edge.due, at(101'000));
}

TEST_F(PresenceHoldTest, WhoHadRunOutWhenTheHoldCameGoesAtTheRelease) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 30'500);
  EXPECT_TRUE(end_of(alice, session(1), CloseReason::kTimeout, 0, 31'000));
  turn(100'000);
  EXPECT_EQ(edges_.size(), 0U);
  release("alice", 100'000);
  turn(100'000 + 1'000);
  EXPECT_EQ(only_edge().reason, EdgeReason::kTimeout);
}

TEST_F(PresenceHoldTest, EndThatCrossesTheReleaseHasWhatWasLeft) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 10'000);
  release("alice", 100'000);
  end_of(alice, session(1), CloseReason::kPeerReset, 0, 100'500, at(10'000));
  turn(120'000);
  EXPECT_EQ(edges_.size(), 0U);
  turn(121'000);
  EXPECT_EQ(only_edge().due, at(120'500));
}

TEST_F(PresenceHoldTest, EndThatCrossesAReleaseAndTheNextHoldHasWhatWasLeft) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 10'000);
  release("alice", 100'000);
  hold("alice", 100'100);
  end_of(alice, session(1), CloseReason::kPeerReset, 0, 100'500, at(10'000));
  release("alice", 200'000);
  turn(219'000);
  EXPECT_EQ(edges_.size(), 0U);
  turn(220'000);
  EXPECT_EQ(only_edge().due, at(220'000));
}

TEST_F(PresenceHoldTest, LogoutMeanwhileIsOfflineAtOnceAndEndsTheHold) {
  const UserRef alice = login("alice", session(1), 0).user;
  drop_edges();
  hold("alice", 1'000);
  end_of(alice, session(1), CloseReason::kLogout, 2'000, 2'000, at(1'000));
  EXPECT_EQ(only_edge().reason, EdgeReason::kLogout);
  EXPECT_EQ(registry().held_users(), 0U);
  EXPECT_EQ(armed_hooks(), 0U);
  EXPECT_EQ(login("alice", session(2), 3'000).held_since, std::nullopt);
}

TEST_F(PresenceHoldTest, LogoutBesideALingeringSessionLeavesTheUserOnline) {
  login("alice", session(1), 0, "phone");
  const UserRef alice = login("alice", session(2), 0).user;
  end_of(alice, session(1), CloseReason::kPeerClosed, 0, 0);
  drop_edges();
  hold("alice", 10'000);
  end_of(alice, session(2), CloseReason::kLogout, 100'000, 100'000, at(10'000));
  turn(200'000);
  EXPECT_EQ(edges_.size(), 0U);
  release("alice", 200'000);
  turn(220'000);
  EXPECT_EQ(only_edge().due, at(220'000));
}

TEST_F(PresenceHoldTest, LogoutBesideALingeringSessionThatHadRunOutEndsTheHold) {
  login("alice", session(1), 0, "phone");
  const UserRef alice = login("alice", session(2), 0).user;
  end_of(alice, session(1), CloseReason::kPeerClosed, 0, 0);
  drop_edges();
  hold("alice", 30'500);  // the wheel has not come round to the deadline of the first one
  end_of(alice, session(2), CloseReason::kLogout, 99'500, 99'500, at(30'500));
  EXPECT_EQ(registry().held_users(), 0U);
  turn(99'000);
  EXPECT_EQ(edges_.size(), 0U) << "whether the first one is back may lie unread";
  turn(100'000);
  const Edge edge = only_edge();
  EXPECT_EQ(edge.reason, EdgeReason::kLogout);
  EXPECT_EQ(edge.due, at(99'500)) << "nobody is late by how long the hold was";
}

TEST_F(PresenceHoldTest, KickMeanwhileIsOfflineAtOnceAndEndsTheHold) {
  login("alice", session(1), 0);
  drop_edges();
  hold("alice", 1'000);
  EXPECT_TRUE(registry().kick("alice", at(2'000), edges_, live_));
  EXPECT_EQ(only_edge().reason, EdgeReason::kKicked);
  EXPECT_EQ(registry().held_users(), 0U);
  EXPECT_EQ(release("alice", 3'000), std::nullopt);
}

TEST_F(PresenceHoldTest, WhoLogsInMeanwhileIsHeldSinceTheHoldBegan) {
  login("alice", session(1), 0);
  hold("alice", 1'000);
  EXPECT_EQ(login("alice", session(2), 5'000).held_since, at(1'000));
}

TEST_F(PresenceHoldTest, HoldEndsByItselfWhenItsTimeIsOver) {
  const UserRef alice = login("alice", session(1), 0).user;
  login("alice", session(2), 0, "phone");
  end_of(alice, session(1), CloseReason::kPeerClosed, 0, 1'000);
  end_of(alice, session(2), CloseReason::kPeerClosed, 0, 1'000);
  drop_edges();
  hold("alice", 10'000, 60'000);
  turn(59'000);
  EXPECT_TRUE(is_held("alice"));
  turn(60'000);
  EXPECT_FALSE(is_held("alice"));
  turn(79'000);
  EXPECT_EQ(edges_.size(), 0U);
  turn(80'000);
  EXPECT_EQ(only_edge().due, at(80'000));
}

TEST_F(PresenceHoldTest, EndOfAHoldNamesTheLiveSessions) {
  login("alice", session(1), 0);
  hold("alice", 1'000, 5'000);
  live_.clear();
  turn(5'000);
  EXPECT_EQ(live_, std::vector{session(1)});
}

TEST_F(PresenceHoldTest, SecondHoldMovesTheEndAndNotTheBeginning) {
  login("alice", session(1), 0);
  hold("alice", 1'000, 5'000);
  EXPECT_EQ(hold("alice", 3'000, 9'000), HoldVerdict::kHeld);
  const auto view = registry().find("alice", at(3'000)).hold;
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->since, at(1'000));
  EXPECT_EQ(view->until, at(9'000));
  turn(8'000);
  EXPECT_TRUE(is_held("alice"));
  turn(9'000);
  EXPECT_FALSE(is_held("alice"));
}

TEST_F(PresenceHoldTest, OnlyOnlineUsersAreHeldAndNotTooMany) {
  make({.holds_max = 2});
  EXPECT_EQ(hold("nobody", 0), HoldVerdict::kNotOnline);
  for (std::uint32_t i = 1; i <= 3; ++i)
    login("u" + std::to_string(i), session(i), 0);
  EXPECT_EQ(hold("u1", 0), HoldVerdict::kHeld);
  EXPECT_EQ(hold("u2", 0), HoldVerdict::kHeld);
  EXPECT_EQ(hold("u3", 0), HoldVerdict::kTooMany);
  EXPECT_EQ(hold("u2", 0), HoldVerdict::kHeld) << "is one of them already";
  release("u1", 0);
  EXPECT_EQ(hold("u3", 0), HoldVerdict::kHeld);
}

TEST_F(PresenceHoldTest, ShutdownEndsHoldsToo) {
  login("alice", session(1), 0);
  hold("alice", 0);
  EXPECT_TRUE(registry().shutdown(at(1'000), 100, edges_));
  EXPECT_EQ(registry().held_users(), 0U);
  EXPECT_EQ(armed_hooks(), 0U);
}

TEST_F(PresenceHoldTest, MirrorsHearWhenAHeldUserGoesAtTheLatest) {
  make({.track_deadlines = true});
  const auto told = [this] {
    DeadlineBatch batch;
    EXPECT_TRUE(registry().take_deadlines(1'000, batch));
    return batch.empty() ? std::nullopt : std::optional(batch.at(0).deadline);
  };
  registry().login({"alice", "", session(1), at(0), at(kTimeoutMs)}, at(0), edges_);
  EXPECT_EQ(told(), at(30'000));
  hold("alice", 10'000, 100'000);
  EXPECT_EQ(told(), at(120'000));
  release("alice", 50'000);
  EXPECT_EQ(told(), at(70'000));
}

}  // namespace
}  // namespace pulsewheel

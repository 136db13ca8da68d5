// What a registry with track_deadlines tells mirrors and snapshots.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

class PresenceDeadlinesTest : public PresenceFixture {
 protected:
  PresenceDeadlinesTest() { make({.track_deadlines = true}); }

  UserRef log_in(std::string_view uid, SessionRef ref, std::int64_t ms,
                 std::string_view device = "") {
    return registry().login({uid, device, ref, at(ms), at(ms + kTimeoutMs)}, at(ms), edges_).user;
  }
  bool touch(UserRef user, SessionRef ref, std::int64_t ms) {
    return registry().touch({user, ref, at(ms), at(ms + kTimeoutMs)});
  }
  /// What has changed, as uid -> milliseconds of the deadline.
  std::map<std::string, std::int64_t> take(std::size_t budget = 1'000) {
    DeadlineBatch batch;
    all_taken = registry().take_deadlines(budget, batch);
    return as_map(batch);
  }
  static std::map<std::string, std::int64_t> as_map(const DeadlineBatch& batch) {
    std::map<std::string, std::int64_t> map;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto since_start = batch.at(i).deadline - kStart;
      const bool is_new =
          map.emplace(batch.at(i).uid, since_start / std::chrono::milliseconds{1}).second;
      EXPECT_TRUE(is_new) << "told twice: " << batch.at(i).uid;
    }
    return map;
  }
  using Map = std::map<std::string, std::int64_t>;

  bool all_taken = false;
};

TEST_F(PresenceDeadlinesTest, TellsALogin) {
  log_in("alice", session(1), 0);
  EXPECT_TRUE(registry().deadlines_changed());
  EXPECT_EQ(take(), (Map{{"alice", 30'000}}));
  EXPECT_FALSE(registry().deadlines_changed());
  EXPECT_EQ(take(), Map{});
}

TEST_F(PresenceDeadlinesTest, TellsSeveralChangesOfAUserOnce) {
  const UserRef user = log_in("alice", session(1), 0);
  EXPECT_TRUE(touch(user, session(1), 5'000));
  EXPECT_TRUE(touch(user, session(1), 9'000));
  EXPECT_EQ(take(), (Map{{"alice", 39'000}}));
}

TEST_F(PresenceDeadlinesTest, TellsNothingWhenTheDeadlineIsTheSame) {
  const UserRef user = log_in("alice", session(1), 0);
  take();
  EXPECT_TRUE(touch(user, session(1), 0));
  EXPECT_EQ(take(), Map{});
}

TEST_F(PresenceDeadlinesTest, TakesTheLatestOfAllSessions) {
  const UserRef user = log_in("alice", session(1), 0, "phone");
  log_in("alice", session(2), 10'000);
  take();
  touch(user, session(1), 4'000);
  EXPECT_EQ(take(), Map{}) << "the other session is later";
  touch(user, session(1), 20'000);
  EXPECT_EQ(take(), (Map{{"alice", 50'000}}));
}

TEST_F(PresenceDeadlinesTest, TakesTheRestWhenTheLatestSessionLogsOut) {
  const UserRef user = log_in("alice", session(1), 0);
  log_in("alice", session(2), 10'000);
  take();
  end(user, session(2), CloseReason::kLogout, 11'000, 40'000);
  EXPECT_EQ(take(), (Map{{"alice", 30'000}}));
}

TEST_F(PresenceDeadlinesTest, KeepsTheDeadlineOfAnEarlierSessionThroughALaterOne) {
  const UserRef user = log_in("alice", session(1), 0);
  touch(user, session(1), 15'000);
  log_in("alice", session(2), 10'000);
  EXPECT_EQ(take(), (Map{{"alice", 45'000}}));
}

TEST_F(PresenceDeadlinesTest, TellsTheDeadlineOfALingeringUser) {
  const UserRef user = log_in("alice", session(1), 0);
  take();
  end(user, session(1), CloseReason::kPeerClosed, 21'000, 50'000);
  EXPECT_EQ(take(), (Map{{"alice", 50'000}}));
}

TEST_F(PresenceDeadlinesTest, LeavesOutWhoIsOfflineByNow) {
  const UserRef user = log_in("alice", session(1), 0);
  end(user, session(1), CloseReason::kLogout, 1'000, 30'000);
  EXPECT_EQ(take(), Map{});
  log_in("alice", session(2), 2'000);
  EXPECT_EQ(take(), (Map{{"alice", 32'000}}));
}

TEST_F(PresenceDeadlinesTest, TellsAUserWhoCameBackWithTheDeadlineOfBefore) {
  const UserRef user = log_in("alice", session(1), 0);
  take();
  end(user, session(1), CloseReason::kLogout, 0, 30'000);
  log_in("alice", session(2), 0);
  EXPECT_EQ(take(), (Map{{"alice", 30'000}}));
}

TEST_F(PresenceDeadlinesTest, StopsAtTheBudgetAndGoesOn) {
  for (std::uint32_t i = 0; i < 10; ++i)
    log_in("user" + std::to_string(i), session(i + 1), i);
  EXPECT_EQ(take(4).size(), 4U);
  EXPECT_FALSE(all_taken);
  EXPECT_EQ(take(6).size(), 6U);
  EXPECT_TRUE(all_taken);
}

TEST_F(PresenceDeadlinesTest, RefusesATouchOfASessionThatIsGone) {
  const UserRef user = log_in("alice", session(1), 0);
  log_in("alice", session(2), 0, "phone");
  end(user, session(1), CloseReason::kLogout, 1'000, 30'000);
  EXPECT_FALSE(touch(user, session(1), 2'000));
  EXPECT_TRUE(touch(user, session(2), 2'000));
}

TEST_F(PresenceDeadlinesTest, ATouchIsNewerLastSeenForTheOfflineEdge) {
  const UserRef user = log_in("alice", session(1), 0);
  log_in("alice", session(2), 0);
  touch(user, session(1), 25'000);
  end(user, session(1), CloseReason::kLogout, 26'000, 50'000);
  drop_edges();
  end(user, session(2), CloseReason::kLogout, 26'000, 20'000);
  EXPECT_EQ(only_edge().last_seen, at(49'000));  // a second before the first one's deadline
}

TEST_F(PresenceDeadlinesTest, ListsEveryOnlineUserOnce) {
  Map expected;
  for (std::uint32_t i = 0; i < 700; ++i) {
    const std::string uid = "user" + std::to_string(i);
    const UserRef user = log_in(uid, session(i + 1), i);
    if (i % 3 == 0) {
      end(user, session(i + 1), CloseReason::kLogout, 1'000, 30'000);
    } else {
      expected.emplace(uid, i + kTimeoutMs);
    }
  }
  DeadlineBatch batch;
  std::uint32_t cursor = 0;
  int calls = 1;
  while (registry().list_deadlines(&cursor, 64, batch))
    ++calls;
  EXPECT_EQ(as_map(batch), expected);
  EXPECT_GT(calls, 700 / 64) << "in steps of the budget";
}

TEST_F(PresenceDeadlinesTest, ARestoredUserLingersWithoutAnEdgeAndIsTold) {
  EXPECT_TRUE(registry().restore("alice", at(-5'000), at(10'000), at(0)));
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().lingering_users(), 1U);
  EXPECT_EQ(registry().find("alice", at(0)).state, PresenceState::kOnline);
  EXPECT_EQ(take(), (std::map<std::string, std::int64_t>{{"alice", 10'000}}));
}

TEST_F(PresenceDeadlinesTest, ARestoredUserEndsAtTheDeadline) {
  EXPECT_TRUE(registry().restore("alice", at(-5'000), at(10'000), at(0)));
  advance(9'000);
  EXPECT_TRUE(edges_.empty());
  advance(10'000);
  ASSERT_EQ(edges_.size(), 1U);
  EXPECT_EQ(edges_.at(0).kind, EdgeKind::kOffline);
  EXPECT_EQ(edges_.at(0).reason, EdgeReason::kTimeout);
  EXPECT_EQ(edges_.at(0).last_seen, at(-5'000));
}

TEST_F(PresenceDeadlinesTest, ARestoredUserWhoComesBackMakesNoEdge) {
  EXPECT_TRUE(registry().restore("alice", at(-5'000), at(10'000), at(0)));
  log_in("alice", session(1), 1'000);
  advance(20'000);
  EXPECT_TRUE(edges_.empty());
  EXPECT_EQ(registry().lingering_users(), 0U);
}

TEST_F(PresenceDeadlinesTest, NobodyIsRestoredWhoIsOnline) {
  log_in("alice", session(1), 0);
  EXPECT_FALSE(registry().restore("alice", at(-5'000), at(10'000), at(0)));
  EXPECT_EQ(registry().online_users(), 1U);
}

}  // namespace
}  // namespace pulsewheel

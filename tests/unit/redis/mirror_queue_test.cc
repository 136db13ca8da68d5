#include "daemon/redis/mirror_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace pulsewheel {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kLogin = EdgeReason::kLogin;
constexpr auto kTimeout = EdgeReason::kTimeout;
constexpr auto kLogout = EdgeReason::kLogout;

MonoTime at(int s) {
  return MonoTime{} + seconds{s};
}

/// "+alice@5" came online until second 5, "=" moved there, "-alice" went offline.
std::string text_of(const MirrorChange& change) {
  constexpr std::string_view kSigns = "=+-";
  std::string text = kSigns[static_cast<std::size_t>(change.kind)] + change.uid;
  if (change.kind == MirrorChange::Kind::kRemove) return text;
  return text + "@" + std::to_string((change.deadline - MonoTime{}) / seconds{1});
}

std::vector<std::string> take(MirrorQueue& queue, std::size_t changes_max = 100) {
  std::vector<std::string> texts;
  for (const MirrorChange& change : queue.take(changes_max))
    texts.push_back(text_of(change));
  return texts;
}

TEST(MirrorQueueTest, HandsChangesOutInTheOrderInWhichTheyBegan) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.move("alice", at(1), at(0)));
  EXPECT_TRUE(queue.add("bob", kLogin, at(2), at(0)));
  EXPECT_TRUE(queue.remove("carol", kTimeout, at(0)));
  EXPECT_THAT(take(queue), ElementsAre("=alice@1", "+bob@2", "-carol"));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST(MirrorQueueTest, OfDeadlinesOnlyTheNewestCounts) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.move("alice", at(1), at(0)));
  EXPECT_TRUE(queue.move("bob", at(1), at(0)));
  EXPECT_TRUE(queue.move("alice", at(9), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("=alice@9", "=bob@1"));
}

TEST(MirrorQueueTest, LagCountsFromTheFirstNewsInAChange) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.move("alice", at(30), at(1)));
  EXPECT_TRUE(queue.move("alice", at(31), at(2)));
  EXPECT_EQ(queue.take(1).front().handed_over, at(1));
}

TEST(MirrorQueueTest, ALoginTakesTheDeadlineThatFollowsIt) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.add("alice", kLogin, at(30), at(0)));
  EXPECT_TRUE(queue.move("alice", at(45), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("+alice@45"));
}

TEST(MirrorQueueTest, AnEndMakesADeadlineNeedless) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.move("alice", at(1), at(0)));
  EXPECT_TRUE(queue.remove("alice", kLogout, at(0)));
  const auto changes = queue.take(10);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, MirrorChange::Kind::kRemove);
  EXPECT_EQ(changes[0].reason, kLogout);
}

TEST(MirrorQueueTest, EdgesOfOneUserAllStay) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.add("alice", kLogin, at(1), at(0)));
  EXPECT_TRUE(queue.remove("alice", kLogout, at(0)));
  EXPECT_TRUE(queue.add("alice", kLogin, at(2), at(0)));
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_THAT(take(queue), ElementsAre("+alice@1"));
  EXPECT_THAT(take(queue), ElementsAre("-alice"));
  EXPECT_THAT(take(queue), ElementsAre("+alice@2"));
  EXPECT_THAT(take(queue), IsEmpty());
}

TEST(MirrorQueueTest, AUserWithManyEdgesHoldsUpNobody) {
  MirrorQueue queue({});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(queue.add("alice", kLogin, at(1), at(0)));
    EXPECT_TRUE(queue.remove("alice", kLogout, at(0)));
  }
  EXPECT_TRUE(queue.move("bob", at(5), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("+alice@1", "=bob@5"));
}

TEST(MirrorQueueTest, ADeadlineBehindAnEndIsAChangeOfItsOwn) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.remove("alice", kTimeout, at(0)));
  EXPECT_TRUE(queue.move("alice", at(4), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("-alice"));
  EXPECT_THAT(take(queue), ElementsAre("=alice@4"));
}

TEST(MirrorQueueTest, TakesNoMoreThanAskedFor) {
  MirrorQueue queue({});
  for (const char* uid : {"a", "b", "c"})
    EXPECT_TRUE(queue.move(uid, at(1), at(0)));
  EXPECT_THAT(take(queue, 2), ElementsAre("=a@1", "=b@1"));
  EXPECT_THAT(take(queue, 2), ElementsAre("=c@1"));
}

TEST(MirrorQueueTest, WhatIsGivenBackComesBeforeNewerNews) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.add("alice", kLogin, at(1), at(0)));
  auto taken = queue.take(1);
  EXPECT_FALSE(queue.holds("alice"));
  EXPECT_TRUE(queue.remove("alice", kLogout, at(0)));
  queue.give_back(std::move(taken.front()));
  EXPECT_THAT(take(queue), ElementsAre("+alice@1"));
  EXPECT_THAT(take(queue), ElementsAre("-alice"));
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST(MirrorQueueTest, NewsJoinsWhatWasGivenBack) {
  MirrorQueue queue({});
  EXPECT_TRUE(queue.move("alice", at(1), at(0)));
  auto taken = queue.take(1);
  queue.give_back(std::move(taken.front()));
  EXPECT_TRUE(queue.move("alice", at(7), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("=alice@7"));
}

TEST(MirrorQueueTest, AFullOneRefusesWhatIsNewAndTakesWhatJoins) {
  MirrorQueue queue({.changes_max = 2});
  EXPECT_TRUE(queue.move("alice", at(1), at(0)));
  EXPECT_TRUE(queue.move("bob", at(1), at(0)));
  EXPECT_FALSE(queue.move("carol", at(1), at(0)));
  EXPECT_FALSE(queue.holds("carol"));
  EXPECT_EQ(queue.room(), 0U);
  EXPECT_TRUE(queue.move("bob", at(3), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("=alice@1", "=bob@3"));
}

TEST(MirrorQueueTest, BytesAreBoundedToo) {
  const std::string longest(128, 'u');
  MirrorQueue queue({.changes_max = 1'000, .bytes_max = 1'000});
  std::size_t taken = 0;
  while (queue.move(longest + std::to_string(taken), at(1), at(0)))
    ++taken;
  EXPECT_GT(taken, 1U);
  EXPECT_LT(taken, 8U);
  EXPECT_LE(queue.bytes(), 1'000U);
}

TEST(MirrorQueueTest, UidsAreBytes) {
  MirrorQueue queue({});
  const std::string zero("\0", 1);
  EXPECT_TRUE(queue.move(zero, at(1), at(0)));
  EXPECT_TRUE(queue.move(zero + "a", at(2), at(0)));
  EXPECT_TRUE(queue.move("\r\n{}*", at(3), at(0)));
  EXPECT_THAT(take(queue), ElementsAre("=" + zero + "@1", "=" + zero + "a@2", "=\r\n{}*@3"));
}

/// Who is online until when, as somebody sees it who carries the changes out.
using Ring = std::map<std::string, MonoTime>;

void carry_out(const MirrorChange& change, Ring& ring) {
  if (change.kind == MirrorChange::Kind::kRemove) {
    ring.erase(change.uid);
  } else {
    ring[change.uid] = change.deadline;
  }
}

TEST(MirrorQueueOracleTest, WhateverIsTakenAndGivenBackTheRingEndsEqualToMemory) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&random](int bound) {
    return std::uniform_int_distribution<int>(0, bound - 1)(random);
  };
  MirrorQueue queue({});
  Ring memory;
  Ring ring;
  std::size_t given_back = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::string uid = "u" + std::to_string(draw(20));
    if (!memory.contains(uid)) {
      memory[uid] = at(step);
      ASSERT_TRUE(queue.add(uid, kLogin, at(step), at(step)));
    } else if (draw(2) == 0) {
      memory[uid] = at(step);
      ASSERT_TRUE(queue.move(uid, at(step), at(step)));
    } else {
      memory.erase(uid);
      ASSERT_TRUE(queue.remove(uid, kTimeout, at(step)));
    }
    if (draw(4) != 0) continue;
    for (MirrorChange& change : queue.take(static_cast<std::size_t>(1 + draw(8)))) {
      if (draw(3) == 0) {
        queue.give_back(std::move(change));
        ++given_back;
      } else {
        carry_out(change, ring);
      }
    }
  }
  while (!queue.empty()) {
    for (const MirrorChange& change : queue.take(8))
      carry_out(change, ring);
  }
  EXPECT_EQ(ring, memory);
  EXPECT_EQ(queue.bytes(), 0U);
  EXPECT_GT(given_back, 100U);
}

}  // namespace
}  // namespace pulsewheel

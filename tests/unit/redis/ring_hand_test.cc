#include "daemon/redis/ring_hand.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "tests/unit/redis/replies.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr MonoTime kStart{100s};

RingClaim claim_at(milliseconds redis_time, bool work_left = false) {
  return {.work_left = work_left, .late = 0ms, .now = redis_time, .refiled = 0, .uids = {}};
}

TEST(RingHandTest, IsDueAtOnce) {
  EXPECT_EQ(RingHand(kStart).due(), kStart);
}

TEST(RingHandTest, GoesOnAtOnceWhileWorkIsLeft) {
  RingHand hand(kStart);
  hand.on_claim(claim_at(1'000'999ms, true), kStart + 3ms);
  EXPECT_EQ(hand.due(), kStart + 3ms);
}

TEST(RingHandTest, WaitsForTheNextFullSecondOfRedis) {
  for (const auto& [redis_time, wait] : {std::pair{1'000'000ms, 1000ms},
                                         {1'000'001ms, 999ms},
                                         {1'000'400ms, 600ms},
                                         {1'000'999ms, 1ms}}) {
    RingHand hand(kStart);
    hand.on_claim(claim_at(redis_time), kStart);
    EXPECT_EQ(hand.due(), kStart + wait + RingHand::kMargin) << redis_time.count();
  }
}

TEST(RingHandTest, BacksOffAfterFailuresInARow) {
  RingHand hand(kStart);
  for (const milliseconds pause : {1s, 2s, 4s, 8s, 8s}) {
    hand.on_failure(kStart);
    EXPECT_EQ(hand.due(), kStart + pause);
  }
  hand.on_claim(claim_at(1'000'000ms), kStart);
  hand.on_failure(kStart);
  EXPECT_EQ(hand.due(), kStart + 1s);
}

RedisReply answer() {
  return array_reply({integer_reply(1), integer_reply(250), integer_reply(1'000'250),
                      integer_reply(7),
                      array_reply({text_reply(RedisReply::Type::kString, "alice")})});
}

TEST(RingClaimTest, IsReadFromAnAnswer) {
  const auto claim = RingClaim::parse(answer());
  ASSERT_TRUE(claim);
  EXPECT_TRUE(claim->work_left);
  EXPECT_EQ(claim->late, 250ms);
  EXPECT_EQ(claim->now, 1'000'250ms);
  EXPECT_EQ(claim->refiled, 7u);
  EXPECT_EQ(claim->uids, std::vector<std::string>{"alice"});
}

TEST(RingClaimTest, IsNotReadFromAnythingElse) {
  EXPECT_FALSE(RingClaim::parse({}));
  EXPECT_FALSE(RingClaim::parse(integer_reply(1)));
  for (std::size_t i = 0; i < 5; ++i) {
    RedisReply reply = answer();
    reply.elements[i] = {};
    EXPECT_FALSE(RingClaim::parse(reply)) << i;
    reply.elements.resize(i);
    EXPECT_FALSE(RingClaim::parse(reply)) << i;
  }
  RedisReply negative = answer();
  negative.elements[2].integer = -1;
  EXPECT_FALSE(RingClaim::parse(negative));
}

}  // namespace
}  // namespace pulsewheel

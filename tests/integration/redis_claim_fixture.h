// The ring in a real redis-server with a hand on it, for tests of who is claimed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/redis/ring_hand.h"
#include "daemon/redis/scripts.h"
#include "tests/integration/ring_fixture.h"

namespace pulsewheel::test {

inline constexpr std::int64_t kSlots = 32;

/// Puts users into the ring as PHP front ends and nodes would have, and moves the hand by one call
/// of its script at a time.
class RedisClaimFixture : public RingFixture {
 protected:
  // Stops the clock early in a second. That second.
  std::int64_t early_in_a_second() {
    using namespace std::chrono_literals;
    const std::int64_t second = now() / 1s;
    stop_clock(second * 1s + 200ms);
    return second;
  }

  static std::string slot(std::int64_t second) { return "slot-" + std::to_string(second % kSlots); }

  // As a PHP front end would have left a user who is due at the begin of `second`.
  void put(const std::string& uid, std::int64_t second) {
    redis_.command({"SADD", slot(second), uid});
    redis_.command({"HSET", "timeline-index", uid, slot(second)});
  }
  // As a node would have. `back` ms before that second.
  void put_by_node(const std::string& uid, std::int64_t second, const std::string& owners,
                   int back = 500) {
    put(uid, second);
    redis_.command({"HSET", names_.deadlines(), uid, std::to_string(second * 1000 - back)});
    redis_.command({"HSET", names_.owners(), uid, owners});
  }
  void put_many(int users, std::int64_t second) {
    std::vector<std::string> sadd{"SADD", slot(second)};
    std::vector<std::string> hset{"HSET", "timeline-index"};
    for (int i = 0; i < users; ++i) {
      sadd.push_back("user-" + std::to_string(i));
      hset.insert(hset.end(), {sadd.back(), slot(second)});
    }
    redis_.command(sadd);
    redis_.command(hset);
  }
  // The hand has read everything up to `second`.
  void set_hand(std::int64_t second) {
    redis_.command({"DEL", names_.hand()});
    redis_.command({"HSET", names_.hand(), "second", std::to_string(second)});
  }

  RingClaim claim(const RingScripts& node) { return to_claim(run(node.claim())); }
  static RingClaim to_claim(const RedisReply& reply) {
    const auto claim = RingClaim::parse(reply);
    EXPECT_TRUE(claim.has_value()) << reply.text;
    return claim.value_or(RingClaim{});
  }
  // Until no work is left.
  std::vector<std::string> claim_all(const RingScripts& node) {
    std::vector<std::string> uids;
    for (bool work_left = true; work_left;) {
      RingClaim part = claim(node);
      uids.insert(uids.end(), part.uids.begin(), part.uids.end());
      work_left = part.work_left;
    }
    return uids;
  }
  std::chrono::milliseconds deadline(const std::string& uid) {
    return std::chrono::milliseconds{std::stoll(hash(names_.deadlines()).at(uid))};
  }
  void expect_consistent() { EXPECT_EQ(by_sets(), hash("timeline-index")); }
  void expect_nothing_of(const std::string& uid) {
    for (const std::string& key : {names_.index, names_.deadlines(), names_.owners()})
      EXPECT_FALSE(hash(key).contains(uid)) << key;
    EXPECT_FALSE(by_sets().contains(uid));
  }
};

}  // namespace pulsewheel::test

// Which shard a uid is at home on.
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "daemon/core/presence_registry.h"

namespace pulsewheel {
namespace {

TEST(HomeShardTest, IsTheSameForTheSameSeedAndSpreadsEvenly) {
  constexpr std::size_t kShards = 4;
  constexpr std::size_t kUids = 40'000;
  std::size_t counts[kShards] = {};
  for (std::size_t i = 0; i < kUids; ++i) {
    const std::string uid = "user" + std::to_string(i);
    const ShardIndex home = home_shard_of(uid, 42, kShards);
    ASSERT_LT(home, kShards);
    ASSERT_EQ(home, home_shard_of(uid, 42, kShards));
    ++counts[home];
  }
  for (const std::size_t count : counts)
    EXPECT_NEAR(static_cast<double>(count), 10'000, 500);
}

TEST(HomeShardTest, DependsOnTheSeed) {
  std::size_t moved = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::string uid = "user" + std::to_string(i);
    moved += home_shard_of(uid, 1, 4) != home_shard_of(uid, 2, 4) ? 1U : 0U;
  }
  EXPECT_GT(moved, 600U);
}

TEST(HomeShardTest, OneShardIsHomeToAll) {
  EXPECT_EQ(home_shard_of("alice", 7, 1), 0);
}

}  // namespace
}  // namespace pulsewheel

#include <gtest/gtest.h>

#include "daemon/base/descriptor_tables.h"

namespace pulsewheel {
namespace {

DescriptorRequest request(std::uint64_t connections, std::uint64_t limit,
                          DescriptorTables mode = DescriptorTables::kAuto) {
  return {mode, connections, limit, /*reserve=*/100, /*shards_wanted=*/2};
}

TEST(DescriptorPlanTest, AutoStaysSharedUpToTheLastDescriptor) {
  const DescriptorPlan plan = plan_descriptor_tables(request(19'900, 20'000));
  EXPECT_FALSE(plan.per_shard);
  EXPECT_EQ(plan.max_connections, 19'900U);
  EXPECT_EQ(plan.shards, 2U);
}

TEST(DescriptorPlanTest, AutoSeparatesFromOneConnectionBeyond) {
  const DescriptorPlan plan = plan_descriptor_tables(request(19'901, 20'000));
  EXPECT_TRUE(plan.per_shard);
  EXPECT_EQ(plan.max_connections, 19'901U);
}

TEST(DescriptorPlanTest, EveryShardsOwnTableHoldsItsPartAndTheSpread) {
  for (const std::uint64_t connections : {20'000U, 50'000U, 100'000U, 400'000U, 1'000'000U}) {
    const DescriptorPlan plan = plan_descriptor_tables(request(connections, 20'000));
    SCOPED_TRACE(plan.reason);
    const std::uint64_t even = connections / plan.shards;
    EXPECT_EQ(plan.max_connections, connections);
    EXPECT_LE(plan.connections_per_shard + 100, 20'000U);
    EXPECT_GE(plan.connections_per_shard, even + even / 10);
    EXPECT_LE(plan.shards, kShardsMax);
  }
}

TEST(DescriptorPlanTest, OpensNoMoreShardsThanItNeeds) {
  EXPECT_EQ(plan_descriptor_tables(request(100'000, 20'000)).shards, 6U);
}

TEST(DescriptorPlanTest, NeverOpensMoreThanTheMostShards) {
  const DescriptorPlan plan = plan_descriptor_tables(request(100'000'000, 20'000));
  EXPECT_EQ(plan.shards, kShardsMax);
  EXPECT_LT(plan.max_connections, 100'000'000U);
  EXPECT_GT(plan.max_connections, 17'000U * kShardsMax);
  EXPECT_LE(plan.connections_per_shard + 100, 20'000U);
}

TEST(DescriptorPlanTest, SharedLowersMaxConnectionsToWhatFits) {
  const DescriptorPlan plan =
      plan_descriptor_tables(request(100'000, 20'000, DescriptorTables::kShared));
  EXPECT_FALSE(plan.per_shard);
  EXPECT_EQ(plan.max_connections, 19'900U);
  EXPECT_EQ(plan.connections_per_shard * plan.shards, 19'900U);
  EXPECT_NE(plan.reason.find("lowered from 100000 to 19900"), std::string::npos) << plan.reason;
}

TEST(DescriptorPlanTest, PerShardSeparatesEvenWhenOneTableWouldDo) {
  const DescriptorPlan plan =
      plan_descriptor_tables(request(1'000, 20'000, DescriptorTables::kPerShard));
  EXPECT_TRUE(plan.per_shard);
  EXPECT_EQ(plan.shards, 2U);
  EXPECT_EQ(plan.max_connections, 1'000U);
}

TEST(DescriptorPlanTest, SharedShardsTogetherNeverAskForMoreThanTheTableHas) {
  const DescriptorPlan plan = plan_descriptor_tables(request(19'000, 20'000));
  EXPECT_LE(plan.connections_per_shard * plan.shards + 100, 20'000U);
  EXPECT_GE(plan.connections_per_shard * plan.shards, 19'000U);
}

TEST(DescriptorPlanTest, OneSharedShardTakesThemAll) {
  const DescriptorPlan plan =
      plan_descriptor_tables({DescriptorTables::kAuto, 5'000, 20'000, 100, 1});
  EXPECT_EQ(plan.connections_per_shard, 5'000U);
}

TEST(DescriptorPlanTest, ALimitBelowTheReserveServesNobody) {
  for (const std::uint64_t limit : {0U, 99U, 100U}) {
    const DescriptorPlan plan = plan_descriptor_tables(request(1'000, limit));
    EXPECT_EQ(plan.max_connections, 0U) << limit;
    EXPECT_EQ(plan.connections_per_shard, 0U) << limit;
  }
}

TEST(DescriptorPlanTest, TakesAnUnlimitedTableAndOddShardCounts) {
  const DescriptorPlan none =
      plan_descriptor_tables({DescriptorTables::kAuto, 1'000'000, UINT64_MAX, 100, 0});
  EXPECT_FALSE(none.per_shard);
  EXPECT_EQ(none.shards, 1U);
  const DescriptorPlan many =
      plan_descriptor_tables({DescriptorTables::kPerShard, UINT64_MAX, UINT64_MAX, 100, 100'000});
  EXPECT_EQ(many.shards, kShardsMax);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/events/sequencer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace pulsewheel {
namespace {

EdgeBatch batch_of(const std::vector<std::string>& uids) {
  EdgeBatch batch;
  for (const std::string& uid : uids) {
    Edge edge;
    edge.uid = uid;
    batch.push(edge);
  }
  return batch;
}

/// Keeps what it is told. Read it after stop(), or `edges_seen` at any time.
class RecordingSink final : public EdgeSink {
 public:
  void on_edges(const SequencedBatch& batch) override {
    batches.push_back(batch);
    for (std::size_t i = 0; i < batch.edges->size(); ++i) {
      uid_by_seq.emplace(batch.first_seq + i, batch.edges->at(i).uid);
    }
    edges_seen.fetch_add(batch.edges->size());
  }
  void on_gap(const SequenceGap& gap) override { gaps.push_back(gap); }
  void on_deadlines(const std::shared_ptr<const DeadlineBatch>& deadlines) override {
    edges_before_deadlines.push_back(edges_seen.load());
    for (std::size_t i = 0; i < deadlines->size(); ++i)
      moved.emplace_back(deadlines->at(i).uid);
    deadlines_seen.fetch_add(deadlines->size());
  }
  void on_deadlines_lost() override { ++losses; }

  std::vector<SequencedBatch> batches;
  std::multimap<std::uint64_t, std::string> uid_by_seq;
  std::vector<SequenceGap> gaps;
  std::atomic<std::size_t> edges_seen{0};
  std::vector<std::string> moved;
  std::vector<std::size_t> edges_before_deadlines;
  std::atomic<std::size_t> deadlines_seen{0};
  int losses = 0;
};

DeadlineBatch deadlines_of(const std::vector<std::string>& uids) {
  DeadlineBatch batch;
  for (const std::string& uid : uids)
    batch.push({.uid = uid, .deadline = {}, .last_seen = {}});
  return batch;
}

Sequencer::Options options_for(std::size_t shards) {
  Sequencer::Options options;
  options.shards = shards;
  options.epoch = 7;
  return options;
}

TEST(SequencerTest, FirstEdgeOfAnEpochHasSeqOne) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  EXPECT_TRUE(sequencer.submit(0, batch_of({"alice"})));
  sequencer.stop();
  ASSERT_EQ(sink.batches.size(), 1U);
  EXPECT_EQ(sink.batches[0].first_seq, 1U);
  EXPECT_EQ(sink.batches[0].epoch, 7U);
}

TEST(SequencerTest, GoesOnWithTheNumbersOfARunThatItContinues) {
  RecordingSink sink;
  Sequencer::Options options = options_for(1);
  options.first_seq = 4'712;
  Sequencer sequencer(options);
  EXPECT_EQ(sequencer.stats().last_seq, 4'711U);
  EXPECT_EQ(sequencer.last_submitted_seq(), 4'711U);
  EXPECT_TRUE(sequencer.submit(0, batch_of({"a", "b"})));
  EXPECT_EQ(sequencer.last_submitted_seq(), 4'713U);
  sequencer.start({&sink});
  sequencer.stop();
  EXPECT_EQ(sink.batches.at(0).first_seq, 4'712U);
  EXPECT_EQ(sequencer.stats().last_seq, 4'713U);
}

TEST(SequencerTest, AnEmptyPartOfARosterIsHandedOnToo) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  DeadlineBatch part;
  part.mark_as({.shard = 0, .first_slot = 0, .next_slot = 8, .more = true});
  EXPECT_TRUE(sequencer.submit(0, {}, std::move(part)));
  EXPECT_TRUE(sequencer.submit(0, {}, DeadlineBatch{}));
  sequencer.stop();
  EXPECT_EQ(sink.edges_before_deadlines.size(), 1U);
}

TEST(SequencerTest, NumbersRunOnThroughBatchesOfAShard) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  EXPECT_TRUE(sequencer.submit(0, batch_of({"a", "b"})));
  EXPECT_TRUE(sequencer.submit(0, batch_of({"c"})));
  EXPECT_TRUE(sequencer.submit(0, batch_of({"d", "e"})));
  sequencer.stop();
  const std::multimap<std::uint64_t, std::string> expected{
      {1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}, {5, "e"}};
  EXPECT_EQ(sink.uid_by_seq, expected);
}

TEST(SequencerTest, WhatIsSubmittedBeforeStartIsHandedOn) {
  RecordingSink sink;
  Sequencer sequencer(options_for(2));
  EXPECT_TRUE(sequencer.submit(1, batch_of({"early"})));
  sequencer.start({&sink});
  sequencer.stop();
  EXPECT_EQ(sink.uid_by_seq.count(1), 1U);
}

TEST(SequencerTest, WakesFromSleepForABatch) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  for (std::size_t n = 1; n <= 200; ++n) {
    ASSERT_TRUE(sequencer.submit(0, batch_of({"x"})));
    ASSERT_TRUE(test::eventually([&] { return sink.edges_seen.load() == n; }));
  }
  sequencer.stop();
}

TEST(SequencerTest, EverySinkGetsTheSameBatch) {
  RecordingSink one;
  RecordingSink two;
  Sequencer sequencer(options_for(1));
  sequencer.start({&one, &two});
  EXPECT_TRUE(sequencer.submit(0, batch_of({"a"})));
  sequencer.stop();
  ASSERT_EQ(one.batches.size(), 1U);
  ASSERT_EQ(two.batches.size(), 1U);
  EXPECT_EQ(one.batches[0].edges, two.batches[0].edges);
}

TEST(SequencerTest, ASinkMayKeepABatchAfterTheSequencerIsGone) {
  RecordingSink sink;
  {
    Sequencer sequencer(options_for(1));
    sequencer.start({&sink});
    EXPECT_TRUE(sequencer.submit(0, batch_of({"kept"})));
  }
  ASSERT_EQ(sink.batches.size(), 1U);
  EXPECT_EQ(sink.batches[0].edges->at(0).uid, "kept");
}

TEST(SequencerTest, AnEmptyBatchIsNoBatch) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  EXPECT_TRUE(sequencer.submit(0, EdgeBatch{}));
  sequencer.stop();
  EXPECT_TRUE(sink.batches.empty());
}

TEST(SequencerTest, AcceptsExactlyTheEdgesThatMayBeInFlight) {
  Sequencer::Options options = options_for(1);
  options.edges_in_flight_max = 3;
  Sequencer sequencer(options);  // not started: all stays in flight
  EXPECT_TRUE(sequencer.submit(0, batch_of({"a", "b"})));
  EXPECT_FALSE(sequencer.submit(0, batch_of({"c", "d"})));
  EXPECT_TRUE(sequencer.submit(0, batch_of({"e"})));
  EXPECT_FALSE(sequencer.submit(0, batch_of({"f"})));
  EXPECT_EQ(sequencer.stats().queued, 3U);
  EXPECT_EQ(sequencer.stats().dropped, 3U);
}

TEST(SequencerTest, AcceptsExactlyTheBatchesThatMayBeInFlight) {
  Sequencer::Options options = options_for(1);
  options.batches_in_flight_max = 4;
  Sequencer sequencer(options);
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(sequencer.submit(0, batch_of({"a"}))) << i;
  EXPECT_FALSE(sequencer.submit(0, batch_of({"a"})));
}

TEST(SequencerTest, OneShardsBacklogDoesNotCostAnotherOneItsRoom) {
  Sequencer::Options options = options_for(2);
  options.edges_in_flight_max = 1;
  Sequencer sequencer(options);
  EXPECT_TRUE(sequencer.submit(0, batch_of({"a"})));
  EXPECT_FALSE(sequencer.submit(0, batch_of({"b"})));
  EXPECT_TRUE(sequencer.submit(1, batch_of({"c"})));
}

TEST(SequencerTest, DroppedEdgesTakeTheirNumbersAndAreToldAsAGap) {
  RecordingSink sink;
  Sequencer::Options options = options_for(1);
  options.edges_in_flight_max = 2;
  Sequencer sequencer(options);
  EXPECT_TRUE(sequencer.submit(0, batch_of({"a"})));
  EXPECT_FALSE(sequencer.submit(0, batch_of({"lost", "lost"})));
  EXPECT_FALSE(sequencer.submit(0, batch_of({"lost", "lost", "lost"})));
  EXPECT_TRUE(sequencer.submit(0, batch_of({"b"})));
  sequencer.start({&sink});
  sequencer.stop();
  const std::multimap<std::uint64_t, std::string> expected{{1, "a"}, {7, "b"}};
  EXPECT_EQ(sink.uid_by_seq, expected);
  ASSERT_EQ(sink.gaps.size(), 1U);
  EXPECT_EQ(sink.gaps[0].first_seq, 2U);
  EXPECT_EQ(sink.gaps[0].last_seq, 6U);
  EXPECT_EQ(sink.gaps[0].epoch, 7U);
}

TEST(SequencerTest, ADropThatNothingFollowsIsToldAtTheEnd) {
  RecordingSink sink;
  Sequencer::Options options = options_for(1);
  options.edges_in_flight_max = 1;
  Sequencer sequencer(options);
  EXPECT_FALSE(sequencer.submit(0, batch_of({"lost", "lost"})));
  sequencer.start({&sink});
  sequencer.stop();
  ASSERT_EQ(sink.gaps.size(), 1U);
  EXPECT_EQ(sink.gaps[0].last_seq, 2U);
}

TEST(SequencerTest, AfterStopSubmissionsAreDropped) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  sequencer.stop();
  EXPECT_FALSE(sequencer.submit(0, batch_of({"late"})));
  EXPECT_EQ(sequencer.stats().dropped, 1U);
  EXPECT_TRUE(sink.batches.empty());
}

TEST(SequencerTest, StopIsIdempotent) {
  Sequencer sequencer(options_for(1));
  sequencer.start({});
  sequencer.stop();
  sequencer.stop();
  SUCCEED();
}

TEST(SequencerTest, ManyShardsGetNumbersWithoutHolesAndKeepTheirOwnOrder) {
  constexpr std::size_t kShards = 4;
  constexpr std::size_t kBatches = 2'000;
  RecordingSink sink;
  Sequencer sequencer(options_for(kShards));
  sequencer.start({&sink});
  std::vector<std::thread> shards;
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    shards.emplace_back([&sequencer, shard] {
      for (std::size_t n = 0; n < kBatches; ++n) {
        const std::string uid = std::to_string(shard) + ":" + std::to_string(n);
        EXPECT_TRUE(sequencer.submit(static_cast<ShardIndex>(shard), batch_of({uid, uid})));
      }
    });
  }
  for (std::thread& shard : shards)
    shard.join();
  sequencer.stop();

  ASSERT_EQ(sink.uid_by_seq.size(), 2 * kShards * kBatches);
  std::uint64_t expected_seq = 1;
  std::map<std::string, std::size_t> next_of_shard;  // edges seen so far
  for (const auto& [seq, uid] : sink.uid_by_seq) {
    ASSERT_EQ(seq, expected_seq++);
    const std::string shard = uid.substr(0, uid.find(':'));
    ASSERT_EQ(uid, shard + ":" + std::to_string(next_of_shard[shard]++ / 2));
  }
  EXPECT_EQ(sequencer.stats().edges, 2 * kShards * kBatches);
  EXPECT_EQ(sequencer.stats().queued, 0U);
}

TEST(SequencerTest, HandsChangedDeadlinesOnBehindTheEdgesOfTheirBatch) {
  RecordingSink sink;
  Sequencer sequencer(options_for(1));
  sequencer.start({&sink});
  EXPECT_TRUE(sequencer.submit(0, batch_of({"alice", "bob"}), deadlines_of({"bob", "carol"})));
  EXPECT_TRUE(sequencer.submit(0, {}, deadlines_of({"alice"})));
  sequencer.stop();
  EXPECT_EQ(sink.moved, (std::vector<std::string>{"bob", "carol", "alice"}));
  EXPECT_EQ(sink.edges_before_deadlines, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(sink.batches.size(), 1U) << "no edges, no numbers";
  EXPECT_EQ(sequencer.stats().queued, 0U);
}

TEST(SequencerTest, TellsOnceThatDeadlinesWereLost) {
  RecordingSink sink;
  Sequencer::Options options = options_for(1);
  options.edges_in_flight_max = 2;
  Sequencer sequencer(options);
  EXPECT_TRUE(sequencer.submit(0, {}, deadlines_of({"alice"})));
  EXPECT_FALSE(sequencer.submit(0, {}, deadlines_of({"bob", "carol"})));
  EXPECT_FALSE(sequencer.submit(0, {}, deadlines_of({"dave", "eve"})));
  sequencer.start({&sink});
  ASSERT_TRUE(test::eventually([&] { return sink.deadlines_seen.load() == 1; }));
  ASSERT_TRUE(test::eventually([&] { return sequencer.submit(0, {}, deadlines_of({"frank"})); }));
  sequencer.stop();
  EXPECT_EQ(sink.losses, 1);
  EXPECT_EQ(sink.moved, (std::vector<std::string>{"alice", "frank"}));
  EXPECT_TRUE(sink.gaps.empty()) << "no edge was lost";
}

}  // namespace
}  // namespace pulsewheel

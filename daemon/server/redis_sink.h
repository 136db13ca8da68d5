// What stands between the node and the mirror in Redis, so that neither folder knows the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/events/sequencer.h"
#include "daemon/redis/mirror.h"
#include "daemon/redis/roster_source.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// Hands what the sequencer says on to the mirror, which outlives it.
class RedisSink final : public EdgeSink {
 public:
  explicit RedisSink(RedisMirror& mirror) : mirror_(mirror) {}

  void on_edges(const SequencedBatch& batch) override;
  void on_gap(const SequenceGap& gap) override;
  void on_deadlines(const std::shared_ptr<const DeadlineBatch>& deadlines) override;
  void on_deadlines_lost() override;

 private:
  RedisMirror& mirror_;
};

/// Asks the shards, which outlive the last question.
class ShardRosters final : public RosterSource {
 public:
  explicit ShardRosters(std::vector<Shard*> shards) : shards_(std::move(shards)) {}

  [[nodiscard]] std::size_t shards() const noexcept override { return shards_.size(); }
  void ask(ShardIndex shard, std::uint32_t first_slot, std::size_t slots) override;

 private:
  const std::vector<Shard*> shards_;
};

}  // namespace pulsewheel

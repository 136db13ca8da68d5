#include "daemon/server/redis_sink.h"

namespace pulsewheel {

void RedisSink::on_edges(const SequencedBatch& batch) {
  mirror_.offer(batch.edges);
}

void RedisSink::on_gap(const SequenceGap& gap) {
  mirror_.offer_loss(gap.last_seq - gap.first_seq + 1);
}

void RedisSink::on_deadlines(const std::shared_ptr<const DeadlineBatch>& deadlines) {
  mirror_.offer(deadlines);
}

void RedisSink::on_deadlines_lost() {
  mirror_.offer_loss(0);
}

void ShardRosters::ask(ShardIndex shard, std::uint32_t first_slot, std::size_t slots) {
  Shard& asked = *shards_[shard];
  asked.post([&asked, first_slot, slots] { asked.list_users(first_slot, slots); });
}

}  // namespace pulsewheel

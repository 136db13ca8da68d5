// RedisSink: hands what the sequencer says on to the mirror in Redis.
#pragma once

#include <memory>

#include "daemon/events/sequencer.h"
#include "daemon/redis/mirror.h"

namespace pulsewheel {

/// So that neither of the two folders needs to know the other. The mirror outlives it.
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

}  // namespace pulsewheel

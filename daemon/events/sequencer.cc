#include "daemon/events/sequencer.h"

#include <utility>

#include "daemon/base/check.h"

namespace pulsewheel {

Sequencer::Sequencer(const Options& options) : options_(options), next_seq_(options.first_seq) {
  PULSEWHEEL_CHECK(options.shards >= 1);
  lanes_.reserve(options.shards);
  for (std::size_t i = 0; i < options.shards; ++i) {
    lanes_.push_back(std::make_unique<Lane>(options.batches_in_flight_max));
  }
}

Sequencer::~Sequencer() {
  stop();
}

void Sequencer::start(std::vector<EdgeSink*> sinks) {
  PULSEWHEEL_CHECK(sinks_.empty());
  sinks_ = std::move(sinks);
  thread_.start("pw-sequencer", [this] { run(); });
}

void Sequencer::stop() {
  stopping_.store(true, std::memory_order_release);
  wake_.raise();
  thread_.join();
}

bool Sequencer::submit(ShardIndex shard, EdgeBatch&& batch, DeadlineBatch&& deadlines) {
  PULSEWHEEL_CHECK(shard < lanes_.size());
  const bool has_deadlines = !deadlines.empty() || deadlines.roster();
  if (batch.empty() && !has_deadlines) return true;
  Lane& lane = *lanes_[shard];
  const std::size_t edges = batch.size();
  const std::size_t moved = deadlines.size();
  const std::uint64_t in_flight = lane.submitted.value() - lane.taken.value() +
                                  lane.deadlines_submitted.value() - lane.deadlines_taken.value();
  if (!stopping_.load(std::memory_order_relaxed) &&
      in_flight + edges + moved <= options_.edges_in_flight_max) {
    auto submission = std::make_shared<Submission>(Submission{
        std::move(batch), std::move(deadlines), lane.dropped.value(), lane.deadlines_lost});
    if (lane.ring.try_push(submission)) {
      lane.submitted.add(edges);
      lane.deadlines_submitted.add(moved);
      lane.deadlines_lost = false;
      wake_.raise();
      return true;
    }
  }
  lane.dropped.add(edges);
  lane.deadlines_lost = lane.deadlines_lost || has_deadlines;
  return false;
}

void Sequencer::run() {
  for (;;) {
    // Read before the rings: what was submitted before stop() is then found by the last round.
    const bool stopping = stopping_.load(std::memory_order_acquire);
    while (hand_on_one_round()) {
    }
    if (stopping) break;
    wake_.wait();
  }
  // Nothing follows that could tell of the last drops.
  for (auto& lane : lanes_)
    tell_gap(*lane, lane->dropped.value());
}

/// One batch from each shard, so that none waits behind another's backlog. False: all are empty.
bool Sequencer::hand_on_one_round() {
  bool any = false;
  for (auto& lane : lanes_) {
    auto popped = lane->ring.try_pop();
    if (!popped) continue;
    any = true;
    const std::shared_ptr<Submission>& submission = *popped;
    tell_gap(*lane, submission->dropped_before);
    hand_on(*lane, submission);
  }
  return any;
}

void Sequencer::hand_on(Lane& lane, const std::shared_ptr<Submission>& submission) {
  if (submission->deadlines_lost_before) {
    for (EdgeSink* sink : sinks_)
      sink->on_deadlines_lost();
  }
  if (const std::size_t edges = submission->edges.size(); edges > 0) {
    const SequencedBatch batch{{submission, &submission->edges}, options_.epoch, next_seq_};
    next_seq_ += edges;
    for (EdgeSink* sink : sinks_)
      sink->on_edges(batch);
    lane.taken.add(edges);
  }
  const DeadlineBatch& deadlines = submission->deadlines;
  if (!deadlines.empty() || deadlines.roster()) {
    for (EdgeSink* sink : sinks_)
      sink->on_deadlines({submission, &deadlines});
    lane.deadlines_taken.add(deadlines.size());
  }
}

void Sequencer::tell_gap(Lane& lane, std::uint64_t dropped) {
  if (dropped == lane.dropped_told) return;
  const std::uint64_t count = dropped - lane.dropped_told;
  lane.dropped_told = dropped;
  const SequenceGap gap{options_.epoch, next_seq_, next_seq_ + count - 1};
  next_seq_ += count;
  for (EdgeSink* sink : sinks_)
    sink->on_gap(gap);
}

Sequencer::Stats Sequencer::stats() const noexcept {
  Stats stats;
  for (const auto& lane : lanes_) {
    const std::uint64_t taken = lane->taken.value();
    stats.edges += taken;
    stats.dropped += lane->dropped.value();
    // `submitted` is read after `taken`, but both are relaxed: never below zero all the same.
    const std::uint64_t submitted = lane->submitted.value();
    if (submitted > taken) stats.queued += submitted - taken;
  }
  stats.last_seq = options_.first_seq - 1 + stats.edges + stats.dropped;
  return stats;
}

std::uint64_t Sequencer::last_submitted_seq() const noexcept {
  std::uint64_t seq = options_.first_seq - 1;
  for (const auto& lane : lanes_)
    seq += lane->submitted.value() + lane->dropped.value();
  return seq;
}

}  // namespace pulsewheel

// Sequencer: the one thread behind the shards that gives each edge its number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/ids.h"
#include "daemon/base/service_thread.h"
#include "daemon/base/spsc_ring.h"
#include "daemon/base/wake_flag.h"
#include "daemon/core/edge.h"
#include "daemon/core/user_deadline.h"

namespace pulsewheel {

/// Edges with their place: edge number i of `edges` has seq `first_seq + i`. Immutable, and
/// shared by all sinks; a sink may keep it for as long as it likes.
struct SequencedBatch {
  std::shared_ptr<const EdgeBatch> edges;  // never null, never empty
  std::uint64_t epoch = 0;
  std::uint64_t first_seq = 0;
};

/// Numbers that will never come: edges that were decided but dropped because a shard had too many
/// in flight.
struct SequenceGap {
  std::uint64_t epoch = 0;
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;
};

/// Whoever wants all edges in order: the event log, the event ring, the Redis stream. Called on
/// the sequencer's thread, in order of (epoch, seq), which never decreases; must not block and
/// must not throw: it bounds its own queue and counts what it drops.
class EdgeSink {
 public:
  virtual ~EdgeSink() = default;
  virtual void on_edges(const SequencedBatch& batch) = 0;
  virtual void on_gap(const SequenceGap& gap) = 0;
  /// Users of a shard whose deadline has changed, who are online behind all edges of the shard
  /// that came before; or a part of its roster, for whoever asked for it. Empty at most in the
  /// latter case. For those who mirror; others ignore it.
  virtual void on_deadlines(const std::shared_ptr<const DeadlineBatch>& /*deadlines*/) {}
  /// Changed deadlines were dropped, because a shard had too much in flight.
  virtual void on_deadlines_lost() {}
};

/// Takes batches from N shards through one bounded ring each and hands them on, one after the
/// other, with the next seq: Options::first_seq for the first edge, then without holes (a drop
/// takes its numbers with it and is told as a gap). Edges of one shard, and so of one user, keep
/// their order; between shards the order is that of arrival. Sleeps on a futex while there is
/// nothing to do.
///
/// Life: construct (opens nothing, starts nothing; shards may submit already), start(), and
/// stop() after the last shard has ended.
class Sequencer {
 public:
  struct Options {
    std::size_t shards = 1;
    std::uint64_t epoch = 1;
    /// 1, or behind the last one of a run that this one continues.
    std::uint64_t first_seq = 1;
    /// Batches waiting per shard. A shard submits at most once per round of its loop, so this is
    /// a second or more of rounds during which this thread got no CPU; 16 B each.
    std::size_t batches_in_flight_max = 16'384;
    /// Edges waiting per shard, about 64 B each: ten times everybody's expiry in one tick at
    /// 100,000 users, once at a million.
    std::size_t edges_in_flight_max = 1'000'000;
  };

  explicit Sequencer(const Options& options);
  /// stop().
  ~Sequencer();
  Sequencer(const Sequencer&) = delete;
  Sequencer& operator=(const Sequencer&) = delete;

  /// Starts the thread "pw-sequencer". The sinks must outlive stop(). Call once, from the thread
  /// that calls stop().
  void start(std::vector<EdgeSink*> sinks);

  /// Hands on what was submitted before the call, then ends the thread. Later submissions are
  /// dropped. Idempotent.
  void stop();

  /// Shard `shard`'s thread only. Takes the batch, never blocks: one allocation, two stores and,
  /// when the sequencer sleeps, one futex wake. False when the shard has too much in flight (or
  /// after stop()): the batch is dropped, counted, and told to the sinks as a gap. An empty batch
  /// is nothing to do: true. `deadlines`, if any, are handed on behind the edges, or dropped with
  /// them; what they hold counts as in flight too.
  [[nodiscard]] bool submit(ShardIndex shard, EdgeBatch&& batch, DeadlineBatch&& deadlines = {});

  struct Stats {
    std::uint64_t edges = 0;     // numbered and handed on
    std::uint64_t dropped = 0;   // edges
    std::uint64_t queued = 0;    // edges in flight
    std::uint64_t last_seq = 0;  // that was given out
  };
  [[nodiscard]] Stats stats() const noexcept;  // any thread

  /// The number that the last edge has or will have of all that were submitted so far. Any thread;
  /// exact when no shard submits meanwhile.
  [[nodiscard]] std::uint64_t last_submitted_seq() const noexcept;

 private:
  struct Submission {
    EdgeBatch edges;
    DeadlineBatch deadlines;
    std::uint64_t dropped_before;  // edges of this shard dropped so far, ever
    bool deadlines_lost_before;    // since the last submission
  };
  /// The way from one shard. Counters have one writer each, named behind them.
  struct Lane {
    explicit Lane(std::size_t batches) : ring(batches) {}
    SpscRing<std::shared_ptr<Submission>> ring;
    Counter submitted;               // edges; shard
    Counter dropped;                 // edges; shard
    Counter taken;                   // edges; sequencer
    Counter deadlines_submitted;     // shard
    Counter deadlines_taken;         // sequencer
    bool deadlines_lost = false;     // shard
    std::uint64_t dropped_told = 0;  // sequencer: of `dropped`, what sinks know as gaps
  };

  void run();
  bool hand_on_one_round();
  void hand_on(Lane& lane, const std::shared_ptr<Submission>& submission);
  void tell_gap(Lane& lane, std::uint64_t dropped);

  const Options options_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<EdgeSink*> sinks_;
  std::uint64_t next_seq_;  // the sequencer thread's
  WakeFlag wake_;
  std::atomic<bool> stopping_{false};
  ServiceThread thread_;
};

}  // namespace pulsewheel

// EdgeInbox: the way of edges from the thread that reads the event log to a worker.
#pragma once

#include <atomic>
#include <vector>

#include "daemon/base/mutex.h"
#include "tests/client_sim/judge.h"

namespace pulsewheel::sim {

struct UserEdge {
  std::uint32_t user = 0;  // the worker's own number
  ObservedEdge edge;
};

/// One writer, one reader. Unbounded, but each edge is taken within one round of the worker's
/// loop, and a run has only so many.
class EdgeInbox {
 public:
  /// Moves `batch` in and leaves it empty.
  void push(std::vector<UserEdge>& batch) {
    const MutexLock lock(mutex_);
    edges_.insert(edges_.end(), batch.begin(), batch.end());
    batch.clear();
    filled_.store(true, std::memory_order_release);
  }

  /// Swaps what has come into `out`, which must be empty. One load when nothing has.
  void take(std::vector<UserEdge>& out) {
    if (!filled_.load(std::memory_order_acquire)) return;
    const MutexLock lock(mutex_);
    out.swap(edges_);
    filled_.store(false, std::memory_order_relaxed);
  }

 private:
  Mutex mutex_;
  std::vector<UserEdge> edges_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::atomic<bool> filled_{false};
};

}  // namespace pulsewheel::sim

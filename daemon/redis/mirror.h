// RedisMirror: the thread that keeps Redis equal to memory, and the way to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "daemon/base/counters.h"
#include "daemon/base/service_thread.h"
#include "daemon/base/spsc_ring.h"
#include "daemon/base/time.h"
#include "daemon/core/edge.h"
#include "daemon/core/user_deadline.h"
#include "daemon/redis/mirror_link.h"

namespace pulsewheel {

/// Life: construct (makes the event loop's own descriptors, so before any thread separates its
/// table), start(), stop() when no more news comes.
///
/// News comes from one thread, which never waits here: between it and the mirror's is a bounded
/// ring, and what does not fit is counted, and found by the next repair.
class RedisMirror {
 public:
  /// `rosters` is asked on the mirror's thread, and outlives it.
  RedisMirror(const MirrorOptions& options, RosterSource& rosters);
  /// stop().
  ~RedisMirror();
  RedisMirror(const RedisMirror&) = delete;
  RedisMirror& operator=(const RedisMirror&) = delete;

  /// Starts the thread "pw-redis", which connects. Call once, from the thread that calls stop().
  void start();
  /// Writes what waits, for kStopWithin at most, and ends the thread. Idempotent.
  void stop();
  /// Any thread: moves the ring's hand no more. For a node that is about to stop: what the hand
  /// claims is told while there are shards to tell.
  void leave_hand();
  /// Any thread: connects at once where it waits for another attempt.
  void retry_now();

  // The one thread that brings the news. Never null.
  void offer(std::shared_ptr<const EdgeBatch> edges) noexcept;
  void offer(std::shared_ptr<const DeadlineBatch> deadlines) noexcept;
  /// Edges, or deadlines, were lost before they came here.
  void offer_loss(std::uint64_t edges) noexcept;

  // Any thread.
  [[nodiscard]] const MirrorCounters& counters() const noexcept { return link_.counters(); }
  [[nodiscard]] const RedisCounters& client_counters() const noexcept {
    return link_.client_counters();
  }
  [[nodiscard]] RedisClient::State client_state() const noexcept { return link_.client().state(); }
  /// Null unless the ring is shared.
  [[nodiscard]] const RingHandCounters* hand_counters() const noexcept {
    return link_.hand_counters();
  }
  /// News that did not fit into the ring: edges, and batches of whatever kind.
  [[nodiscard]] std::uint64_t dropped_edges() const noexcept { return dropped_edges_.value(); }
  [[nodiscard]] std::uint64_t dropped_batches() const noexcept { return dropped_batches_.value(); }

  /// Batches on their way: a second of rounds of many shards.
  static constexpr std::size_t kBatchesMax = 8'192;
  /// Users on their way, at the least: parts of rosters have to come through beside the news.
  static constexpr std::size_t kUsersMin = 65'536;
  /// Batches taken in one go before what is to be sent is sent.
  static constexpr std::size_t kBatchesPerGo = 64;
  /// What a slow Redis may hold up the end of the daemon.
  static constexpr Duration kStopWithin = std::chrono::seconds{3};

 private:
  /// One of the two.
  struct News {
    std::shared_ptr<const EdgeBatch> edges;
    std::shared_ptr<const DeadlineBatch> deadlines;
    MonoTime handed_over;

    [[nodiscard]] std::size_t users() const noexcept {
      return edges ? edges->size() : deadlines->size();
    }
  };

  void offer(News news) noexcept;
  void wake() noexcept;
  void run();
  void take_news();

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  MirrorLink link_;

  const std::size_t users_max_;  // on their way
  SpscRing<News> ring_{kBatchesMax};
  std::atomic<bool> woken_{false};
  std::atomic<bool> lost_{false};
  Counter users_offered_;    // the bringing thread's
  Counter dropped_edges_;    // the bringing thread's
  Counter dropped_batches_;  // the bringing thread's
  Counter users_taken_;      // the mirror thread's
  ServiceThread thread_;
};

}  // namespace pulsewheel

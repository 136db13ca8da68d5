#include "daemon/redis/mirror.h"

#include <algorithm>
#include <new>
#include <utility>

#include <boost/asio/post.hpp>

#include "daemon/base/log.h"

namespace pulsewheel {

namespace asio = boost::asio;

RedisMirror::RedisMirror(const MirrorOptions& options, RosterSource& rosters)
    : work_(io_.get_executor()),
      link_(io_, options, rosters),

      users_max_(std::max(options.queue.changes_max, kUsersMin)) {}

RedisMirror::~RedisMirror() {
  stop();
}

void RedisMirror::start() {
  thread_.start("pw-redis", [this] { run(); });
}

void RedisMirror::stop() {
  asio::post(io_, [this] {
    do {
      take_news();
    } while (ring_.size() > 0);
    link_.stop(MonoClock::now() + kStopWithin, [this] { io_.stop(); });
  });
  thread_.join();
}

void RedisMirror::leave_hand() {
  asio::post(io_, [this] { link_.leave_hand(); });
}

void RedisMirror::retry_now() {
  asio::post(io_, [this] { link_.retry_now(); });
}

// --- The thread that brings the news ------------------------------------------------------------

void RedisMirror::offer(std::shared_ptr<const EdgeBatch> edges) noexcept {
  offer(News{.edges = std::move(edges), .deadlines = nullptr, .handed_over = MonoClock::now()});
}

void RedisMirror::offer(std::shared_ptr<const DeadlineBatch> deadlines) noexcept {
  offer(News{.edges = nullptr, .deadlines = std::move(deadlines), .handed_over = MonoClock::now()});
}

void RedisMirror::offer(News news) noexcept {
  const std::size_t users = news.users();
  const std::uint64_t waiting = users_offered_.value() - users_taken_.value();
  const bool has_edges = news.edges != nullptr;
  if (waiting + users <= users_max_ && ring_.try_push(news)) {
    users_offered_.add(users);
    wake();
    return;
  }
  dropped_batches_.add();
  offer_loss(has_edges ? users : 0);
}

void RedisMirror::offer_loss(std::uint64_t edges) noexcept {
  dropped_edges_.add(edges);
  lost_.store(true, std::memory_order_release);
  wake();
}

/// One wake-up is on its way at a time. Where memory is too short for it, the next news tries
/// again.
void RedisMirror::wake() noexcept {
  if (woken_.exchange(true, std::memory_order_acq_rel)) return;
  try {
    asio::post(io_, [this] { take_news(); });
  } catch (const std::bad_alloc&) {
    woken_.store(false, std::memory_order_release);
  }
}

// --- The mirror's thread ------------------------------------------------------------------------

/// Nothing but want of memory is thrown by a handler; what it was about to note is lost.
void RedisMirror::run() {
  link_.start();
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::bad_alloc&) {
      log::error("redis_memory", "no memory for news to Redis: some is lost");
      lost_.store(true, std::memory_order_release);
    }
  }
}

void RedisMirror::take_news() {
  woken_.exchange(false, std::memory_order_acq_rel);  // before the ring is looked at
  if (lost_.exchange(false, std::memory_order_acq_rel)) link_.take_loss();
  for (std::size_t i = 0; i < kBatchesPerGo; ++i) {
    const auto news = ring_.try_pop();
    if (!news) break;
    users_taken_.add(news->users());
    if (news->edges) link_.take_edges(*news->edges, news->handed_over);
    if (news->deadlines) link_.take_deadlines(news->deadlines, news->handed_over);
  }
  if (ring_.size() > 0) wake();
  link_.pump();
}

}  // namespace pulsewheel

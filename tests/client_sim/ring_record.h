// What the simulator itself knows about its users, for the comparison with the ring in Redis.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

/// What is certain about one user at one moment.
struct RecordedUser {
  enum class Presence : std::uint8_t {
    kUnclear,  // a login, a logout, a kick or a silence has not been settled by an edge yet
    kOnline,   // accepted, and some deadline lies ahead
    kOffline,  // never logged in, or the offline edge was seen and nothing was sent since
  };

  Presence presence = Presence::kUnclear;
  MonoTime since = MonoTime::min();  // of the last edge that was seen
  // While kOnline: when the deadline is, by the moment just before and just after the last send.
  MonoTime deadline_min;
  MonoTime deadline_max;
  Duration timeout{0};  // while kOnline: the one of the session with that deadline
};

/// All users of the run, or of one worker, by number.
struct RingRecord {
  MonoTime taken;
  /// The daemon stands still, or did so lately: what it wrote to Redis says nothing.
  bool stalled = false;
  std::vector<RecordedUser> users;
};

/// The way of a worker's record to the thread that compares. One asks, one answers.
class RecordDesk {
 public:
  // The asking thread.

  /// Asks for a record as it is from now on.
  void ask() noexcept { asked_.fetch_add(1, std::memory_order_release); }
  /// The answer to the last ask(); nullopt when it does not come in time.
  [[nodiscard]] std::optional<RingRecord> wait(Duration limit) {
    std::unique_lock lock(mutex_);
    const std::uint64_t wanted = asked_.load(std::memory_order_relaxed);
    if (!answered_.wait_for(lock, limit, [&] { return number_ == wanted; })) return std::nullopt;
    return std::move(record_);
  }

  // The worker's thread.

  /// The number of a question that answer() has not had yet; nullopt when there is none. One load.
  [[nodiscard]] std::optional<std::uint64_t> question() const noexcept {
    const std::uint64_t asked = asked_.load(std::memory_order_acquire);
    return asked == given_ ? std::nullopt : std::optional(asked);
  }
  void answer(std::uint64_t question, RingRecord record) {
    given_ = question;
    const std::lock_guard lock(mutex_);
    number_ = question;
    record_ = std::move(record);
    answered_.notify_one();
  }

 private:
  std::atomic<std::uint64_t> asked_{0};
  std::uint64_t given_ = 0;  // the worker's
  // Not the annotated Mutex: a condition variable needs the standard one.
  std::mutex mutex_;
  std::condition_variable answered_;
  std::uint64_t number_ = 0;
  RingRecord record_;
};

}  // namespace pulsewheel::sim

// RingHand: when to move the ring's hand, and the one that does so: RingPoller.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/base/counters.h"
#include "daemon/base/time.h"
#include "daemon/redis/redis_client.h"
#include "daemon/redis/scripts.h"

namespace pulsewheel {

/// When the next RingScripts::claim() is due: at once while work is left, else just behind the next
/// full second of Redis' clock, which each answer tells. The node's own wall clock is not looked
/// at. Pure; one thread.
class RingHand {
 public:
  /// Due at once.
  explicit RingHand(MonoTime now) : due_(now) {}

  [[nodiscard]] MonoTime due() const noexcept { return due_; }

  /// An answer came at `now`.
  void on_claim(const RingClaim& claim, MonoTime now) noexcept;
  /// An answer came that is none, or there was no way to ask. The waits in between double, up to
  /// kPauseMax.
  void on_failure(MonoTime now) noexcept;

  /// Behind the full second, so that the timers of two machines do not make a call in vain.
  static constexpr std::chrono::milliseconds kMargin{5};
  static constexpr std::chrono::milliseconds kPauseMin{1'000};
  static constexpr std::chrono::milliseconds kPauseMax{8'000};

 private:
  MonoTime due_;
  std::chrono::milliseconds pause_ = kPauseMin;  // after the next failure
};

/// Written by the poller's thread, read by any.
struct RingHandCounters {
  static constexpr std::array<std::chrono::nanoseconds, 11> kLatenessBounds{
      std::chrono::milliseconds{5},     std::chrono::milliseconds{10},
      std::chrono::milliseconds{25},    std::chrono::milliseconds{50},
      std::chrono::milliseconds{100},   std::chrono::milliseconds{250},
      std::chrono::milliseconds{500},   std::chrono::milliseconds{1'000},
      std::chrono::milliseconds{2'000}, std::chrono::milliseconds{10'000},
      std::chrono::milliseconds{60'000}};

  Counter claims;                               // calls that were answered
  Counter failures;                             // that were not, or with an error
  Counter claimed_users;                        // who went offline by them
  Counter refiled_users;                        // who were due and stay
  DurationHistogram lateness{kLatenessBounds};  // of slots that this node read, by Redis' clock
};

/// Moves the hand: the shell round a RingHand. Confined to the thread that runs its io_context,
/// which, like the client, outlives it. One call is in flight at a time.
class RingPoller {
 public:
  /// `on_claimed` gets the uids of a call that claimed some: these users are offline, and no other
  /// node will be told.
  RingPoller(boost::asio::io_context& io, RedisClient& client, const RingScripts& scripts,
             std::function<void(std::vector<std::string>)> on_claimed);
  RingPoller(const RingPoller&) = delete;
  RingPoller& operator=(const RingPoller&) = delete;

  /// From now on, while the client is connected and this node holds its lease. Idempotent.
  void start();
  /// Calls no more. What is in flight may still claim, and is handed on. Idempotent.
  void stop();

  [[nodiscard]] const RingHandCounters& counters() const noexcept { return counters_; }

 private:
  using Timer = boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>,
                                                  boost::asio::io_context::executor_type>;

  void wait();
  void claim();
  void on_answer(std::error_code ec, const RedisReply& reply);

  RedisClient& client_;
  const RingScripts& scripts_;
  const std::function<void(std::vector<std::string>)> on_claimed_;
  RingHandCounters counters_;
  RingHand hand_;
  Timer timer_;
  bool running_ = false;
  bool in_flight_ = false;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace pulsewheel

// RedisCounters: what the client tells about itself in numbers.
#pragma once

#include <array>
#include <chrono>

#include "daemon/base/counters.h"
#include "daemon/redis/redis_errc.h"
#include "daemon/redis/reply_error.h"

namespace pulsewheel {

/// Written by the client's thread, read by any.
struct RedisCounters {
  static constexpr std::array<std::chrono::nanoseconds, 14> kRoundTripBounds{
      std::chrono::microseconds{50},   std::chrono::microseconds{100},
      std::chrono::microseconds{250},  std::chrono::microseconds{500},
      std::chrono::milliseconds{1},    std::chrono::microseconds{2'500},
      std::chrono::milliseconds{5},    std::chrono::milliseconds{10},
      std::chrono::milliseconds{25},   std::chrono::milliseconds{50},
      std::chrono::milliseconds{100},  std::chrono::milliseconds{250},
      std::chrono::milliseconds{1000}, std::chrono::milliseconds{5000}};

  Gauge up;                                        // 1 while commands are accepted
  Counter connections;                             // that became ready
  Counter commands;                                // sent
  Counter replies;                                 // to them, error replies included
  Counter scripts_resent;                          // as EVAL after NOSCRIPT
  Gauge commands_in_flight;                        // accepted and not yet answered
  Gauge bytes_in_flight;                           // of these
  Counter bytes_written;                           // to the socket
  Counter bytes_read;                              // from it
  std::array<Counter, kRedisErrcCount> errors;     // refused commands, failed and lost connections
  std::array<Counter, kReplyErrorCount> rejected;  // error replies, the handshake's included
  DurationHistogram round_trip{kRoundTripBounds};  // from the submission to the reply

  [[nodiscard]] Counter& of(RedisErrc error) noexcept {
    return errors[static_cast<std::size_t>(error)];
  }
  [[nodiscard]] Counter& of(ReplyError error) noexcept {
    return rejected[static_cast<std::size_t>(error)];
  }
  [[nodiscard]] const Counter& of(RedisErrc error) const noexcept {
    return errors[static_cast<std::size_t>(error)];
  }
  [[nodiscard]] const Counter& of(ReplyError error) const noexcept {
    return rejected[static_cast<std::size_t>(error)];
  }
};

}  // namespace pulsewheel

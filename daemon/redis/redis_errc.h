// RedisErrc: why a command got no reply, or a connection did not stand, in a category of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "daemon/base/log.h"

namespace pulsewheel {

/// Append only: the numbers are indices of counters.
enum class RedisErrc : std::uint8_t {
  kNone,
  // A command is refused at once.
  kNotConnected,
  kTooManyCommands,
  kTooManyBytes,
  // A connection is not made.
  kUnreachable,
  kConnectTimeout,
  kTls,
  kSecret,
  kAuthRefused,
  kHandshakeRefused,
  kNotServing,
  // A connection is lost, and with it every command in flight.
  kTimeout,
  kClosedByServer,
  kProtocol,
  kUnsolicited,
  kNotMaster,
  kStopped,
};
inline constexpr std::size_t kRedisErrcCount = 17;

struct RedisErrcFacts {
  RedisErrc error;
  std::string_view metric;  // label value
  log::Kind kind;           // of its log line
  const char* text;
};

/// All of them, at the index of their number.
[[nodiscard]] const std::array<RedisErrcFacts, kRedisErrcCount>& redis_errcs() noexcept;
[[nodiscard]] const RedisErrcFacts& facts_of(RedisErrc error) noexcept;

[[nodiscard]] const std::error_category& redis_category() noexcept;
[[nodiscard]] std::error_code make_error_code(RedisErrc error) noexcept;

}  // namespace pulsewheel

template <>
struct std::is_error_code_enum<pulsewheel::RedisErrc> : std::true_type {};

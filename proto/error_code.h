// ErrorCode: everything that a server can hold against a client's bytes, or against serving it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pulsewheel::proto {

/// Travels in ERROR. Append only: numbers are on the wire, names in logs and metrics. The range
/// tells a client that does not know the number what to do.
enum class ErrorCode : std::uint16_t {
  kNone = 0x0000,

  // 0x0001 to 0x00ff: the same bytes will be refused again. Change them before trying again.
  kNotThisProtocol = 0x0001,
  kUnknownType = 0x0002,
  kReservedFlags = 0x0003,
  kPayloadTooLong = 0x0004,
  kLoginRequired = 0x0005,
  kNotAllowed = 0x0006,
  kMalformedPayload = 0x0007,
  kBadVersion = 0x0008,
  kUnknownExtension = 0x0009,
  kBadUid = 0x000a,
  kBadDevice = 0x000b,
  kBadToken = 0x000c,

  // 0x0100 to 0x01ff: may go better later. Try again with back-off and jitter.
  kLoginTimeout = 0x0100,
  kServerFull = 0x0101,
  kTooManySessions = 0x0102,
  kInternal = 0x0103,
};

/// Every code but kNone, ascending: for tables, tests and metrics.
inline constexpr std::array kErrorCodes{
    ErrorCode::kNotThisProtocol,  ErrorCode::kUnknownType,   ErrorCode::kReservedFlags,
    ErrorCode::kPayloadTooLong,   ErrorCode::kLoginRequired, ErrorCode::kNotAllowed,
    ErrorCode::kMalformedPayload, ErrorCode::kBadVersion,    ErrorCode::kUnknownExtension,
    ErrorCode::kBadUid,           ErrorCode::kBadDevice,     ErrorCode::kBadToken,
    ErrorCode::kLoginTimeout,     ErrorCode::kServerFull,    ErrorCode::kTooManySessions,
    ErrorCode::kInternal,
};

/// "bad_uid": for logs and metric labels. "unknown" for a number without a name.
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

/// One English sentence for people: what was wrong and what is allowed. Static, ASCII, and short
/// enough for ERROR. The numbers in it are this library's constants and the default limits'
/// names, never a configured value.
[[nodiscard]] std::string_view error_text(ErrorCode code) noexcept;

/// Whether sending the same again may succeed: the code's range says it, so this holds for codes
/// that are yet to come.
[[nodiscard]] constexpr bool may_retry(ErrorCode code) noexcept {
  return static_cast<std::uint16_t>(code) >= 0x0100;
}

}  // namespace pulsewheel::proto

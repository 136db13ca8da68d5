// The wire protocol, version 1: cutting a byte stream into frames, and frames into fields.
// PROTOCOL.md is the specification. Pure functions over spans: nothing here allocates, copies a
// payload, reads a clock or keeps state, so everything may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proto/byte_order.h"
#include "proto/error_code.h"

namespace pulsewheel::proto {

inline constexpr std::size_t kHeaderSize = 4;  // type u8, flags u8, payload length u16

/// Versions that this library speaks.
inline constexpr std::uint8_t kVersionMin = 1;
inline constexpr std::uint8_t kVersionMax = 1;

// A LOGIN with all of these at their maximum is 714 bytes: it fits the 1 KiB that a peer nobody
// knows may send, with room for extension fields.
inline constexpr std::size_t kUidSizeMax = 128;
inline constexpr std::size_t kDeviceSizeMax = 64;
inline constexpr std::size_t kTokenSizeMax = 512;

/// The text of an ERROR has a one-byte length.
inline constexpr std::size_t kErrorTextSizeMax = 255;

/// Extension fields per frame: counts are bounded, not only bytes.
inline constexpr std::size_t kExtensionsMax = 16;

/// A server never sends a longer payload, in any version; a client may refuse one at its header.
inline constexpr std::uint16_t kServerPayloadSizeMax = 8192;

/// Server types in this range are pushes: a client that does not know one skips the frame.
inline constexpr std::uint8_t kPushTypeFirst = 0xd0;
inline constexpr std::uint8_t kPushTypeLast = 0xef;

/// Flag of KEEPALIVE: proof of life only, send no KEEPALIVE_ACK.
inline constexpr std::uint8_t kNoReply = 0x01;

enum class FrameType : std::uint8_t {
  // Client to server. 0x10 to 0x2f are reserved for queries and watch lists.
  kLogin = 0x01,
  kKeepalive = 0x02,
  kMessage = 0x03,
  kLogout = 0x04,
  // Server to client, the answer to 0x01 to 0x3f.
  kLoginAck = 0x81,
  kKeepaliveAck = 0x82,
  kMessageAck = 0x83,
  kLogoutAck = 0x84,
  // Server to client, unasked.
  kError = 0xc0,
  kSettings = 0xc1,
  kGoaway = 0xc2,
};

/// "login", "keepalive_ack": for logs and metric labels. "unknown" for a number without a name.
[[nodiscard]] std::string_view to_string(FrameType type) noexcept;

/// What a client's header is judged by, beside the limits.
enum class Stage : std::uint8_t {
  kBeforeLogin,
  /// LOGIN was read and is being decided. A client need not wait: frames behind its LOGIN are
  /// judged as after it, but must be left in the input until the decision.
  kLoginPending,
  kAfterLogin,
};

/// Largest payloads that a server takes from a client. LOGIN has the first limit, MESSAGE the
/// second.
struct Limits {
  std::uint16_t payload_before_login_max = 1024;
  std::uint16_t payload_after_login_max = 8192;
};

struct Header {
  FrameType type{};  // may be a number without a name
  std::uint8_t flags = 0;
  std::uint16_t payload_size = 0;
};

/// A view: valid as long as the bytes that it was cut from.
struct Frame {
  Header header{};
  std::span<const std::byte> payload{};
};

/// What stands at the start of a stream.
struct NextFrame {
  enum class Status : std::uint8_t {
    kFrame,     // `frame` is complete; consume `size` bytes and call again
    kNeedMore,  // call again once `size` bytes are there: the whole frame, or its header
    kError,     // `error` says why; nothing after this can be understood, so close
  };
  Status status = Status::kNeedMore;
  ErrorCode error = ErrorCode::kNone;
  Frame frame{};
  std::size_t size = kHeaderSize;
};

/// Reads the header at `from`. Requires kHeaderSize bytes.
[[nodiscard]] constexpr Header read_header(const std::byte* from) noexcept {
  return {static_cast<FrameType>(from[0]), std::to_integer<std::uint8_t>(from[1]),
          load_big_endian<std::uint16_t>(from + 2)};
}

/// Whether the start of a connection is that of a protocol which often strays to a wrong port.
/// Only for a better message: none of these is a LOGIN.
[[nodiscard]] constexpr bool is_other_protocol(const Header& header) noexcept {
  const auto first = static_cast<std::uint8_t>(header.type);
  const bool is_letter = (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z');
  const bool is_tls_hello = first == 0x16 && header.flags == 0x03;
  return is_letter                         // HTTP, SSH, PROXY version 1, a person with telnet
         || is_tls_hello || first == 0x00  // zeros
         || first == '\r'                  // PROXY version 2
         || first == '\n'                  // an empty line
         || first == 0x10                  // MQTT CONNECT
         || first == '*';                  // RESP, as Redis clients speak
}

/// What a server holds against a client's header; kNone: nothing. In this order: type, state,
/// flags, length.
[[nodiscard]] constexpr ErrorCode judge_client_header(const Header& header, Stage stage,
                                                      const Limits& limits) noexcept {
  std::uint8_t flags_allowed = 0;
  std::uint16_t payload_size_max = 0;
  switch (header.type) {
    case FrameType::kKeepalive:
      flags_allowed = kNoReply;
      break;
    case FrameType::kMessage:
      payload_size_max = limits.payload_after_login_max;
      break;
    case FrameType::kLogout:
      break;
    case FrameType::kLogin:
      payload_size_max = limits.payload_before_login_max;
      break;
    default:
      return stage == Stage::kBeforeLogin && is_other_protocol(header) ? ErrorCode::kNotThisProtocol
                                                                       : ErrorCode::kUnknownType;
  }
  const bool is_login = header.type == FrameType::kLogin;
  if (is_login != (stage == Stage::kBeforeLogin)) {
    return is_login ? ErrorCode::kNotAllowed : ErrorCode::kLoginRequired;
  }
  if ((header.flags & ~flags_allowed) != 0) return ErrorCode::kReservedFlags;
  if (header.payload_size > payload_size_max) return ErrorCode::kPayloadTooLong;
  return ErrorCode::kNone;
}

/// Whether a client skips a server frame whose type it does not know.
[[nodiscard]] constexpr bool is_push(FrameType type) noexcept {
  return type >= FrameType{kPushTypeFirst} && type <= FrameType{kPushTypeLast};
}

/// What a client holds against a server's header; kNone: nothing. Flags are not judged: a client
/// ignores bits that it does not know.
[[nodiscard]] constexpr ErrorCode judge_server_header(const Header& header) noexcept {
  std::uint16_t payload_size_max = kServerPayloadSizeMax;
  switch (header.type) {
    case FrameType::kKeepaliveAck:
    case FrameType::kLogoutAck:
      payload_size_max = 0;
      break;
    case FrameType::kLoginAck:
    case FrameType::kMessageAck:
    case FrameType::kError:
    case FrameType::kSettings:
    case FrameType::kGoaway:
      break;
    default:
      if (!is_push(header.type)) return ErrorCode::kUnknownType;
  }
  return header.payload_size > payload_size_max ? ErrorCode::kPayloadTooLong : ErrorCode::kNone;
}

namespace internal {

/// Cuts the first frame off `input`; `judge` (Header -> ErrorCode) sees the header first, so that
/// a frame which is not allowed is refused before its payload arrives.
template <class Judge>
[[nodiscard]] constexpr NextFrame cut_frame(std::span<const std::byte> input,
                                            const Judge& judge) noexcept {
  NextFrame next;
  if (input.size() < kHeaderSize) return next;
  next.frame.header = read_header(input.data());
  next.error = judge(next.frame.header);
  if (next.error != ErrorCode::kNone) {
    next.status = NextFrame::Status::kError;
    next.size = 0;
    return next;
  }
  next.size = kHeaderSize + next.frame.header.payload_size;
  if (input.size() < next.size) return next;
  next.status = NextFrame::Status::kFrame;
  next.frame.payload = input.subspan(kHeaderSize, next.frame.header.payload_size);
  return next;
}

/// A frame without payload.
[[nodiscard]] constexpr std::array<std::byte, kHeaderSize> empty_frame(
    FrameType type, std::uint8_t flags = 0) noexcept {
  return {std::byte{static_cast<std::uint8_t>(type)}, std::byte{flags}, std::byte{0}, std::byte{0}};
}

}  // namespace internal

/// What a server does next with a client's stream: the first frame of `input`, or how many bytes
/// it lacks, or what is wrong with its header. The answer is the same however the stream was
/// split. O(1).
[[nodiscard]] constexpr NextFrame next_frame(std::span<const std::byte> input, Stage stage,
                                             const Limits& limits) noexcept {
  return internal::cut_frame(input, [stage, &limits](const Header& header) {
    return judge_client_header(header, stage, limits);
  });
}

/// The same for what a client gets from a server. A push (is_push) of unknown type is kFrame:
/// skip it.
[[nodiscard]] constexpr NextFrame next_server_frame(std::span<const std::byte> input) noexcept {
  return internal::cut_frame(input, judge_server_header);
}

/// Views point into the payload when decoded.
struct Login {
  /// The newest version that the client speaks. decode_login() lowers it to the newest that both
  /// speak: the one to name in LoginAck.
  std::uint8_t version = kVersionMax;
  /// The oldest version that the client speaks.
  std::uint8_t version_min = kVersionMin;
  /// Wished keepalive interval; 0: the server's choice.
  std::uint32_t interval_ms = 0;
  std::string_view uid{};     // 1 to kUidSizeMax bytes, any bytes
  std::string_view device{};  // up to kDeviceSizeMax bytes; empty: no label, takes over nobody
  std::string_view token{};   // up to kTokenSizeMax bytes
};

/// How a login succeeded; a refusal is an ERROR or a GOAWAY. A client takes a number that it does
/// not know for kAccepted.
enum class LoginStatus : std::uint8_t {
  kAccepted = 0,
  kTookOver = 1,  // an older session of the same uid and device ended for this one
};

struct LoginAck {
  LoginStatus status = LoginStatus::kAccepted;
  std::uint8_t version = kVersionMax;  // that holds on this connection from now on
  std::uint32_t timeout_ms = 0;        // silence of this length is offline
  std::uint32_t interval_ms = 0;       // advised keepalive interval: at least 1, below timeout_ms
  std::uint64_t session_id = 0;        // of two sessions of a user the greater is the newer
};

struct Message {
  std::uint64_t id = 0;  // the client's, returned in MESSAGE_ACK
  std::span<const std::byte> body{};
};

struct Error {
  ErrorCode code = ErrorCode::kNone;  // may be a number without a name
  std::string_view text{};            // for people; ASCII
};

/// New values for a live session; the same rules as in LoginAck.
struct Settings {
  std::uint32_t timeout_ms = 0;
  std::uint32_t interval_ms = 0;
};

/// Why a server ends a connection that did nothing wrong. Append only.
enum class GoawayReason : std::uint16_t {
  kBusy = 1,       // no room for this connection now
  kDraining = 2,   // the server is about to stop
  kTakenOver = 3,  // a newer login of the same uid and device; do not reconnect unasked
  kKicked = 4,     // an operator ended the session; do not reconnect unasked
  kTimeout = 5,    // nothing came for the session's timeout
};

/// "busy", "draining", ...; "unknown" for a number without a name.
[[nodiscard]] std::string_view to_string(GoawayReason reason) noexcept;

struct Goaway {
  GoawayReason reason = GoawayReason::kBusy;  // may be a number without a name
  std::uint32_t retry_after_ms = 0;           // wait at least this long before reconnecting
};

// Frame sizes, header included, as encoded here (without extension fields).
inline constexpr std::size_t kLoginFrameSizeMax =
    kHeaderSize + 10 + kUidSizeMax + kDeviceSizeMax + kTokenSizeMax;
inline constexpr std::size_t kLoginAckFrameSize = kHeaderSize + 18;
inline constexpr std::size_t kMessageIdSize = 8;
inline constexpr std::size_t kMessageAckFrameSize = kHeaderSize + kMessageIdSize;
inline constexpr std::size_t kErrorFrameSizeMax = kHeaderSize + 3 + kErrorTextSizeMax;
inline constexpr std::size_t kSettingsFrameSize = kHeaderSize + 8;
inline constexpr std::size_t kGoawayFrameSize = kHeaderSize + 6;

// Decoding takes a whole payload and returns kNone, or what is wrong with it; `out` is then
// unspecified. Extension fields are skipped unless they are critical and unknown. O(fields).

[[nodiscard]] ErrorCode decode_login(std::span<const std::byte> payload, Login& out) noexcept;
[[nodiscard]] ErrorCode decode_login_ack(std::span<const std::byte> payload,
                                         LoginAck& out) noexcept;
[[nodiscard]] ErrorCode decode_error(std::span<const std::byte> payload, Error& out) noexcept;
[[nodiscard]] ErrorCode decode_settings(std::span<const std::byte> payload, Settings& out) noexcept;
[[nodiscard]] ErrorCode decode_goaway(std::span<const std::byte> payload, Goaway& out) noexcept;

[[nodiscard]] constexpr ErrorCode decode_message(std::span<const std::byte> payload,
                                                 Message& out) noexcept {
  if (payload.size() < kMessageIdSize) return ErrorCode::kMalformedPayload;
  out.id = load_big_endian<std::uint64_t>(payload.data());
  out.body = payload.subspan(kMessageIdSize);
  return ErrorCode::kNone;
}

[[nodiscard]] constexpr ErrorCode decode_message_ack(std::span<const std::byte> payload,
                                                     std::uint64_t& id) noexcept {
  if (payload.size() != kMessageIdSize) return ErrorCode::kMalformedPayload;
  id = load_big_endian<std::uint64_t>(payload.data());
  return ErrorCode::kNone;
}

// Encoding writes one whole frame and returns its size; 0, with `out` untouched, when it does not
// fit into `out` or a field breaks its limit.

[[nodiscard]] std::size_t encode_login(const Login& login, std::span<std::byte> out) noexcept;
[[nodiscard]] std::size_t encode_login_ack(const LoginAck& ack, std::span<std::byte> out) noexcept;
[[nodiscard]] std::size_t encode_message(const Message& message, std::span<std::byte> out) noexcept;
[[nodiscard]] std::size_t encode_message_ack(std::uint64_t id, std::span<std::byte> out) noexcept;
/// A text beyond kErrorTextSizeMax is cut: the code is what matters.
[[nodiscard]] std::size_t encode_error(const Error& error, std::span<std::byte> out) noexcept;
[[nodiscard]] std::size_t encode_settings(const Settings& settings,
                                          std::span<std::byte> out) noexcept;
[[nodiscard]] std::size_t encode_goaway(const Goaway& goaway, std::span<std::byte> out) noexcept;

/// `flags`: 0 or kNoReply.
[[nodiscard]] constexpr std::array<std::byte, kHeaderSize> encode_keepalive(
    std::uint8_t flags = 0) noexcept {
  return internal::empty_frame(FrameType::kKeepalive, flags);
}
inline constexpr auto kLogout = internal::empty_frame(FrameType::kLogout);
inline constexpr auto kKeepaliveAck = internal::empty_frame(FrameType::kKeepaliveAck);
inline constexpr auto kLogoutAck = internal::empty_frame(FrameType::kLogoutAck);

}  // namespace pulsewheel::proto

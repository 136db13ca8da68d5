#include "proto/frame.h"

#include <algorithm>
#include <cstring>

namespace pulsewheel::proto {
namespace {

// An extension field: type u16, length u16, value. The top bit of the type marks it critical: a
// receiver that does not know it must refuse the frame. Version 1 knows none.
constexpr std::size_t kExtensionHeaderSize = 4;
constexpr std::uint16_t kExtensionCritical = 0x8000;

// LOGIN's fields of fixed size: version_min u8, version_max u8, interval u32, uid length u8,
// device length u8, token length u16.
constexpr std::size_t kLoginVersionsSize = 2;
constexpr std::size_t kLoginFixedSize = 10;
constexpr std::size_t kErrorFixedSize = 3;
static_assert(kLoginFrameSizeMax <= kHeaderSize + Limits{}.payload_before_login_max);

// Takes fields off the front of a payload. Whoever takes has checked has() first.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> payload) noexcept : rest_(payload) {}

  [[nodiscard]] bool has(std::size_t size) const noexcept { return rest_.size() >= size; }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

  template <class T>
  [[nodiscard]] T take() noexcept {
    const T value = load_big_endian<T>(rest_.data());
    skip(sizeof(T));
    return value;
  }
  [[nodiscard]] std::string_view take_text(std::size_t size) noexcept {
    const std::string_view text(reinterpret_cast<const char*>(rest_.data()), size);
    skip(size);
    return text;
  }
  void skip(std::size_t size) noexcept { rest_ = rest_.subspan(size); }

 private:
  std::span<const std::byte> rest_;
};

// Writes one frame. The caller has checked that it fits.
class Writer {
 public:
  Writer(FrameType type, std::size_t payload_size, std::span<std::byte> out) noexcept
      : to_(out.data()) {
    put(static_cast<std::uint8_t>(type));
    put(std::uint8_t{0});
    put(static_cast<std::uint16_t>(payload_size));
  }

  template <class T>
  void put(T value) noexcept {
    store_big_endian(value, to_);
    to_ += sizeof(T);
  }
  void put_bytes(const void* from, std::size_t size) noexcept {
    if (size == 0) return;  // memcpy from a null pointer is undefined even then
    std::memcpy(to_, from, size);
    to_ += size;
  }

 private:
  std::byte* to_;
};

// What is left of a payload must be extension fields, none of which this version needs.
ErrorCode skip_extensions(Reader& reader) noexcept {
  for (std::size_t count = 0; !reader.empty(); ++count) {
    if (!reader.has(kExtensionHeaderSize)) return ErrorCode::kMalformedPayload;
    const auto type = reader.take<std::uint16_t>();
    const auto size = reader.take<std::uint16_t>();
    if (!reader.has(size)) return ErrorCode::kMalformedPayload;
    if ((type & kExtensionCritical) != 0 || count == kExtensionsMax) {
      return ErrorCode::kUnknownExtension;
    }
    reader.skip(size);
  }
  return ErrorCode::kNone;
}

// A client that believed an interval of 0 would flood its server, and one not below the timeout
// would be declared offline while it does as it was told.
bool is_sane(std::uint32_t timeout_ms, std::uint32_t interval_ms) noexcept {
  return interval_ms > 0 && interval_ms < timeout_ms;
}

}  // namespace

std::string_view to_string(FrameType type) noexcept {
  switch (type) {
    case FrameType::kLogin:
      return "login";
    case FrameType::kKeepalive:
      return "keepalive";
    case FrameType::kMessage:
      return "message";
    case FrameType::kLogout:
      return "logout";
    case FrameType::kLoginAck:
      return "login_ack";
    case FrameType::kKeepaliveAck:
      return "keepalive_ack";
    case FrameType::kMessageAck:
      return "message_ack";
    case FrameType::kLogoutAck:
      return "logout_ack";
    case FrameType::kError:
      return "error";
    case FrameType::kSettings:
      return "settings";
    case FrameType::kGoaway:
      return "goaway";
  }
  return "unknown";
}

std::string_view to_string(GoawayReason reason) noexcept {
  switch (reason) {
    case GoawayReason::kBusy:
      return "busy";
    case GoawayReason::kDraining:
      return "draining";
    case GoawayReason::kTakenOver:
      return "taken_over";
    case GoawayReason::kKicked:
      return "kicked";
    case GoawayReason::kTimeout:
      return "timeout";
  }
  return "unknown";
}

ErrorCode decode_login(std::span<const std::byte> payload, Login& out) noexcept {
  Reader reader(payload);
  if (!reader.has(kLoginVersionsSize)) return ErrorCode::kMalformedPayload;
  out.version_min = reader.take<std::uint8_t>();
  const auto version_max = reader.take<std::uint8_t>();
  // Judged first: a client of another version may have other limits for what follows.
  out.version = std::min(version_max, kVersionMax);
  if (out.version_min == 0 || out.version < std::max(out.version_min, kVersionMin)) {
    return ErrorCode::kBadVersion;
  }

  if (!reader.has(kLoginFixedSize - kLoginVersionsSize)) return ErrorCode::kMalformedPayload;
  out.interval_ms = reader.take<std::uint32_t>();
  const std::size_t uid_size = reader.take<std::uint8_t>();
  const std::size_t device_size = reader.take<std::uint8_t>();
  const std::size_t token_size = reader.take<std::uint16_t>();
  if (uid_size == 0 || uid_size > kUidSizeMax) return ErrorCode::kBadUid;
  if (device_size > kDeviceSizeMax) return ErrorCode::kBadDevice;
  if (token_size > kTokenSizeMax) return ErrorCode::kBadToken;
  if (!reader.has(uid_size + device_size + token_size)) return ErrorCode::kMalformedPayload;
  out.uid = reader.take_text(uid_size);
  out.device = reader.take_text(device_size);
  out.token = reader.take_text(token_size);
  return skip_extensions(reader);
}

ErrorCode decode_login_ack(std::span<const std::byte> payload, LoginAck& out) noexcept {
  Reader reader(payload);
  if (!reader.has(kLoginAckFrameSize - kHeaderSize)) return ErrorCode::kMalformedPayload;
  out.version = reader.take<std::uint8_t>();
  out.status = static_cast<LoginStatus>(reader.take<std::uint8_t>());
  out.timeout_ms = reader.take<std::uint32_t>();
  out.interval_ms = reader.take<std::uint32_t>();
  out.session_id = reader.take<std::uint64_t>();
  if (out.version < kVersionMin || out.version > kVersionMax) return ErrorCode::kBadVersion;
  if (!is_sane(out.timeout_ms, out.interval_ms)) return ErrorCode::kMalformedPayload;
  return skip_extensions(reader);
}

ErrorCode decode_error(std::span<const std::byte> payload, Error& out) noexcept {
  Reader reader(payload);
  if (!reader.has(kErrorFixedSize)) return ErrorCode::kMalformedPayload;
  out.code = static_cast<ErrorCode>(reader.take<std::uint16_t>());
  const std::size_t text_size = reader.take<std::uint8_t>();
  if (!reader.has(text_size)) return ErrorCode::kMalformedPayload;
  out.text = reader.take_text(text_size);
  return skip_extensions(reader);
}

ErrorCode decode_settings(std::span<const std::byte> payload, Settings& out) noexcept {
  Reader reader(payload);
  if (!reader.has(kSettingsFrameSize - kHeaderSize)) return ErrorCode::kMalformedPayload;
  out.timeout_ms = reader.take<std::uint32_t>();
  out.interval_ms = reader.take<std::uint32_t>();
  if (!is_sane(out.timeout_ms, out.interval_ms)) return ErrorCode::kMalformedPayload;
  return skip_extensions(reader);
}

ErrorCode decode_goaway(std::span<const std::byte> payload, Goaway& out) noexcept {
  Reader reader(payload);
  if (!reader.has(kGoawayFrameSize - kHeaderSize)) return ErrorCode::kMalformedPayload;
  out.reason = static_cast<GoawayReason>(reader.take<std::uint16_t>());
  out.retry_after_ms = reader.take<std::uint32_t>();
  return skip_extensions(reader);
}

std::size_t encode_login(const Login& login, std::span<std::byte> out) noexcept {
  if (login.version < login.version_min || login.version_min == 0) return 0;
  if (login.uid.empty() || login.uid.size() > kUidSizeMax) return 0;
  if (login.device.size() > kDeviceSizeMax || login.token.size() > kTokenSizeMax) return 0;
  const std::size_t payload_size =
      kLoginFixedSize + login.uid.size() + login.device.size() + login.token.size();
  if (out.size() < kHeaderSize + payload_size) return 0;
  Writer writer(FrameType::kLogin, payload_size, out);
  writer.put(login.version_min);
  writer.put(login.version);
  writer.put(login.interval_ms);
  writer.put(static_cast<std::uint8_t>(login.uid.size()));
  writer.put(static_cast<std::uint8_t>(login.device.size()));
  writer.put(static_cast<std::uint16_t>(login.token.size()));
  writer.put_bytes(login.uid.data(), login.uid.size());
  writer.put_bytes(login.device.data(), login.device.size());
  writer.put_bytes(login.token.data(), login.token.size());
  return kHeaderSize + payload_size;
}

std::size_t encode_login_ack(const LoginAck& ack, std::span<std::byte> out) noexcept {
  if (out.size() < kLoginAckFrameSize) return 0;
  Writer writer(FrameType::kLoginAck, kLoginAckFrameSize - kHeaderSize, out);
  writer.put(ack.version);
  writer.put(static_cast<std::uint8_t>(ack.status));
  writer.put(ack.timeout_ms);
  writer.put(ack.interval_ms);
  writer.put(ack.session_id);
  return kLoginAckFrameSize;
}

std::size_t encode_message(const Message& message, std::span<std::byte> out) noexcept {
  const std::size_t payload_size = kMessageIdSize + message.body.size();
  if (payload_size > UINT16_MAX || out.size() < kHeaderSize + payload_size) return 0;
  Writer writer(FrameType::kMessage, payload_size, out);
  writer.put(message.id);
  writer.put_bytes(message.body.data(), message.body.size());
  return kHeaderSize + payload_size;
}

std::size_t encode_message_ack(std::uint64_t id, std::span<std::byte> out) noexcept {
  if (out.size() < kMessageAckFrameSize) return 0;
  Writer writer(FrameType::kMessageAck, kMessageIdSize, out);
  writer.put(id);
  return kMessageAckFrameSize;
}

std::size_t encode_error(const Error& error, std::span<std::byte> out) noexcept {
  const std::string_view text = error.text.substr(0, kErrorTextSizeMax);
  const std::size_t payload_size = kErrorFixedSize + text.size();
  if (out.size() < kHeaderSize + payload_size) return 0;
  Writer writer(FrameType::kError, payload_size, out);
  writer.put(static_cast<std::uint16_t>(error.code));
  writer.put(static_cast<std::uint8_t>(text.size()));
  writer.put_bytes(text.data(), text.size());
  return kHeaderSize + payload_size;
}

std::size_t encode_settings(const Settings& settings, std::span<std::byte> out) noexcept {
  if (out.size() < kSettingsFrameSize) return 0;
  Writer writer(FrameType::kSettings, kSettingsFrameSize - kHeaderSize, out);
  writer.put(settings.timeout_ms);
  writer.put(settings.interval_ms);
  return kSettingsFrameSize;
}

std::size_t encode_goaway(const Goaway& goaway, std::span<std::byte> out) noexcept {
  if (out.size() < kGoawayFrameSize) return 0;
  Writer writer(FrameType::kGoaway, kGoawayFrameSize - kHeaderSize, out);
  writer.put(static_cast<std::uint16_t>(goaway.reason));
  writer.put(goaway.retry_after_ms);
  return kGoawayFrameSize;
}

}  // namespace pulsewheel::proto

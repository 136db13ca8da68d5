#include "proto/error_code.h"

#include "proto/frame.h"

namespace pulsewheel::proto {

// The sentences below spell these numbers out.
static_assert(kVersionMin == 1 && kVersionMax == 1);
static_assert(kUidSizeMax == 128 && kDeviceSizeMax == 64 && kTokenSizeMax == 512);
static_assert(kExtensionsMax == 16);

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kNone:
      return "none";
    case ErrorCode::kNotThisProtocol:
      return "not_this_protocol";
    case ErrorCode::kUnknownType:
      return "unknown_type";
    case ErrorCode::kReservedFlags:
      return "reserved_flags";
    case ErrorCode::kPayloadTooLong:
      return "payload_too_long";
    case ErrorCode::kLoginRequired:
      return "login_required";
    case ErrorCode::kNotAllowed:
      return "not_allowed";
    case ErrorCode::kMalformedPayload:
      return "malformed_payload";
    case ErrorCode::kBadVersion:
      return "bad_version";
    case ErrorCode::kUnknownExtension:
      return "unknown_extension";
    case ErrorCode::kBadUid:
      return "bad_uid";
    case ErrorCode::kBadDevice:
      return "bad_device";
    case ErrorCode::kBadToken:
      return "bad_token";
    case ErrorCode::kLoginTimeout:
      return "login_timeout";
    case ErrorCode::kServerFull:
      return "server_full";
    case ErrorCode::kTooManySessions:
      return "too_many_sessions";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string_view error_text(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kNone:
      return "No error.";
    case ErrorCode::kNotThisProtocol:
      return "This port speaks the Pulsewheel protocol; the first bytes are of another one.";
    case ErrorCode::kUnknownType:
      return "The frame type is none that a client may send: LOGIN, KEEPALIVE, MESSAGE, LOGOUT.";
    case ErrorCode::kReservedFlags:
      return "A flag bit is set that this frame type does not have; reserved bits are 0.";
    case ErrorCode::kPayloadTooLong:
      return "The header announces a longer payload than this frame may have here.";
    case ErrorCode::kLoginRequired:
      return "The first frame of a connection must be LOGIN.";
    case ErrorCode::kNotAllowed:
      return "LOGIN is allowed once per connection; use a new connection to log in again.";
    case ErrorCode::kMalformedPayload:
      return "The payload is cut short, has bytes left over, or a value that is out of range.";
    case ErrorCode::kBadVersion:
      return "None of the offered versions is spoken here; this server speaks version 1.";
    case ErrorCode::kUnknownExtension:
      return "An extension field marked critical is not known here, or there are more than 16.";
    case ErrorCode::kBadUid:
      return "A uid is 1 to 128 bytes long.";
    case ErrorCode::kBadDevice:
      return "A device is 0 to 64 bytes long.";
    case ErrorCode::kBadToken:
      return "The token is longer than 512 bytes, or is not accepted.";
    case ErrorCode::kLoginTimeout:
      return "No complete LOGIN came in time.";
    case ErrorCode::kServerFull:
      return "This server is full: it has as many connections, users or buffers as it may have.";
    case ErrorCode::kTooManySessions:
      return "This uid has as many sessions as it may have.";
    case ErrorCode::kInternal:
      return "The server failed; this is not the client's fault.";
  }
  return "An error without a name in this version.";
}

}  // namespace pulsewheel::proto

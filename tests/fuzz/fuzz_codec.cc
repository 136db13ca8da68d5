// Fuzzes the codec. The input is taken as a client's stream, as a server's stream and as the
// payload of every frame, so seeds are plain bytes from the wire. Beside what the sanitizers
// find, it holds the codec to three promises: a split never changes what is read, views stay
// inside the input, and what was decoded is encoded to something that decodes to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "proto/frame.h"

namespace pulsewheel::proto {
namespace {

using Bytes = std::span<const std::byte>;
using Status = NextFrame::Status;

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_inside(const void* from, std::size_t size, Bytes whole) {
  const auto* first = static_cast<const std::byte*>(from);
  return size == 0 || (first >= whole.data() && first + size <= whole.data() + whole.size());
}

/// Checks that every prefix that is too short is answered with "need more". The prefix is copied
/// to a buffer of just its size, so that ASan sees a byte read behind it.
template <class Next>
void require_patience(Bytes input, std::size_t size_needed, const Next& next) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                                 kHeaderSize, size_needed - 1}) {
    if (size >= size_needed || size > input.size()) continue;
    const std::vector<std::byte> prefix(input.begin(),
                                        input.begin() + static_cast<std::ptrdiff_t>(size));
    const NextFrame early = next(prefix);
    require(early.status == Status::kNeedMore);
    require(early.size > size && early.size <= size_needed);
  }
}

/// The first frame of `input`, after checks of everything that the answer promises.
template <class Next>
NextFrame cut_checked(Bytes input, const Next& next) {
  const NextFrame found = next(input);
  switch (found.status) {
    case Status::kFrame:
      require(found.error == ErrorCode::kNone);
      require(found.size == kHeaderSize + found.frame.payload.size());
      require(found.frame.payload.size() == found.frame.header.payload_size);
      require(is_inside(found.frame.payload.data(), found.frame.payload.size(), input));
      require_patience(input, found.size, next);
      break;
    case Status::kNeedMore:
      require(found.size > input.size());
      require_patience(input, found.size, next);
      break;
    case Status::kError:
      require(found.error != ErrorCode::kNone);
      require(to_string(found.error) != "unknown");
      require_patience(input, kHeaderSize, next);
      break;
  }
  return found;
}

/// Decodes; when that succeeds, encodes and decodes again and gives both results to `compare`.
template <class T, class Compare>
bool round_trip(Bytes payload, ErrorCode (*decode)(Bytes, T&) noexcept,
                std::size_t (*encode)(const T&, std::span<std::byte>) noexcept,
                const Compare& compare) {
  T first;
  if (decode(payload, first) != ErrorCode::kNone) return false;
  std::vector<std::byte> frame(kHeaderSize + payload.size());
  const std::size_t size = encode(first, frame);
  require(size >= kHeaderSize);
  T second;
  require(decode(std::span(frame).subspan(kHeaderSize, size - kHeaderSize), second) ==
          ErrorCode::kNone);
  compare(first, second);
  return true;
}

bool try_login(Bytes payload) {
  return round_trip<Login>(
      payload, decode_login, encode_login, [payload](const Login& a, const Login& b) {
        require(a.version >= kVersionMin && a.version <= kVersionMax);
        require(a.version == b.version && a.interval_ms == b.interval_ms);
        require(!a.uid.empty() && a.uid.size() <= kUidSizeMax);
        require(a.device.size() <= kDeviceSizeMax && a.token.size() <= kTokenSizeMax);
        require(is_inside(a.uid.data(), a.uid.size(), payload));
        require(is_inside(a.device.data(), a.device.size(), payload));
        require(is_inside(a.token.data(), a.token.size(), payload));
        require(a.uid == b.uid && a.device == b.device && a.token == b.token);
      });
}

void try_message(Bytes payload) {
  round_trip<Message>(payload, decode_message, encode_message,
                      [payload](const Message& a, const Message& b) {
                        require(a.id == b.id && a.body.size() == b.body.size());
                        require(is_inside(a.body.data(), a.body.size(), payload));
                      });
  std::uint64_t id = 0;
  const bool is_ack = decode_message_ack(payload, id) == ErrorCode::kNone;
  require(is_ack == (payload.size() == kMessageIdSize));
}

void try_server_payloads(Bytes payload) {
  round_trip<LoginAck>(payload, decode_login_ack, encode_login_ack,
                       [](const LoginAck& a, const LoginAck& b) {
                         require(a.interval_ms > 0 && a.interval_ms < a.timeout_ms);
                         require(a.status == b.status && a.version == b.version);
                         require(a.timeout_ms == b.timeout_ms && a.interval_ms == b.interval_ms);
                         require(a.session_id == b.session_id);
                       });
  round_trip<Error>(payload, decode_error, encode_error, [payload](const Error& a, const Error& b) {
    require(is_inside(a.text.data(), a.text.size(), payload));
    require(a.code == b.code && a.text == b.text);
  });
  round_trip<Settings>(payload, decode_settings, encode_settings,
                       [](const Settings& a, const Settings& b) {
                         require(a.interval_ms > 0 && a.interval_ms < a.timeout_ms);
                         require(a.timeout_ms == b.timeout_ms && a.interval_ms == b.interval_ms);
                       });
  round_trip<Goaway>(payload, decode_goaway, encode_goaway, [](const Goaway& a, const Goaway& b) {
    require(a.reason == b.reason && a.retry_after_ms == b.retry_after_ms);
  });
}

void run_server(Bytes input) {
  const Limits limits;
  Stage stage = Stage::kBeforeLogin;
  while (true) {
    const NextFrame found = cut_checked(
        input, [stage, &limits](Bytes bytes) { return next_frame(bytes, stage, limits); });
    if (found.status != Status::kFrame) return;
    const Bytes payload = found.frame.payload;
    switch (found.frame.header.type) {
      case FrameType::kLogin:
        require(stage == Stage::kBeforeLogin);
        if (!try_login(payload)) return;
        stage = Stage::kAfterLogin;
        break;
      case FrameType::kMessage:
        try_message(payload);
        break;
      case FrameType::kKeepalive:
      case FrameType::kLogout:
        require(payload.empty());
        break;
      default:
        require(false);  // a type that no client may send was let through
    }
    require(stage == Stage::kAfterLogin);
    input = input.subspan(found.size);
  }
}

void run_client(Bytes input) {
  while (true) {
    const NextFrame found = cut_checked(input, next_server_frame);
    if (found.status != Status::kFrame) return;
    try_server_payloads(found.frame.payload);
    input = input.subspan(found.size);
  }
}

}  // namespace
}  // namespace pulsewheel::proto

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace pulsewheel::proto;
  const auto input = std::as_bytes(std::span(bytes, size));
  run_server(input);
  run_client(input);
  if (size <= 65535) {  // no payload is longer
    try_login(input);
    try_message(input);
    try_server_payloads(input);
  }
  return 0;
}

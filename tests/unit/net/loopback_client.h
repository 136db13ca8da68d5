// LoopbackClient: the other end of a FakeShard's session. Sends exactly the bytes it is told to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/ids.h"
#include "proto/frame.h"
#include "tests/unit/net/fake_shard.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {

using Bytes = std::vector<std::byte>;

/// How to connect. What is 0 stays as the kernel has it.
struct ConnectOptions {
  int client_receive_buffer = 0;
  int session_send_buffer = 0;
  int session_user_timeout_ms = 0;  // TCP_USER_TIMEOUT
  MonoTime accepted = MonoClock::now();

  /// Few answers fit; smaller ones, and TCP gets in its own way.
  [[nodiscard]] static ConnectOptions with_small_buffers() {
    return {.client_receive_buffer = 4096, .session_send_buffer = 4096};
  }
};

/// Waits run the shard's loop, and throw std::runtime_error when they are in vain.
class LoopbackClient {
 public:
  /// Connects; the shard has a session for it from then on.
  explicit LoopbackClient(FakeShard& shard, const ConnectOptions& options = {});
  ~LoopbackClient();
  LoopbackClient(const LoopbackClient&) = delete;
  LoopbackClient& operator=(const LoopbackClient&) = delete;

  [[nodiscard]] SessionRef ref() const { return ref_; }
  [[nodiscard]] Session& session() const { return shard_.session(ref_); }

  /// Puts `bytes` into the connection, in one segment if they fit one.
  void send(std::span<const std::byte> bytes);
  /// Sends as much of `bytes` as the kernel takes at once; returns how much.
  std::size_t send_some(std::span<const std::byte> bytes);
  /// Sends and waits until the session has read it all.
  void deliver(std::span<const std::byte> bytes);
  /// Waits, without running the loop, until all that was sent is in the session's socket.
  void wait_until_arrived() const;

  /// Takes what has arrived off the connection, without running the loop, for a later read.
  void read_ahead();
  /// The next `size` bytes, as "82 00 00 00".
  std::string read(std::size_t size);
  struct ReadFrame {
    proto::FrameType type{};
    Bytes payload;
  };
  ReadFrame read_frame();
  /// Reads one frame, which has to be an ERROR.
  proto::ErrorCode read_error();
  /// Reads one frame, which has to be a GOAWAY.
  proto::Goaway read_goaway();

  struct End {
    Bytes bytes;  // that came before it
    bool was_reset = false;
  };
  /// Reads to the end of the connection.
  End read_to_end();
  /// read_to_end(), which has to be a FIN; the bytes in hex.
  std::string read_to_fin();

  /// FIN: nothing more comes from here, but reading goes on.
  void finish_sending();
  /// RST.
  void reset();

  /// LOGIN as `uid`, accepted, and the acknowledgement read.
  void log_in(std::string_view uid = "u", std::uint32_t interval_ms = 0);

 private:
  /// What has come so far; false at the end of the connection.
  bool fill();
  Bytes take(std::size_t size);

  FakeShard& shard_;
  int fd_ = -1;
  SessionRef ref_;
  Bytes unread_;
  bool was_reset_ = false;
};

/// Frames without a payload; what is answered, in hex, as LoopbackClient reads it.
inline const Bytes kKeepalive = proto::from_hex("02 00 00 00");
inline const Bytes kLogout = proto::from_hex("04 00 00 00");
inline const std::string kKeepaliveAck = "82 00 00 00";
inline const std::string kLogoutAck = "84 00 00 00";

[[nodiscard]] Bytes login_frame(const proto::Login& login);
[[nodiscard]] inline Bytes login_frame(std::string_view uid) {
  return login_frame({.uid = uid});
}
/// MESSAGE with a body of `body_size` bytes. The payload is 8 longer, the frame 12.
[[nodiscard]] Bytes message_frame(std::uint64_t id, std::size_t body_size = 0);
[[nodiscard]] Bytes operator+(Bytes a, const Bytes& b);
[[nodiscard]] Bytes first_of(std::size_t size, Bytes bytes);
[[nodiscard]] Bytes times(std::size_t n, const Bytes& bytes);

}  // namespace pulsewheel

// Client: one blocking TCP connection that speaks the protocol as tests want it spoken.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/frame.h"

namespace pulsewheel::test {

/// A frame with its own copy of the payload.
struct Received {
  proto::FrameType type{};
  std::vector<std::byte> payload;
};

/// Reads throw after a generous limit, so that a daemon that says nothing fails a test instead of
/// hanging it.
class Client {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Client(std::uint16_t port);
  /// To a unix socket.
  explicit Client(const std::string& path);
  ~Client();
  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;

  void send(std::span<const std::byte> bytes);
  void send_text(std::string_view bytes);

  void send_login(std::string_view uid, std::string_view device = {},
                  std::uint32_t interval_ms = 0);
  /// LOGIN and its answer. Throws when the answer is no LOGIN_ACK.
  proto::LoginAck login(std::string_view uid, std::string_view device = {},
                        std::uint32_t interval_ms = 0);
  void send_keepalive(std::uint8_t flags = 0);
  void send_message(std::uint64_t id, std::string_view body);
  void send_logout();

  /// The next frame; nullopt when the connection ended.
  std::optional<Received> read_frame();
  /// The next frame, which has to be of this type. Throws otherwise.
  Received expect(proto::FrameType type);
  /// The code of the ERROR that has to come next, and then the end of the connection.
  proto::ErrorCode expect_error();
  proto::Goaway expect_goaway();
  /// True when the peer closed and nothing was unread.
  bool at_end();
  std::string read_to_end();

  void finish_sending();  // FIN; answers can still be read
  void close();
  void reset();  // RST

 private:
  bool fill();

  int fd_ = -1;
  std::vector<std::byte> input_;
};

}  // namespace pulsewheel::test

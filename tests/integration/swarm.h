// Swarm: thousands of client connections of one test, on one epoll and on the test's own thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/frame.h"

namespace pulsewheel::test {

/// What one connection of a Swarm has seen so far.
struct Peer {
  using Time = std::chrono::steady_clock::time_point;

  int fd = -1;  // -1: closed by the test
  bool connected = false;
  bool ended = false;            // the daemon closed, or reset, the connection
  std::uint64_t session_id = 0;  // from LOGIN_ACK; 0: not logged in
  std::size_t acks = 0;          // KEEPALIVE_ACK and MESSAGE_ACK
  bool logged_out = false;       // LOGOUT_ACK came
  std::optional<proto::ErrorCode> error;
  std::optional<proto::GoawayReason> goaway;
  Time began{};  // before connect()
  Time ended_at{};
  std::vector<std::byte> input{};  // the beginning of a frame
};

/// Sums over the peers.
struct SwarmTotals {
  std::size_t connected = 0, logged_in = 0, acks = 0, logged_out = 0, errors = 0, goaways = 0,
              ended = 0;
};

/// Nothing happens between calls: a peer reads only inside drive() and drive_until(). A frame that
/// is none throws. Each peer takes a descriptor of the test process.
class Swarm {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Swarm(std::uint16_t port, std::string source = "127.0.0.1");
  ~Swarm();
  Swarm(const Swarm&) = delete;
  Swarm& operator=(const Swarm&) = delete;

  /// Adds `count` peers and begins to connect them.
  void add(std::size_t count);
  /// Adds `count` peers that log in as "PREFIX-0" and so on, or "PREFIX" alone for a count of one.
  /// False when not all are logged in within the limit.
  [[nodiscard]] bool add_users(const std::string& prefix, std::size_t count);
  /// Gives peer `i` a new connection in place of its old one, which must be closed.
  void reconnect(std::size_t i);

  /// Bytes that the kernel took; 0 too when the connection is gone or not there yet.
  std::size_t send(std::size_t i, std::span<const std::byte> bytes);
  std::size_t send(std::size_t i, std::string_view bytes);
  void send_login(std::size_t i, std::string_view uid, std::string_view device = {});
  void send_all(std::span<const std::byte> bytes);

  void close(std::size_t i);
  void reset(std::size_t i);  // RST
  void reset_all();

  /// Reads what comes in for this long.
  void drive(Clock::duration time);
  /// The same until `done`, asked after each batch of events; false at the limit.
  [[nodiscard]] bool drive_until(const std::function<bool()>& done,
                                 Clock::duration limit = std::chrono::seconds{60});
  /// Drives until all that are not closed by the test are connected.
  [[nodiscard]] bool all_connected();

  [[nodiscard]] std::size_t size() const { return peers_.size(); }
  [[nodiscard]] const Peer& at(std::size_t i) const { return peers_[i]; }
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  [[nodiscard]] const SwarmTotals& totals() const { return totals_; }

 private:
  void begin_connect(std::size_t i);
  void wait_and_read(Clock::time_point until);
  void read(Peer& peer);
  void take_frames(Peer& peer);
  void take_frame(Peer& peer, const proto::Frame& frame);

  std::uint16_t port_;
  std::string source_;
  int epoll_;
  std::vector<Peer> peers_;
  SwarmTotals totals_;
};

/// The bytes of a LOGIN.
std::vector<std::byte> login_frame(std::string_view uid, std::string_view device = {},
                                   std::uint32_t interval_ms = 0);
/// The bytes of a MESSAGE with a body of `body_size` bytes.
std::vector<std::byte> message_frame(std::uint64_t id, std::size_t body_size);

}  // namespace pulsewheel::test

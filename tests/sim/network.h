// Network: the connections of a simulation, with delay, loss and cut lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/sim/world.h"

namespace pulsewheel::nodesim {

/// What a client sends. As in TCP: nothing overtakes, and a lost packet comes late.
enum class Packet : std::uint8_t { kConnect, kLogin, kKeepalive, kMessage, kLogout, kFin, kReset };

/// What a client hears.
enum class Word : std::uint8_t {
  kWelcome,   // LOGIN_ACK
  kSettings,  // another timeout holds
  kFarewell,  // the server's last frame: LOGOUT_ACK, GOAWAY or ERROR; it waits for our close
  kClosed,    // the connection is gone
};

struct ConnectionRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0: none
  friend bool operator==(const ConnectionRef&, const ConnectionRef&) = default;
};

/// The bytes that have arrived in a socket and are not read. Keeps its memory.
class Inbox {
 public:
  struct Arrived {
    Packet packet;
    MonoTime at;
  };

  void push(Packet packet, MonoTime at) { packets_.push_back({packet, at}); }
  [[nodiscard]] bool empty() const noexcept { return first_ == packets_.size(); }
  [[nodiscard]] const Arrived& front() const noexcept { return packets_[first_]; }
  void pop() noexcept {
    if (++first_ == packets_.size()) clear();
  }
  void clear() noexcept {
    packets_.clear();
    first_ = 0;
  }
  /// What a peek would find: data in front of a FIN or a reset.
  [[nodiscard]] std::optional<MonoTime> oldest_data() const noexcept {
    if (empty() || front().packet == Packet::kFin || front().packet == Packet::kReset) return {};
    return front().at;
  }

 private:
  std::vector<Arrived> packets_;
  std::size_t first_ = 0;
};

struct Connection {
  enum class Server : std::uint8_t { kOnItsWay, kInAcceptQueue, kAccepted, kGone };

  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint32_t client = 0;
  std::uint32_t wish_ms = 0;
  Duration timeout{0};  // that the client was told last
  ShardIndex shard = 0;
  Server server = Server::kOnItsWay;
  bool client_holds = false;
  bool cut = false;           // half-open: nothing passes any more, in either direction
  std::uint32_t session = 0;  // kAccepted: its slot
  MonoTime last_up{};         // when the last packet in each direction arrives
  MonoTime last_down{};
  Witness* witness = nullptr;
  Inbox inbox;

  [[nodiscard]] ConnectionRef ref() const noexcept { return {index, generation}; }
};

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  /// A new connection of `client` to a shard, on which nothing is sent yet.
  ConnectionRef open(std::uint32_t client, std::uint32_t user, std::uint8_t device,
                     std::uint32_t wish_ms, ShardIndex shard);
  /// nullptr: both sides have left it.
  [[nodiscard]] Connection* find(ConnectionRef ref) noexcept;

  // --- The client's side; without effect on a connection that it has left ---

  void send(ConnectionRef ref, Packet packet);
  /// From now on nothing passes.
  void cut(ConnectionRef ref);
  /// The client takes no interest any more. What it has sent is still on its way.
  void leave(ConnectionRef ref);

  // --- The server's side ---

  void tell(Connection& connection, Word word);
  /// The server's socket is closed, or there is none.
  void server_leaves(Connection& connection);

  /// All connections that somebody holds, for storms and restarts.
  template <class Function>
  void for_each(Function function) {
    for (Connection& connection : connections_) {
      if (connection.generation % 2 == 1) function(connection);
    }
  }
  [[nodiscard]] std::size_t open_connections() const noexcept {
    return connections_.size() - free_.size();
  }

 private:
  [[nodiscard]] Duration delay();
  void free_if_left(Connection& connection);

  World& world_;
  // Generations are odd while a connection stands, even while its place is free.
  std::deque<Connection> connections_;
  std::vector<std::uint32_t> free_;
};

}  // namespace pulsewheel::nodesim

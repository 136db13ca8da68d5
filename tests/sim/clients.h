// Clients: thousands of devices that come, stay, go, fall silent and fight over their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace pulsewheel::nodesim {

/// One to three devices for each user, each of which does one thing at a time, on its timer.
/// Everything they know, they know from the network.
class Clients {
 public:
  Clients(World& world, Network& network);

  /// Everybody connects within `window`.
  void start(Duration window);
  void on_timer(std::uint32_t index, std::uint32_t token);
  void on_hears(Connection& connection, Word word);

  /// All connections are cut at once, and all clients come back at once.
  void storm();
  /// From now on everybody leaves, and nobody comes back.
  void go_home();

 private:
  enum class State : std::uint8_t {
    kAway,     // until the timer
    kWaiting,  // for an answer, not beyond the timer
    kOn,       // does something at the timer
    kSilent,   // until the timer, with a connection that may be gone
  };
  struct Client {
    std::uint32_t user = 0;
    std::uint8_t device = 0;  // 0: no label
    State state = State::kAway;
    std::uint32_t wish_ms = 0;
    Duration timeout{0};
    std::uint32_t token = 0;  // of the timer that counts
    ConnectionRef connection;
  };

  [[nodiscard]] std::uint32_t index_of(const Client& client) const noexcept {
    return static_cast<std::uint32_t>(&client - clients_.data());
  }
  void add_client(std::uint32_t user, std::uint8_t device);
  void set_timer(Client& client, State state, Duration after);
  void connect(Client& client);
  void act(Client& client);
  void keep_alive(Client& client, Packet packet);
  void close(Client& client, Packet how);
  void leave_behind(ConnectionRef old);
  [[nodiscard]] Duration time_away(const Client& client);

  World& world_;
  Network& network_;
  std::vector<Client> clients_;
  bool home_ = false;

  static constexpr Duration kPatience = std::chrono::seconds{15};
};

}  // namespace pulsewheel::nodesim

// PassedSockets: listening sockets that systemd, or whoever else started the daemon, has opened.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pulsewheel {

/// One listening TCP socket, as it was passed.
struct PassedSocket {
  int descriptor = -1;
  boost::asio::ip::tcp::endpoint endpoint;  // that it listens on
};

/// All sockets of one address. Several of them are SO_REUSEPORT sockets, between which the kernel
/// spreads the connections.
struct PassedListener {
  boost::asio::ip::tcp::endpoint endpoint;
  std::vector<int> descriptors;

  /// The one for this shard. Requires a count that check_listeners() has accepted.
  [[nodiscard]] int descriptor_of(std::size_t shard) const {
    return descriptors[shard % descriptors.size()];
  }
};

/// Sockets of the same address together, in the order in which they came. Throws StartError for
/// more than `listeners_max` addresses.
[[nodiscard]] std::vector<PassedListener> group_by_address(const std::vector<PassedSocket>& sockets,
                                                           std::size_t listeners_max);

/// How many shards the sockets ask for: as many as the most that came for one address, where
/// server.shards leaves that open (0); else `configured`. 0: whatever fits. Pure.
[[nodiscard]] std::uint32_t shards_for(const std::vector<PassedListener>& listeners,
                                       std::uint32_t configured);

/// Each address needs one socket for each shard, or a single one that all of them share: with
/// fewer some shards would stay idle, and with more some connections would never be accepted.
/// Throws StartError saying so, with the `reason` for the number of shards. Pure.
void check_listeners(const std::vector<PassedListener>& listeners, std::size_t shards,
                     const std::string& reason);

/// What LISTEN_FDS names (sd_listen_fds(3)). For the main thread, before any other one starts.
///
/// The rules of these descriptors, which the one that passed them may hold open, too:
/// - Whoever uses one makes a duplicate in its own descriptor table; close() then takes the
///   inherited number out of each table.
/// - None is ever shut down: shutdown() acts on the socket and not on the descriptor, and would
///   end systemd's copy with ours, and with it the queue of those who wait for the next daemon.
///   A listener of ours ends when every table has closed its descriptors.
/// - An epoll set forgets a descriptor by itself only when the socket is closed everywhere, so
///   it has to be taken out before it is closed. Asio does so for what was assigned to it.
class PassedSockets {
 public:
  /// Takes them over, and removes LISTEN_FDS and its companions from the environment. Throws
  /// StartError for what is no listening TCP socket, naming it and what would be right.
  [[nodiscard]] static PassedSockets take();

  /// For clients: all that came. Empty: none was passed, and the configured ones are opened.
  [[nodiscard]] const std::vector<PassedListener>& listeners() const noexcept { return listeners_; }

  /// Closes the inherited descriptors in the calling thread's table. A second call there would
  /// close what somebody else has opened since.
  void close_inherited() const noexcept;

 private:
  std::vector<PassedListener> listeners_;
};

}  // namespace pulsewheel

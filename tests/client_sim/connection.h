// Sockets of the simulator: where they connect to, and from which address.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace pulsewheel::sim {

/// There is no daemon to talk to; what() is one line that names the address.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
  std::string text;  // as the user gave it

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

/// Resolves "HOST:PORT" or "[ADDRESS]:PORT", blocking. Throws UsageError for another form and
/// Unavailable for a name that has no address.
[[nodiscard]] Endpoint resolve(const std::string& host_port);

/// One source address takes this many connections: Linux hands out ports of one parity first, and
/// past half of the range every connect() walks the whole table.
inline constexpr std::uint32_t kConnectionsPerSource = 14'000;

/// Opens a non-blocking connection number `number` to `target`, from a loopback address of its
/// own group when the target is on 127.0.0.0/8 (kConnectionsPerSource a group: 127.0.1.1,
/// 127.0.1.2, ...). Returns the descriptor, possibly still connecting, or -errno.
[[nodiscard]] int open_connection(const Endpoint& target, std::uint32_t number) noexcept;

/// Closes; with `abruptly` by RST, and what was not sent is lost.
void close_connection(int descriptor, bool abruptly) noexcept;

}  // namespace pulsewheel::sim

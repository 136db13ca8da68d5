// KeepaliveLoad: clients of one server who each send the next keepalive once the last is answered.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pulsewheel::bench {

/// What a client of a server says and hears, in bytes.
struct Dialect {
  std::function<std::string(std::size_t client)> hello{};  // no hello where it is empty
  std::size_t welcome_size = 0;                            // of the answer to it
  std::string ping{};
  std::size_t pong_size = 0;
};

/// One thread.
class KeepaliveLoad {
 public:
  /// Connects `clients` to 127.0.0.1, says hello, and waits for each welcome. Throws
  /// std::runtime_error when one is not answered within 10 s.
  KeepaliveLoad(std::uint16_t port, std::size_t clients, Dialect dialect);
  ~KeepaliveLoad();
  KeepaliveLoad(const KeepaliveLoad&) = delete;
  KeepaliveLoad& operator=(const KeepaliveLoad&) = delete;

  /// Each client has one ping on its way all the time, so that the server is never without work.
  /// Returns the number of pongs, with those that were still on their way at the end. Throws
  /// std::runtime_error when a connection ends, or answers stop for 10 s.
  std::uint64_t run(std::chrono::milliseconds duration);

 private:
  void connect_client(std::uint16_t port);
  void send_to(std::size_t client, const std::string& bytes) const;
  /// Waits for bytes, and calls `on_bytes(client, count)` for each connection that has some.
  template <class OnBytes>
  void poll(OnBytes on_bytes);
  /// Until each client has `size` bytes, counted from now.
  void expect_of_each(std::size_t size);

  Dialect dialect_;
  int epoll_;
  std::vector<int> sockets_;
  std::vector<std::size_t> received_;  // bytes of the answer that is due
};

}  // namespace pulsewheel::bench

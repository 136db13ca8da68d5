// FakeRedis: a server for tests that says what the test tells it, sense or nonsense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace pulsewheel::test {

/// Runs on the test's own io_context. Understands commands as clients write them, and answers a
/// connection's first commands (AUTH, CLIENT, SELECT, PING) as a server does.
class FakeRedis {
 public:
  using Command = std::vector<std::string>;

  explicit FakeRedis(boost::asio::io_context& io);
  ~FakeRedis();
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// The bytes that answer `command`; kClose in front of them: and the connection ends behind them.
  std::function<std::string(const Command&)> answer;
  static constexpr char kClose = '\x04';

  /// Bytes for each connection as soon as it is accepted.
  std::string greeting;
  bool reads = true;  // false: accepts, and never reads

  std::size_t connections = 0;                 // accepted so far
  std::vector<std::vector<Command>> commands;  // received, by connection
  /// Those of all connections but the handshakes'.
  [[nodiscard]] std::vector<Command> payload() const;

  /// Says `bytes` on the newest connection, asked or not.
  void say(const std::string& bytes);
  /// Ends all connections.
  void hang_up();
  /// Lets nobody connect any more; the port stays its own.
  void stop_listening();
  void listen_again();

  /// What a server answers to the commands with which a connection starts; empty for others.
  static std::string usual_answer(const Command& command);

 private:
  struct Connection;

  void do_accept();

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t port_;
  std::vector<std::shared_ptr<Connection>> open_;
};

}  // namespace pulsewheel::test

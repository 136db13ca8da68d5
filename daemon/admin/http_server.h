// HttpServer: the daemon's HTTP port, on a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/http_connection.h"
#include "daemon/admin/router.h"

namespace pulsewheel {

/// Accepts connections and serves them by the routes, all on the thread "pw-http". Sleeps without
/// a wake-up while no client is connected.
///
/// Made, started and stopped by one thread (main). Callbacks for a StatusSource may be posted to
/// executor() from any thread as long as the server lives.
class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // an IPv4 or IPv6 literal, without brackets
    std::uint16_t port = 7601;          // 0: any free one
    HttpLimits limits;
  };

  /// Opens no socket yet, but the descriptors of the event loop: make the server before any
  /// thread separates its descriptor table. Throws std::invalid_argument for an address that is
  /// none.
  HttpServer(Options options, Router router);
  /// Stops.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Listens and starts the thread. Call once. Throws boost::system::system_error naming address
  /// and port (in use, not ours, no permission); then nothing is open.
  void start();
  /// Closes everything and joins the thread: answers not yet sent are lost. Idempotent.
  void stop();

  /// The port that is listened on. Requires start().
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] boost::asio::io_context::executor_type executor() noexcept {
    return io_.get_executor();
  }
  [[nodiscard]] const HttpCounters& counters() const noexcept { return counters_; }

 private:
  using Tcp = boost::asio::ip::tcp;

  void open();
  void run() noexcept;
  void do_accept();
  void on_accept(boost::system::error_code ec, HttpConnection::Socket socket);
  void serve(HttpConnection::Socket socket);
  void on_ended(HttpConnection& connection);

  const HttpLimits limits_;
  const Tcp::endpoint endpoint_;
  const Router router_;
  HttpCounters counters_;
  std::uint16_t port_ = 0;

  boost::asio::io_context io_{1};
  boost::asio::steady_timer retry_timer_{io_};  // its existence creates the loop's descriptors
  boost::asio::basic_socket_acceptor<Tcp, boost::asio::io_context::executor_type> acceptor_{io_};
  std::chrono::milliseconds accept_backoff_{0};
  HttpConnection::Shared shared_;

  struct Open {
    std::shared_ptr<HttpConnection> connection;
    bool refused = false;
  };
  std::unordered_map<const HttpConnection*, Open> open_;
  std::size_t refusals_ = 0;  // of those in open_
  std::thread thread_;
};

}  // namespace pulsewheel

// HttpServer: the daemon's HTTP port, on a thread of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "daemon/admin/bearer_token.h"
#include "daemon/admin/http_acceptor.h"
#include "daemon/admin/http_connection.h"
#include "daemon/admin/router.h"
#include "daemon/admin/unix_socket.h"

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
    std::string unix_socket;            // the path of one to listen on besides; empty: none
    mode_t unix_socket_mode = 0660;     // of that file: who may connect
    /// What TCP clients have to show, but for routes that are open. Those of the unix socket need
    /// none: its mode says who they are.
    BearerToken token;
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

  /// Listens and starts the thread. Call once. Throws std::system_error naming the address and
  /// port, or the path (in use, not ours, no permission); then nothing is open.
  void start();
  /// Closes everything and joins the thread: answers not yet sent are lost. Idempotent.
  void stop();

  /// From now on `token` counts, also on connections that are open; a stream that runs, runs on.
  /// Any thread.
  void set_token(BearerToken token);

  /// The port that is listened on. Requires start().
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] boost::asio::io_context::executor_type executor() noexcept {
    return io_.get_executor();
  }
  [[nodiscard]] const HttpCounters& counters() const noexcept { return counters_; }

 private:
  using Tcp = boost::asio::ip::tcp;

  void listen_on_tcp();
  void listen_on_unix_socket();
  void run() noexcept;
  void serve(HttpConnection::Socket socket, bool trusted);
  bool on_stream(HttpConnection& connection);
  void on_ended(HttpConnection& connection);

  const HttpLimits limits_;
  const Tcp::endpoint endpoint_;
  const std::string unix_path_;  // empty: none
  const mode_t unix_mode_;
  const Router router_;
  HttpCounters counters_;
  std::uint16_t port_ = 0;

  boost::asio::io_context io_{1};
  HttpConnection::Shared shared_;
  HttpAcceptor tcp_;
  HttpAcceptor unix_;
  std::optional<UnixSocketFile> unix_file_;

  enum class Kind : std::uint8_t { kServed, kRefused, kStream };
  struct Open {
    std::shared_ptr<HttpConnection> connection;
    Kind kind = Kind::kServed;
    bool trusted = false;
  };
  [[nodiscard]] std::size_t& served(bool trusted) noexcept {
    return trusted ? served_by_unix_ : served_by_tcp_;
  }
  std::unordered_map<const HttpConnection*, Open> open_;
  // Of those in open_. Apart, so that no crowd at the port keeps the operator from the unix socket.
  std::size_t served_by_tcp_ = 0;
  std::size_t served_by_unix_ = 0;
  std::size_t refusals_ = 0;  // of those in open_
  std::size_t streams_ = 0;   // of those in open_
  std::thread thread_;
};

}  // namespace pulsewheel

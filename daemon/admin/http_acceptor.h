// HttpAcceptor: one listening socket of the HTTP port, of whatever kind.
#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/http_connection.h"

namespace pulsewheel {

/// Accepts one connection after the other; waits when there are too few descriptors or too little
/// memory for it. Confined to the HTTP thread once it is started; must outlive the loop's run.
class HttpAcceptor {
 public:
  using Protocol = boost::asio::generic::stream_protocol;
  using Socket =
      boost::asio::basic_socket_acceptor<Protocol, boost::asio::io_context::executor_type>;
  using OnConnection = std::function<void(HttpConnection::Socket)>;

  /// `errors` counts failures. Opens nothing.
  HttpAcceptor(boost::asio::io_context& io, Counter& errors, OnConnection on_connection);

  /// The socket: open, bind and listen on it before start().
  [[nodiscard]] Socket& socket() noexcept { return socket_; }

  void start();
  /// Closes the socket. Idempotent.
  void close() noexcept;

 private:
  void do_accept();
  void on_accept(boost::system::error_code ec, HttpConnection::Socket accepted);

  Socket socket_;
  boost::asio::steady_timer retry_timer_;  // its existence creates the loop's descriptors
  std::chrono::milliseconds backoff_{0};
  Counter& errors_;
  const OnConnection on_connection_;
};

}  // namespace pulsewheel

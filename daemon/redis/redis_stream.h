// RedisStream: bytes to and from a Redis server, over TCP, TLS or a unix socket.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

namespace pulsewheel {

/// What a TLS connection needs beside the host's name. Files are PEM and read at each connect, so
/// that renewed ones are found.
struct RedisTls {
  std::string ca_file;      // empty: the system's authorities
  std::string cert_file;    // ours, for servers that want one; empty: none
  std::string key_file;     // of cert_file
  std::string server_name;  // that the server's certificate must bear; empty: the URL's host
};

/// One connection's socket. Confined to its io_context's thread. Whoever has an operation pending
/// keeps the stream alive until it has ended.
class RedisStream {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol,
                                                  boost::asio::io_context::executor_type>;

  explicit RedisStream(boost::asio::io_context& io) : socket_(io) {}

  [[nodiscard]] Socket& socket() noexcept { return socket_; }

  /// Turns the stream into a TLS one; async_handshake() comes next. The server has to prove that it
  /// is `tls.server_name`, a host name or an IP address; not empty. Throws std::runtime_error with
  /// one sentence that names the file that cannot be used.
  void use_tls(const RedisTls& tls);

  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::client, std::forward<Handler>(handler));
  }
  template <class Handler>
  void async_read_some(boost::asio::mutable_buffer buffer, Handler&& handler) {
    tls_ ? tls_->async_read_some(buffer, std::forward<Handler>(handler))
         : socket_.async_read_some(buffer, std::forward<Handler>(handler));
  }
  /// Writes the whole buffer.
  template <class Handler>
  void async_write(boost::asio::const_buffer buffer, Handler&& handler) {
    tls_ ? boost::asio::async_write(*tls_, buffer, std::forward<Handler>(handler))
         : boost::asio::async_write(socket_, buffer, std::forward<Handler>(handler));
  }

  /// Closes the socket, without a farewell over TLS: nothing that a client sent last may count.
  void close() noexcept;

 private:
  Socket socket_;
  std::optional<boost::asio::ssl::context> context_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace pulsewheel

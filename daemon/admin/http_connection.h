// HttpConnection: one client of the HTTP port, from accept to close.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/admin/bearer_token.h"
#include "daemon/admin/http_message.h"
#include "daemon/admin/router.h"
#include "daemon/base/counters.h"

namespace pulsewheel {

/// What one client may use. Each wait on a client has an end.
struct HttpLimits {
  std::size_t head_bytes_max = 8 * 1024;   // request line and fields; more: 431
  std::size_t body_bytes_max = 64 * 1024;  // more: 413, unless the route allows it
  std::size_t connections_max = 256;       // by TCP, and as many by the unix socket; more: 503
  std::size_t refusals_max = 32;           // being told so at a time; more: just closed
  std::size_t streams_max = 1'024;         // beside them; more: 503

  std::chrono::milliseconds idle_timeout{60'000};        // for a first byte; then closed in silence
  std::chrono::milliseconds head_timeout{5'000};         // first byte to end of head; then 408
  std::chrono::milliseconds body_timeout{10'000};        // end of head to end of body; then 408
  std::chrono::milliseconds answer_timeout{10'000};      // of a handler; then 503
  std::chrono::milliseconds write_timeout{10'000};       // of one whole answer; then closed
  std::chrono::milliseconds linger_timeout{2'000};       // for the client to read the last answer
  std::chrono::milliseconds heartbeat_interval{15'000};  // of a stream with nothing to send
  std::chrono::milliseconds stream_write_timeout{60'000};  // without a byte taken; then closed
};

/// Written by the HTTP thread, read by any.
struct HttpCounters {
  Counter connections_accepted;
  Counter connections_refused;  // over connections_max
  Counter accept_errors;        // too few descriptors or too little memory
  Counter unauthorized;         // requests without the token; in answers_4xx, too
  Gauge connections;            // open now, streams among them
  Gauge streams;                // open now
  Counter streams_begun;
  Counter streams_refused;  // over streams_max
  Counter streams_stuck;    // closed by stream_write_timeout
  Counter answers_2xx;
  Counter answers_4xx;
  Counter answers_5xx;
};

/// Confined to the HTTP thread. Requests of one connection are read, answered and written one
/// after the other, so pipelined ones are answered in order, and a client that sends without
/// reading fills its own socket and nothing here. Kept alive by its pending operations and by the
/// server's list; the server outlives it.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol,
                                                  boost::asio::io_context::executor_type>;

  /// What all connections of a server share.
  struct Shared {
    const Router& router;
    const HttpLimits& limits;
    HttpCounters& counters;
    bool local_hosts_only;  // check the Host field of reading requests too
    BearerToken token;      // may change between two requests
    /// The connection wants to be a stream, and no longer one of connections_max. False: there are
    /// streams_max.
    std::function<bool(HttpConnection&)> begin_stream;
    std::function<void(HttpConnection&)> ended;  // the connection has closed; called once
  };

  /// `trusted`: who may connect is settled already, as by the mode of a unix socket. Such a client
  /// needs no token.
  HttpConnection(Socket&& socket, Shared& shared, bool trusted);

  /// Serves requests until either side ends the connection. Call this or refuse(), once.
  void start();
  /// Says 503 without reading a request, and closes.
  void refuse();
  /// Ends the connection at once. Idempotent. Calls Shared::ended.
  void close() noexcept;

 private:
  // What the deadline is for.
  enum class Phase : std::uint8_t {
    kIdle,
    kHead,
    kBody,
    kAnswer,
    kWrite,
    kLinger,
    kStreamIdle,
    kStreamWrite
  };
  using Message = http::response<http::string_body>;

  void do_await_request();
  void do_read_head();
  void on_head(boost::system::error_code ec, std::size_t bytes);
  void do_continue();
  void do_read_body();
  void on_body(boost::system::error_code ec);
  void dispatch();
  void on_answer(std::uint64_t request, Response response);
  void on_read_error(boost::system::error_code ec);
  void do_write(Response response);
  void make_head(const Response& response);
  void on_written(boost::system::error_code ec);
  void do_stream(Response response);
  void do_stream_next();
  void do_stream_write();
  void do_linger();
  void do_discard();

  void arm(Phase phase, std::chrono::milliseconds timeout);
  void do_wait_deadline(std::chrono::milliseconds timeout);
  void on_deadline();
  [[nodiscard]] std::optional<Response> check_head(std::size_t bytes) const;
  [[nodiscard]] std::optional<Response> check_token() const;
  [[nodiscard]] std::optional<Response> check_where_from() const;
  [[nodiscard]] std::size_t body_bytes_max() const;

  Socket socket_;
  Shared& shared_;
  const bool trusted_;
  boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                    boost::asio::wait_traits<std::chrono::steady_clock>,
                                    boost::asio::io_context::executor_type>
      deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<Message> message_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  std::shared_ptr<BodyStream> stream_;
  BodyStream::Piece piece_;    // being written
  std::uint64_t request_ = 0;  // number of the one being handled; an answer to another is late
  std::chrono::milliseconds answer_timeout_{0};  // of that one
  std::size_t discarded_bytes_ = 0;
  Phase phase_ = Phase::kIdle;
  bool timed_out_ = false;   // the deadline ended the pending read
  bool is_head_ = false;     // no body in the answer
  bool keep_alive_ = false;  // the request allows another one after it
  bool closed_ = false;
};

}  // namespace pulsewheel

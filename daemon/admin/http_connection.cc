#include "daemon/admin/http_connection.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>

#include "daemon/admin/request_target.h"
#include "daemon/base/build_info.h"

namespace pulsewheel {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

namespace {

constexpr std::size_t kFirstReadBytes = 2048;  // most requests fit
// What a client may still send after its last answer: the rest of a request that was refused. We
// read it only so that the kernel sends no RST, which would take the answer out of the client's
// hands.
constexpr std::size_t kDiscardBytesMax = 1024 * 1024;
constexpr std::chrono::milliseconds kCancelAgainAfter{10};
// Of a stream, in the kernel (which doubles it): enough for a client on a long line, and with a
// thousand clients that do not read 128 MB at most, where the kernel by itself would go to 4 GB.
constexpr int kStreamSendBufferBytes = 64 * 1024;

Response closing(Response response) {
  response.close = true;
  return response;
}

Response head_too_large(const HttpLimits& limits) {
  return error_response(
      http::status::request_header_fields_too_large, "head_too_large",
      "request line and fields may have " + std::to_string(limits.head_bytes_max) + " bytes");
}

Response head_timeout(const HttpLimits& limits) {
  return error_response(http::status::request_timeout, "timeout",
                        "the head of the request was not complete after " +
                            std::to_string(limits.head_timeout.count()) + " ms");
}

Response body_timeout(const HttpLimits& limits) {
  return error_response(http::status::request_timeout, "timeout",
                        "the body of the request was not complete after " +
                            std::to_string(limits.body_timeout.count()) + " ms");
}

Response body_too_large(std::size_t bytes_max) {
  return error_response(http::status::payload_too_large, "body_too_large",
                        "the body may have " + std::to_string(bytes_max) + " bytes");
}

// Nullopt for errors of the connection: nobody is there to read an answer.
std::optional<Response> answer_to(error_code ec, const HttpLimits& limits,
                                  std::size_t body_bytes_max) {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return head_too_large(limits);
  }
  if (ec == http::error::body_limit) {
    return body_too_large(body_bytes_max);
  }
  if (ec == http::error::bad_version) {
    return error_response(http::status::http_version_not_supported, "bad_version",
                          "this port speaks HTTP/1.1 and HTTP/1.0");
  }
  if (ec == http::error::partial_message) {
    return error_response(http::status::bad_request, "incomplete",
                          "the request ended before it was complete");
  }
  if (ec.category() == make_error_code(http::error::bad_method).category() &&
      ec != http::error::end_of_stream) {
    return error_response(http::status::bad_request, "bad_request",
                          "this is no HTTP request: " + ec.message());
  }
  return std::nullopt;
}

/// OPTIONS is how a browser asks whether it may send the real request.
bool changes_something(http::verb method) {
  return method != http::verb::get && method != http::verb::head && method != http::verb::options;
}

/// Browsers name the page's origin in each request that is not a plain look-up, and let any page
/// send simple ones to any address, this host's loopback included.
template <class Fields>
bool comes_from_foreign_page(const Fields& head) {
  const auto [first, last] = head.equal_range(http::field::origin);
  return std::any_of(first, last, [&head](const auto& field) {
    return !is_same_origin(field.value(), head[http::field::host]);
  });
}

void count_answer(HttpCounters& counters, http::status status) {
  switch (http::to_status_class(status)) {
    case http::status_class::client_error:
      return counters.answers_4xx.add();
    case http::status_class::server_error:
      return counters.answers_5xx.add();
    default:
      return counters.answers_2xx.add();
  }
}

}  // namespace

HttpConnection::HttpConnection(Socket&& socket, Shared& shared, bool trusted)
    : socket_(std::move(socket)),
      shared_(shared),
      trusted_(trusted),
      deadline_(socket_.get_executor()),
      // Room for a whole head and, behind it, what came along with it.
      buffer_(shared.limits.head_bytes_max + kFirstReadBytes) {}

void HttpConnection::start() {
  do_await_request();
}

void HttpConnection::refuse() {
  Response response =
      closing(error_response(http::status::service_unavailable, "too_many_connections",
                             "this port serves " + std::to_string(shared_.limits.connections_max) +
                                 " connections at a time"));
  response.fields.emplace_back(http::field::retry_after, "1");
  do_write(std::move(response));
}

void HttpConnection::close() noexcept {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();  // `ended` drops the server's reference
  error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  shared_.ended(*this);
}

void HttpConnection::do_await_request() {
  parser_.reset();
  if (buffer_.size() > 0) return do_read_head();  // pipelined

  arm(Phase::kIdle, shared_.limits.idle_timeout);
  socket_.async_read_some(buffer_.prepare(kFirstReadBytes),
                          [self = shared_from_this()](error_code ec, std::size_t bytes) {
                            if (self->closed_) return;
                            if (ec) return self->close();
                            self->buffer_.commit(bytes);
                            self->do_read_head();
                          });
}

void HttpConnection::do_read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(shared_.limits.head_bytes_max));
  parser_->body_limit(
      std::max(shared_.limits.body_bytes_max, shared_.router.largest_body_bytes_max()));
  is_head_ = false;
  keep_alive_ = false;
  arm(Phase::kHead, shared_.limits.head_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code ec, std::size_t bytes) { self->on_head(ec, bytes); });
}

void HttpConnection::on_head(error_code ec, std::size_t bytes) {
  if (closed_) return;
  if (ec) return on_read_error(ec);

  is_head_ = parser_->get().method() == http::verb::head;
  keep_alive_ = parser_->keep_alive();
  if (std::optional<Response> refusal = check_head(bytes))
    return do_write(closing(std::move(*refusal)));
  if (parser_->is_done()) return dispatch();
  if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) return do_continue();
  do_read_body();
}

std::optional<Response> HttpConnection::check_head(std::size_t bytes) const {
  // The parser applies its limit to the request line and to the fields, each.
  if (bytes > shared_.limits.head_bytes_max) return head_too_large(shared_.limits);
  const auto& head = parser_->get();
  // Chunk extensions and trailers have no limit in the parser, and a request with both lengths
  // is how requests are smuggled past a proxy.
  if (head.count(http::field::transfer_encoding) > 0) {
    return error_response(http::status::length_required, "length_required",
                          "send the body with Content-Length; Transfer-Encoding is not accepted");
  }
  if (parser_->content_length().value_or(0) > body_bytes_max()) {
    return body_too_large(body_bytes_max());
  }
  const std::size_t hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() >= 11)) {
    return error_response(http::status::bad_request, "bad_host",
                          "an HTTP/1.1 request has exactly one Host field");
  }
  if (!shared_.token.is_set() || trusted_) return check_where_from();
  return check_token();
}

/// Whoever shows the token may come from anywhere: no browser sends one by itself. The open routes
/// are for reading, and tell nothing that a foreign page should not know.
std::optional<Response> HttpConnection::check_token() const {
  const auto& head = parser_->get();
  const auto [first, last] = head.equal_range(http::field::authorization);
  const bool one = first != last && std::next(first) == last;
  if (one && shared_.token.admits(first->value())) return std::nullopt;
  if (shared_.router.is_open(head.method(), head.target())) return check_where_from();
  shared_.counters.unauthorized.add();
  const bool wrong = first != last;
  Response response = error_response(
      http::status::unauthorized, "unauthorized",
      wrong ? "this is not the token of this daemon"
            : "send the daemon's token (http.token_file): Authorization: Bearer TOKEN");
  response.fields.emplace_back(http::field::www_authenticate,
                               wrong ? R"(Bearer realm="pulsewheel", error="invalid_token")"
                                     : R"(Bearer realm="pulsewheel")");
  return response;
}

/// Without a token, nobody must use a browser on this host to speak for him.
std::optional<Response> HttpConnection::check_where_from() const {
  const auto& head = parser_->get();
  const std::size_t hosts = head.count(http::field::host);
  const bool changes = changes_something(head.method());
  if (((shared_.local_hosts_only && !trusted_) || changes) && hosts == 1 &&
      !is_local_host(head[http::field::host])) {
    return error_response(http::status::forbidden, "foreign_host",
                          changes ? "Host must be localhost or an address literal in a request "
                                    "that changes something"
                                  : "on a loopback address, Host must be localhost or an address "
                                    "literal");
  }
  if (changes && comes_from_foreign_page(head)) {
    return error_response(http::status::forbidden, "foreign_origin",
                          "a web page of another origin must not change anything here: Origin must "
                          "name the host and port of Host, or be left out");
  }
  return std::nullopt;
}

/// What the route allows; asked only once the request line is there.
std::size_t HttpConnection::body_bytes_max() const {
  const auto& head = parser_->get();
  return std::max(shared_.limits.body_bytes_max,
                  shared_.router.body_bytes_max(head.method(), head.target()));
}

void HttpConnection::do_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  arm(Phase::kWrite, shared_.limits.write_timeout);
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](error_code ec, std::size_t) {
                      if (self->closed_) return;
                      if (ec) return self->close();
                      self->do_read_body();
                    });
}

void HttpConnection::do_read_body() {
  arm(Phase::kBody, shared_.limits.body_timeout);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](error_code ec, std::size_t) { self->on_body(ec); });
}

void HttpConnection::on_body(error_code ec) {
  if (closed_) return;
  if (ec) return on_read_error(ec);
  dispatch();
}

void HttpConnection::on_read_error(error_code ec) {
  if (ec == asio::error::operation_aborted && timed_out_) {
    return do_write(closing(phase_ == Phase::kHead ? head_timeout(shared_.limits)
                                                   : body_timeout(shared_.limits)));
  }
  std::optional<Response> answer = answer_to(ec, shared_.limits, body_bytes_max());
  if (!answer) return close();
  do_write(closing(std::move(*answer)));
}

void HttpConnection::dispatch() {
  const auto& message = parser_->get();
  auto match = shared_.router.match(message.method(), message.target());
  if (auto* refusal = std::get_if<Response>(&match)) return do_write(std::move(*refusal));

  auto& [handler, options, query, params] = std::get<Router::Match>(match);
  const Request request{is_head_ ? http::verb::get : message.method(), query, message.body(),
                        std::move(params), &message.base()};

  answer_timeout_ = std::max(shared_.limits.answer_timeout, options->answer_timeout);
  arm(Phase::kAnswer, answer_timeout_);
  // Weak: whoever holds the responder may outlive this connection and the server.
  const Responder respond([weak = weak_from_this(), number = ++request_](Response response) {
    const auto self = weak.lock();
    if (!self) return;
    asio::dispatch(self->socket_.get_executor(),
                   [self, number, response = std::move(response)]() mutable {
                     self->on_answer(number, std::move(response));
                   });
  });
  try {
    (*handler)(request, respond);
  } catch (const std::exception& e) {
    respond(error_response(http::status::internal_server_error, "internal", e.what()));
  }
}

void HttpConnection::on_answer(std::uint64_t request, Response response) {
  if (closed_ || phase_ != Phase::kAnswer || request != request_) return;
  do_write(std::move(response));
}

void HttpConnection::do_write(Response response) {
  if (response.stream && !is_head_) return do_stream(std::move(response));
  keep_alive_ = keep_alive_ && !response.close;
  make_head(response);
  message_->body() = std::move(response.body);
  message_->prepare_payload();
  // It would be the length of what the client has already, or of a stream, which has none.
  if (message_->result() == http::status::not_modified || response.stream)
    message_->erase(http::field::content_length);

  arm(Phase::kWrite, shared_.limits.write_timeout);
  auto on_done = [self = shared_from_this()](error_code ec, std::size_t) { self->on_written(ec); };
  if (is_head_) return http::async_write_header(socket_, *serializer_, std::move(on_done));
  http::async_write(socket_, *serializer_, std::move(on_done));
}

/// Makes message_ and serializer_, but for the body and its length.
void HttpConnection::make_head(const Response& response) {
  count_answer(shared_.counters, response.status);
  serializer_.reset();
  Message& message = message_.emplace();
  const bool http_1_0 = parser_ && parser_->is_header_done() && parser_->get().version() == 10;
  message.version(http_1_0 ? 10 : 11);
  message.result(response.status);
  message.set(http::field::server, "pulsewheel/" + std::string(build_info().version));
  message.set(http::field::content_type, response.content_type);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.set("Content-Security-Policy", response.content_security_policy);
  message.set("Cross-Origin-Resource-Policy", "same-origin");
  message.set("Referrer-Policy", "no-referrer");
  for (const auto& [field, value] : response.fields)
    message.set(field, value);
  message.keep_alive(keep_alive_);
  serializer_.emplace(message);
}

void HttpConnection::on_written(error_code ec) {
  if (closed_) return;
  serializer_.reset();
  message_.reset();
  if (ec) return close();
  if (keep_alive_) return do_await_request();
  do_linger();
}

/// A body without a length: it ends with the connection.
void HttpConnection::do_stream(Response response) {
  if (!shared_.begin_stream(*this)) {
    Response refusal = error_response(
        http::status::service_unavailable, "too_many_streams",
        "this port serves " + std::to_string(shared_.limits.streams_max) + " streams at a time");
    refusal.fields.emplace_back(http::field::retry_after, "1");
    return do_write(std::move(refusal));
  }
  keep_alive_ = false;
  make_head(response);
  stream_ = std::move(response.stream);
  error_code ignored;
  socket_.set_option(asio::socket_base::send_buffer_size(kStreamSendBufferBytes), ignored);

  arm(Phase::kWrite, shared_.limits.write_timeout);
  http::async_write_header(socket_, *serializer_,
                           [self = shared_from_this()](error_code ec, std::size_t) {
                             if (self->closed_) return;
                             if (ec) return self->close();
                             self->serializer_.reset();
                             self->message_.reset();
                             self->parser_.reset();
                             self->do_discard();  // notices that the client leaves
                             self->do_stream_next();
                           });
}

void HttpConnection::do_stream_next() {
  piece_ = stream_->next([weak = weak_from_this()] {
    const auto self = weak.lock();
    // While something is being written the stream is asked again anyway.
    if (self && !self->closed_ && self->phase_ == Phase::kStreamIdle) self->do_stream_next();
  });
  if (piece_.bytes.empty()) return arm(Phase::kStreamIdle, shared_.limits.heartbeat_interval);
  do_stream_write();
}

void HttpConnection::do_stream_write() {
  arm(Phase::kStreamWrite, shared_.limits.stream_write_timeout);
  socket_.async_write_some(asio::buffer(piece_.bytes),
                           [self = shared_from_this()](error_code ec, std::size_t bytes) {
                             if (self->closed_) return;
                             if (ec) return self->close();
                             self->piece_.bytes.remove_prefix(bytes);
                             if (!self->piece_.bytes.empty()) return self->do_stream_write();
                             self->do_stream_next();
                           });
}

void HttpConnection::do_linger() {
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  arm(Phase::kLinger, shared_.limits.linger_timeout);
  do_discard();
}

void HttpConnection::do_discard() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kFirstReadBytes),
                          [self = shared_from_this()](error_code ec, std::size_t bytes) {
                            if (self->closed_) return;
                            self->discarded_bytes_ += bytes;
                            if (ec || self->discarded_bytes_ > kDiscardBytesMax) {
                              return self->close();
                            }
                            self->do_discard();
                          });
}

void HttpConnection::arm(Phase phase, std::chrono::milliseconds timeout) {
  phase_ = phase;
  timed_out_ = false;
  do_wait_deadline(timeout);
}

void HttpConnection::do_wait_deadline(std::chrono::milliseconds timeout) {
  deadline_.expires_after(timeout);
  deadline_.async_wait([self = shared_from_this()](error_code ec) {
    // Armed again in the meantime: this wait had already been queued as done.
    if (ec || self->closed_ || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->on_deadline();
  });
}

void HttpConnection::on_deadline() {
  switch (phase_) {
    case Phase::kHead:
    case Phase::kBody:
      timed_out_ = true;
      socket_.cancel();
      // Bytes whose arrival is queued already cannot be cancelled, and the read goes on behind
      // them: look again.
      return do_wait_deadline(kCancelAgainAfter);
    case Phase::kAnswer: {
      Response response = error_response(
          http::status::service_unavailable, "timeout",
          "the daemon had no answer after " + std::to_string(answer_timeout_.count()) + " ms");
      return do_write(closing(std::move(response)));
    }
    case Phase::kStreamIdle:
      piece_ = stream_->heartbeat();
      return do_stream_write();
    case Phase::kStreamWrite:
      shared_.counters.streams_stuck.add();
      return close();
    case Phase::kIdle:
    case Phase::kWrite:
    case Phase::kLinger:
      return close();
  }
}

}  // namespace pulsewheel

#include "daemon/admin/http_server.h"

#include <fcntl.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include "daemon/base/check.h"
#include "daemon/base/thread.h"

namespace pulsewheel {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Accepting fails for want of descriptors or memory: trying again at once would only burn CPU.
constexpr std::chrono::milliseconds kAcceptBackoffMin{100};
constexpr std::chrono::milliseconds kAcceptBackoffMax{1'000};

asio::ip::tcp::endpoint parse_endpoint(const std::string& address, std::uint16_t port) {
  error_code ec;
  const auto parsed = asio::ip::make_address(address, ec);
  if (ec) {
    throw std::invalid_argument("HTTP address '" + address +
                                "' is no IP address: give a literal such as 127.0.0.1 or ::1");
  }
  return {parsed, port};
}

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

// Asio opens and accepts without it.
void close_on_exec(int descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

}  // namespace

HttpServer::HttpServer(Options options, Router router)
    : limits_(options.limits),
      endpoint_(parse_endpoint(options.address, options.port)),
      router_(std::move(router)),
      shared_{router_, limits_, counters_, endpoint_.address().is_loopback(),
              [this](HttpConnection& connection) { on_ended(connection); }} {}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::start() {
  PULSEWHEEL_CHECK(!thread_.joinable());
  try {
    open();
  } catch (const boost::system::system_error& e) {
    error_code ignored;
    acceptor_.close(ignored);
    throw boost::system::system_error(e.code(), "cannot listen for HTTP on " + to_text(endpoint_));
  }
  port_ = acceptor_.local_endpoint().port();
  do_accept();
  thread_ = std::thread([this] { run(); });
}

void HttpServer::open() {
  acceptor_.open(endpoint_.protocol());
  close_on_exec(acceptor_.native_handle());
  acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(endpoint_);
  acceptor_.listen();
}

void HttpServer::stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_timer_.cancel();
    while (!open_.empty())
      open_.begin()->second.connection->close();
    // Not left to run dry: a source may still have callbacks on their way to this loop.
    io_.stop();
  });
  thread_.join();
}

void HttpServer::run() noexcept {
  set_thread_name("pw-http");
  block_all_signals_in_this_thread();
  io_.run();
}

void HttpServer::do_accept() {
  acceptor_.async_accept(
      [this](error_code ec, HttpConnection::Socket socket) { on_accept(ec, std::move(socket)); });
}

void HttpServer::on_accept(error_code ec, HttpConnection::Socket socket) {
  if (!acceptor_.is_open()) return;
  if (!ec) {
    accept_backoff_ = {};
    serve(std::move(socket));
    return do_accept();
  }
  counters_.accept_errors.add();
  accept_backoff_ = std::clamp(accept_backoff_ * 2, kAcceptBackoffMin, kAcceptBackoffMax);
  retry_timer_.expires_after(accept_backoff_);
  retry_timer_.async_wait([this](error_code cancelled) {
    if (!cancelled) do_accept();
  });
}

void HttpServer::serve(HttpConnection::Socket socket) {
  counters_.connections_accepted.add();
  const bool refused = open_.size() - refusals_ >= limits_.connections_max;
  if (refused) {
    counters_.connections_refused.add();
    if (refusals_ >= limits_.refusals_max) return;
    ++refusals_;
  }
  close_on_exec(socket.native_handle());
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);

  auto connection = std::make_shared<HttpConnection>(std::move(socket), shared_);
  open_.emplace(connection.get(), Open{connection, refused});
  counters_.connections.add(1);
  refused ? connection->refuse() : connection->start();
}

void HttpServer::on_ended(HttpConnection& connection) {
  const auto found = open_.find(&connection);
  PULSEWHEEL_CHECK(found != open_.end());
  if (found->second.refused) --refusals_;
  open_.erase(found);
  counters_.connections.add(-1);
}

}  // namespace pulsewheel

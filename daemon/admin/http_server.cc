#include "daemon/admin/http_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include "daemon/base/check.h"
#include "daemon/base/endpoint_text.h"
#include "daemon/base/thread.h"

namespace pulsewheel {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

asio::ip::tcp::endpoint parse_endpoint(const std::string& address, std::uint16_t port) {
  error_code ec;
  const auto parsed = asio::ip::make_address(address, ec);
  if (ec) {
    throw std::invalid_argument("HTTP address '" + address +
                                "' is no IP address: give a literal such as 127.0.0.1 or ::1");
  }
  return {parsed, port};
}

// Asio opens and accepts without it.
void close_on_exec(int descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

}  // namespace

HttpServer::HttpServer(Options options, Router router)
    : limits_(options.limits),
      endpoint_(parse_endpoint(options.address, options.port)),
      unix_path_(std::move(options.unix_socket)),
      unix_mode_(options.unix_socket_mode),
      router_(std::move(router)),
      shared_{router_,
              limits_,
              counters_,
              endpoint_.address().is_loopback(),
              std::move(options.token),
              [this](HttpConnection& connection) { return on_stream(connection); },
              [this](HttpConnection& connection) { on_ended(connection); }},
      tcp_(io_, counters_.accept_errors,
           [this](HttpConnection::Socket socket) {
             error_code ignored;
             socket.set_option(asio::ip::tcp::no_delay(true), ignored);
             serve(std::move(socket), false);
           }),
      unix_(io_, counters_.accept_errors,
            [this](HttpConnection::Socket socket) { serve(std::move(socket), true); }) {}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::start() {
  PULSEWHEEL_CHECK(!thread_.joinable());
  try {
    listen_on_tcp();
    if (!unix_path_.empty()) listen_on_unix_socket();
  } catch (...) {
    tcp_.close();
    unix_.close();
    unix_file_.reset();
    throw;
  }
  tcp_.start();
  if (unix_file_) unix_.start();
  thread_ = std::thread([this] { run(); });
}

void HttpServer::listen_on_tcp() {
  auto& socket = tcp_.socket();
  try {
    socket.open(endpoint_.protocol());
    close_on_exec(socket.native_handle());
    socket.set_option(asio::socket_base::reuse_address(true));
    socket.bind(endpoint_);
    socket.listen();
  } catch (const boost::system::system_error& e) {
    // As the standard's error: Boost's has a place in Boost's headers in its text.
    throw std::system_error(e.code(), "cannot listen for HTTP on " + to_text(endpoint_));
  }
  Tcp::endpoint bound;
  const auto generic = socket.local_endpoint();
  std::memcpy(bound.data(), generic.data(), generic.size());
  port_ = bound.port();
}

void HttpServer::listen_on_unix_socket() {
  unix_file_.emplace(unix_path_, unix_mode_);
  unix_.socket().assign(HttpAcceptor::Protocol(AF_UNIX, 0), unix_file_->release_descriptor());
  unix_.socket().listen();
}

void HttpServer::stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    tcp_.close();
    unix_.close();
    while (!open_.empty())
      open_.begin()->second.connection->close();
    // Not left to run dry: a source may still have callbacks on their way to this loop.
    io_.stop();
  });
  thread_.join();
  unix_file_.reset();
}

void HttpServer::set_token(BearerToken token) {
  asio::post(io_, [this, token = std::move(token)]() mutable { shared_.token = std::move(token); });
}

void HttpServer::run() noexcept {
  set_thread_name("pw-http");
  block_all_signals_in_this_thread();
  io_.run();
}

void HttpServer::serve(HttpConnection::Socket socket, bool trusted) {
  counters_.connections_accepted.add();
  const bool refused = served(trusted) >= limits_.connections_max;
  if (refused) {
    counters_.connections_refused.add();
    if (refusals_ >= limits_.refusals_max) return;
  }
  ++(refused ? refusals_ : served(trusted));
  close_on_exec(socket.native_handle());

  auto connection = std::make_shared<HttpConnection>(std::move(socket), shared_, trusted);
  open_.emplace(connection.get(),
                Open{connection, refused ? Kind::kRefused : Kind::kServed, trusted});
  counters_.connections.add(1);
  refused ? connection->refuse() : connection->start();
}

bool HttpServer::on_stream(HttpConnection& connection) {
  if (streams_ >= limits_.streams_max) {
    counters_.streams_refused.add();
    return false;
  }
  const auto found = open_.find(&connection);
  PULSEWHEEL_CHECK(found != open_.end() && found->second.kind == Kind::kServed);
  found->second.kind = Kind::kStream;
  --served(found->second.trusted);
  ++streams_;
  counters_.streams.add(1);
  counters_.streams_begun.add();
  return true;
}

void HttpServer::on_ended(HttpConnection& connection) {
  const auto found = open_.find(&connection);
  PULSEWHEEL_CHECK(found != open_.end());
  if (found->second.kind == Kind::kServed) --served(found->second.trusted);
  if (found->second.kind == Kind::kRefused) --refusals_;
  if (found->second.kind == Kind::kStream) {
    --streams_;
    counters_.streams.add(-1);
  }
  open_.erase(found);
  counters_.connections.add(-1);
}

}  // namespace pulsewheel

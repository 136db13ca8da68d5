#include "daemon/admin/http_acceptor.h"

#include <algorithm>
#include <utility>

namespace pulsewheel {

using boost::system::error_code;

namespace {

// Accepting fails for want of descriptors or memory: trying again at once would only burn CPU.
constexpr std::chrono::milliseconds kBackoffMin{100};
constexpr std::chrono::milliseconds kBackoffMax{1'000};

}  // namespace

HttpAcceptor::HttpAcceptor(boost::asio::io_context& io, Counter& errors, OnConnection on_connection)
    : socket_(io), retry_timer_(io), errors_(errors), on_connection_(std::move(on_connection)) {}

void HttpAcceptor::start() {
  do_accept();
}

void HttpAcceptor::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
  retry_timer_.cancel();
}

void HttpAcceptor::do_accept() {
  socket_.async_accept([this](error_code ec, HttpConnection::Socket accepted) {
    on_accept(ec, std::move(accepted));
  });
}

void HttpAcceptor::on_accept(error_code ec, HttpConnection::Socket accepted) {
  if (!socket_.is_open()) return;
  if (!ec) {
    backoff_ = {};
    on_connection_(std::move(accepted));
    return do_accept();
  }
  errors_.add();
  backoff_ = std::clamp(backoff_ * 2, kBackoffMin, kBackoffMax);
  retry_timer_.expires_after(backoff_);
  retry_timer_.async_wait([this](error_code cancelled) {
    if (!cancelled) do_accept();
  });
}

}  // namespace pulsewheel

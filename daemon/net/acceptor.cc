#include "daemon/net/acceptor.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/detail/socket_option.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <new>
#include <utility>

namespace pulsewheel {
namespace {

using ReusePort = boost::asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
template <int kName>
using TcpInteger = boost::asio::detail::socket_option::integer<IPPROTO_TCP, kName>;

/// For what the kernel takes in whole units: never less than asked for, and never 0.
template <class Unit>
int whole(Duration d) noexcept {
  return static_cast<int>(std::max<std::int64_t>(1, std::chrono::ceil<Unit>(d).count()));
}

/// Sets on a listener what its connections inherit.
template <class Socket>
void apply(const TcpOptions& tcp, Socket& socket) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  socket.set_option(TcpInteger<TCP_USER_TIMEOUT>(
      tcp.user_timeout == Duration{0} ? 0 : whole<milliseconds>(tcp.user_timeout)));
  if (tcp.keepalive_idle == Duration{0}) return;
  // Beside a user timeout the kernel ignores the number of probes, and the first unanswered one
  // past that timeout is the last: so they are spread over what is left of it.
  const Duration window = tcp.user_timeout == Duration{0} ? tcp.keepalive_idle / 2
                                                          : tcp.user_timeout - tcp.keepalive_idle;
  socket.set_option(boost::asio::socket_base::keep_alive(true));
  socket.set_option(TcpInteger<TCP_KEEPIDLE>(whole<seconds>(tcp.keepalive_idle)));
  socket.set_option(
      TcpInteger<TCP_KEEPINTVL>(whole<seconds>(window / TcpOptions::kKeepaliveProbes)));
  socket.set_option(TcpInteger<TCP_KEEPCNT>(TcpOptions::kKeepaliveProbes));
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

void AcceptCounters::add(int error) noexcept {
  const auto known = std::find_if(errors.begin(), errors.end() - 1,
                                  [error](const ByErrno& entry) { return entry.error == error; });
  known->count.add();
}

Acceptor::Acceptor(boost::asio::io_context& io, std::size_t burst, AcceptSink& sink,
                   AcceptCounters& counters)
    : io_(io), acceptor_(io), timer_(io), burst_(burst), sink_(sink), counters_(counters) {}

void Acceptor::bind(const boost::asio::ip::tcp::endpoint& endpoint, const TcpOptions& tcp) {
  is_v6_ = endpoint.address().is_v6();
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
  acceptor_.set_option(ReusePort(true));
  acceptor_.set_option(boost::asio::ip::tcp::no_delay(true));
  apply(tcp, acceptor_);
  if (is_v6_) acceptor_.set_option(boost::asio::ip::v6_only(true));
  acceptor_.native_non_blocking(true);
  acceptor_.bind(endpoint);
}

std::uint16_t Acceptor::port() const {
  return acceptor_.local_endpoint().port();
}

void Acceptor::listen(int backlog) {
  acceptor_.listen(backlog);
}

void Acceptor::start() {
  do_wait();
}

void Acceptor::close() noexcept {
  boost::system::error_code ignored;  // it is closed whatever is said
  acceptor_.close(ignored);
  timer_.cancel();
}

void Acceptor::do_wait() {
  acceptor_.async_wait(boost::asio::socket_base::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error || !acceptor_.is_open()) return;
                         accept_burst();
                         if (!paused_) do_wait();
                       });
}

bool Acceptor::accept_burst() {
  if (!acceptor_.is_open() || paused_) return true;
  for (std::size_t i = 0; i < burst_; ++i) {
    const int fd =
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int error = fd >= 0 ? hand_on(fd) : errno;
    if (error == EAGAIN) return true;
    if (is_shortage(error)) {
      pause(error);
      return true;
    }
    // Any other error is that of one connection, which failed before it was accepted.
    if (error != 0 && error != EINTR) counters_.add(error);
  }
  return false;
}

int Acceptor::hand_on(int fd) {
  ShardSocket socket(io_);
  boost::system::error_code error;
  socket.assign(is_v6_ ? boost::asio::ip::tcp::v6() : boost::asio::ip::tcp::v4(), fd, error);
  if (error) {
    ::close(fd);
    return error.value();
  }
  try {
    sink_.on_accepted(std::move(socket));
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  pause_ = kPauseMin;
  return 0;
}

void Acceptor::pause(int error) {
  counters_.add(error);
  paused_ = true;
  sink_.on_accept_paused(error, pause_);
  timer_.expires_after(pause_);
  pause_ = std::min(pause_ * 2, kPauseMax);
  timer_.async_wait([this](const boost::system::error_code& ended) {
    if (ended || !acceptor_.is_open()) return;
    paused_ = false;
    do_wait();
  });
}

}  // namespace pulsewheel

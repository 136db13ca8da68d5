#include "daemon/net/acceptor.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/detail/socket_option.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <new>
#include <utility>

#include "proto/frame.h"

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
  // A socket that systemd keeps may have it from an earlier run.
  socket.set_option(boost::asio::socket_base::keep_alive(tcp.keepalive_idle != Duration{0}));
  if (tcp.keepalive_idle == Duration{0}) return;
  // Beside a user timeout the kernel ignores the number of probes, and the first unanswered one
  // past that timeout is the last: so they are spread over what is left of it.
  const Duration window = tcp.user_timeout == Duration{0} ? tcp.keepalive_idle / 2
                                                          : tcp.user_timeout - tcp.keepalive_idle;
  socket.set_option(TcpInteger<TCP_KEEPIDLE>(whole<seconds>(tcp.keepalive_idle)));
  socket.set_option(
      TcpInteger<TCP_KEEPINTVL>(whole<seconds>(window / TcpOptions::kKeepaliveProbes)));
  socket.set_option(TcpInteger<TCP_KEEPCNT>(TcpOptions::kKeepaliveProbes));
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// Errors of one connection, which failed before it was accepted: Linux hands them on by accept().
/// The next one may be sound.
bool is_of_one_connection(int error) noexcept {
  switch (error) {
    case ECONNABORTED:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EPERM:  // a firewall's
    case EPROTO:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

void AcceptCounters::add(int error) noexcept {
  const auto known = std::find_if(errors.begin(), errors.end() - 1,
                                  [error](const ByErrno& entry) { return entry.error == error; });
  known->count.add();
}

void SpareDescriptor::take() noexcept {
  if (fd_ < 0) fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void SpareDescriptor::release() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

template <void (Acceptor::*kOnEvent)(const boost::system::error_code&)>
struct Acceptor::Handler {
  Acceptor* acceptor;
  OperationMemory* memory;  // Asio asks for it a handler that it has moved from, too
  std::shared_ptr<Pending> keeps_memory;

  using allocator_type = HandlerAllocator<void, OperationMemory>;
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(*memory); }
  void operator()(const boost::system::error_code& error) { (acceptor->*kOnEvent)(error); }
};

Acceptor::Acceptor(boost::asio::io_context& io, std::size_t burst, AcceptSink& sink,
                   AcceptCounters& counters)
    : io_(io),
      acceptor_(io),
      timer_(io),
      pending_(std::make_shared<Pending>()),
      burst_(burst),
      sink_(sink),
      counters_(counters) {}

void Acceptor::bind(const boost::asio::ip::tcp::endpoint& endpoint, const TcpOptions& tcp) {
  spare_.take();
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

void Acceptor::adopt(int listening_descriptor, bool shared, const TcpOptions& tcp) {
  shared_ = shared;
  spare_.take();
  int domain = 0;
  socklen_t size = sizeof(domain);
  const int duplicate = ::fcntl(listening_descriptor, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0 || ::getsockopt(duplicate, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) {
    const boost::system::error_code error(errno, boost::system::system_category());
    if (duplicate >= 0) ::close(duplicate);
    throw boost::system::system_error(error);
  }
  is_v6_ = domain == AF_INET6;
  boost::system::error_code error;
  acceptor_.assign(is_v6_ ? boost::asio::ip::tcp::v6() : boost::asio::ip::tcp::v4(), duplicate,
                   error);
  if (error) {
    ::close(duplicate);
    throw boost::system::system_error(error);
  }
  acceptor_.set_option(boost::asio::ip::tcp::no_delay(true));
  apply(tcp, acceptor_);
  acceptor_.native_non_blocking(true);
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
  spare_.release();
}

void Acceptor::do_wait() {
  acceptor_.async_wait(boost::asio::socket_base::wait_read,
                       Handler<&Acceptor::on_connection>{this, &pending_->connection, pending_});
}

void Acceptor::on_connection(const boost::system::error_code& error) {
  if (error || !acceptor_.is_open()) return;
  accept_burst();
  if (!paused_) do_wait();
}

int Acceptor::accept() noexcept {
  return ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

bool Acceptor::accept_burst() {
  if (!acceptor_.is_open() || paused_) return true;
  for (std::size_t i = 0; i < burst_; ++i) {
    // Where there is no memory for a rest, it is taken in and told that the node is busy.
    if (shared_ && sink_.leaves_to_others() && rest(kPauseMin)) return true;
    const int fd = accept();
    const int error = fd >= 0 ? hand_on(fd) : errno;
    if (error == EAGAIN) return true;
    if (error == 0 || error == EINTR) continue;
    counters_.add(error);
    if (is_of_one_connection(error)) continue;
    if (is_shortage(error)) turn_waiting_away();
    pause(error);
    return true;
  }
  return false;
}

int Acceptor::hand_on(int fd) {
  ShardSocket socket(io_);
  try {
    boost::system::error_code error;
    socket.assign(is_v6_ ? boost::asio::ip::tcp::v6() : boost::asio::ip::tcp::v4(), fd, error);
    if (error) {
      ::close(fd);
      return error.value();
    }
  } catch (const std::bad_alloc&) {
    ::close(fd);
    return ENOMEM;
  }
  try {
    sink_.on_accepted(std::move(socket));
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  pause_ = kPauseMin;
  return 0;
}

/// Where another thread takes the spare's place first, nobody is turned away this time.
void Acceptor::turn_waiting_away() {
  spare_.release();
  for (std::size_t i = 0; i < burst_ * kTurnedAwayBursts; ++i) {
    const int fd = accept();
    if (fd < 0) break;
    turn_away(fd);
    counters_.turned_away.add();
  }
  spare_.take();
}

void Acceptor::turn_away(int fd) {
  std::array<std::byte, proto::kGoawayFrameSize> goaway;
  const std::size_t size = proto::encode_goaway(
      {.reason = proto::GoawayReason::kBusy, .retry_after_ms = sink_.retry_after_ms()}, goaway);
  ::send(fd, goaway.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(fd, SHUT_WR);
  // Closed with its LOGIN unread, the connection would be reset, and the GOAWAY be lost with it.
  std::array<std::byte, 1024> ignored;
  ::recv(fd, ignored.data(), ignored.size(), MSG_DONTWAIT);
  ::close(fd);
}

void Acceptor::pause(int error) {
  sink_.on_accept_paused(error, pause_);
  if (rest(pause_)) pause_ = std::min(pause_ * 2, kPauseMax);
}

bool Acceptor::rest(Duration length) {
  timer_.expires_after(length);
  try {
    timer_.async_wait(Handler<&Acceptor::on_pause_end>{this, &pending_->pause_end, pending_});
  } catch (const std::bad_alloc&) {
    return false;  // not even a timer: without a pause the next event tries again
  }
  paused_ = true;
  return true;
}

void Acceptor::on_pause_end(const boost::system::error_code& error) {
  if (error || !acceptor_.is_open()) return;
  spare_.take();
  paused_ = false;
  do_wait();
}

}  // namespace pulsewheel

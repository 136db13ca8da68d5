#include "tests/bench/bare_epoll_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace pulsewheel::bench {
namespace {

/// As many as Asio asks for.
constexpr int kEventsPerWait = 128;
/// Much more than a keepalive, as any server has it.
constexpr std::size_t kReadBytes = 512;

void accept_all(int listener, int epoll) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    epoll_event wanted{EPOLLIN, {.fd = fd}};
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted);
  }
}

void echo(int fd) {
  std::array<std::byte, kReadBytes> bytes;
  const ssize_t size = ::recv(fd, bytes.data(), bytes.size(), 0);
  if (size > 0) {
    static_cast<void>(::send(fd, bytes.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL));
  } else if (size == 0 || errno != EAGAIN) {
    ::close(fd);
  }
}

}  // namespace

void run_bare_epoll_server(int listener) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN, {.fd = listener}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &wanted);
  std::array<epoll_event, kEventsPerWait> events;
  for (;;) {
    const int count = ::epoll_wait(epoll, events.data(), kEventsPerWait, -1);
    if (count < 0 && errno != EINTR) ::_exit(1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      fd == listener ? accept_all(listener, epoll) : echo(fd);
    }
  }
}

}  // namespace pulsewheel::bench

#include "tests/bench/keepalive_load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace pulsewheel::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepliesPerWait = 512;
constexpr int kSilenceMaxMs = 10'000;

}  // namespace

KeepaliveLoad::KeepaliveLoad(std::uint16_t port, std::size_t clients, Dialect dialect)
    : dialect_(std::move(dialect)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), received_(clients) {
  for (std::size_t i = 0; i < clients; ++i)
    connect_client(port);
  if (!dialect_.hello) return;
  for (std::size_t i = 0; i < clients; ++i)
    send_to(i, dialect_.hello(i));
  expect_of_each(dialect_.welcome_size);
}

KeepaliveLoad::~KeepaliveLoad() {
  for (const int fd : sockets_)
    ::close(fd);
  ::close(epoll_);
}

void KeepaliveLoad::connect_client(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::runtime_error("out of descriptors");
  sockets_.push_back(fd);
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0)
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  epoll_event wanted{EPOLLIN, {.u64 = sockets_.size() - 1}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &wanted);
}

void KeepaliveLoad::send_to(std::size_t client, const std::string& bytes) const {
  const ssize_t sent = ::send(sockets_[client], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) throw std::runtime_error("a client cannot send");
}

template <class OnBytes>
void KeepaliveLoad::poll(OnBytes on_bytes) {
  std::array<epoll_event, kRepliesPerWait> events;
  std::array<std::byte, 512> bytes;
  const int count = ::epoll_wait(epoll_, events.data(), kRepliesPerWait, kSilenceMaxMs);
  if (count <= 0) throw std::runtime_error("the server has stopped answering");
  for (int i = 0; i < count; ++i) {
    const auto client = static_cast<std::size_t>(events[static_cast<std::size_t>(i)].data.u64);
    const ssize_t size = ::recv(sockets_[client], bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size <= 0) throw std::runtime_error("the server has ended a connection");
    on_bytes(client, static_cast<std::size_t>(size));
  }
}

void KeepaliveLoad::expect_of_each(std::size_t size) {
  std::fill(received_.begin(), received_.end(), 0);
  for (std::size_t complete = 0; complete < received_.size();) {
    poll([&](std::size_t client, std::size_t count) {
      received_[client] += count;
      if (received_[client] == size) ++complete;
    });
  }
}

std::uint64_t KeepaliveLoad::run(std::chrono::milliseconds duration) {
  std::fill(received_.begin(), received_.end(), 0);
  for (std::size_t i = 0; i < sockets_.size(); ++i)
    send_to(i, dialect_.ping);
  std::uint64_t pongs = 0;
  const auto end = Clock::now() + duration;
  while (Clock::now() < end) {
    poll([&](std::size_t client, std::size_t count) {
      received_[client] += count;
      if (received_[client] < dialect_.pong_size) return;
      received_[client] -= dialect_.pong_size;
      ++pongs;
      send_to(client, dialect_.ping);
    });
  }
  std::size_t on_their_way = sockets_.size();
  while (on_their_way > 0) {
    poll([&](std::size_t client, std::size_t count) {
      received_[client] += count;
      if (received_[client] == dialect_.pong_size) --on_their_way;
    });
  }
  return pongs + sockets_.size();
}

}  // namespace pulsewheel::bench

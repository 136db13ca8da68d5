#include "tests/support/notify_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace pulsewheel::test {

NotifySocket::NotifySocket() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("cannot bind " + path());
  }
}

NotifySocket::~NotifySocket() {
  ::close(fd_);
}

std::optional<NotifySocket::Message> NotifySocket::next(std::chrono::milliseconds limit) const {
  pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(limit.count())) != 1) return std::nullopt;
  std::array<char, 4096> buffer;
  const auto size = ::recv(fd_, buffer.data(), buffer.size(), 0);
  if (size < 0) throw std::runtime_error(std::strerror(errno));
  Message message;
  for (const std::string& line : split_lines({buffer.data(), static_cast<std::size_t>(size)})) {
    const auto equals = line.find('=');
    message[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return message;
}

NotifySocket::Message NotifySocket::expect(const std::string& key) const {
  while (const std::optional<Message> message = next()) {
    if (message->contains(key)) return *message;
  }
  throw std::runtime_error("nobody said " + key);
}

}  // namespace pulsewheel::test

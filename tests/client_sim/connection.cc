#include "tests/client_sim/connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/client_sim/options.h"

namespace pulsewheel::sim {
namespace {

constexpr std::uint32_t kFirstSource = 0x7f000101;  // 127.0.1.1
constexpr std::uint32_t kSourcesPerNet = 254;       // 127.0.1.1 to 127.0.1.254, then 127.0.2.1

void set(int descriptor, int level, int option, int value) noexcept {
  ::setsockopt(descriptor, level, option, &value, sizeof(value));
}

bool is_loopback(const Endpoint& target) noexcept {
  if (target.address.ss_family != AF_INET) return false;
  sockaddr_in address;
  std::memcpy(&address, &target.address, sizeof(address));
  return (ntohl(address.sin_addr.s_addr) >> 24) == 127;
}

bool bind_source(int descriptor, std::uint32_t number) noexcept {
  // Without this the port is chosen at bind(), when it must be free for every target.
  set(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  const std::uint32_t group = number / kConnectionsPerSource;
  sockaddr_in source{};
  source.sin_family = AF_INET;
  source.sin_addr.s_addr =
      htonl(kFirstSource + (group / kSourcesPerNet << 8) + group % kSourcesPerNet);
  return ::bind(descriptor, reinterpret_cast<const sockaddr*>(&source), sizeof(source)) == 0;
}

}  // namespace

Endpoint resolve(const std::string& host_port) {
  const std::size_t colon = host_port.rfind(':');
  std::string host = host_port.substr(0, colon == std::string::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool ambiguous = !bracketed && host.find(':') != std::string::npos;
  if (host.empty() || ambiguous || colon + 1 == host_port.size()) {
    throw UsageError("\"" + host_port + "\": write HOST:PORT or [IPV6]:PORT");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), host_port.c_str() + colon + 1, &hints, &found);
  if (failure != 0) throw Unavailable(host_port + ": " + ::gai_strerror(failure));
  Endpoint endpoint;
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  endpoint.size = found->ai_addrlen;
  endpoint.text = host_port;
  ::freeaddrinfo(found);
  return endpoint;
}

int open_connection(const Endpoint& target, std::uint32_t number) noexcept {
  const int descriptor =
      ::socket(target.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0) return -errno;
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  const bool bound = !is_loopback(target) || bind_source(descriptor, number);
  if (bound && (::connect(descriptor, target.get(), target.size) == 0 || errno == EINPROGRESS)) {
    return descriptor;
  }
  const int failure = errno;
  ::close(descriptor);
  return -failure;
}

void close_connection(int descriptor, bool abruptly) noexcept {
  if (abruptly) {
    const linger reset{1, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  ::close(descriptor);
}

}  // namespace pulsewheel::sim

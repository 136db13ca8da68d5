#include "tests/unit/admin/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

namespace pulsewheel {

namespace http = boost::beast::http;

namespace {

constexpr int kPatienceMs = 20'000;

void wait_for(int fd, short events) {
  pollfd waiting{fd, events, 0};
  if (::poll(&waiting, 1, kPatienceMs) != 1) throw std::runtime_error("the server kept us waiting");
}

}  // namespace

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer_bytes != 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd_);
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  }
}

RawClient::RawClient(const std::string& path)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd_);
    throw std::runtime_error("cannot connect to " + path);
  }
}

RawClient::~RawClient() {
  ::close(fd_);
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    wait_for(fd_, POLLOUT);
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) throw std::runtime_error("the server has closed the connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void RawClient::finish_sending() {
  ::shutdown(fd_, SHUT_WR);
}

RawClient::Answer RawClient::read_answer(bool to_head) {
  http::response_parser<http::string_body> parser;
  parser.skip(to_head);
  parser.eager(true);
  parser.body_limit(boost::none);
  while (!parser.is_done()) {
    boost::system::error_code ec;
    const std::size_t used = parser.put(boost::asio::buffer(unread_), ec);
    unread_.erase(0, used);
    if (ec && ec != http::error::need_more) throw std::runtime_error(ec.message());
    if (!parser.is_done() && !fill()) throw std::runtime_error("the connection ended early");
  }
  return parser.release();
}

std::string RawClient::read_exactly(std::size_t size) {
  while (unread_.size() < size) {
    if (!fill()) throw std::runtime_error("the connection ended early");
  }
  std::string out = unread_.substr(0, size);
  unread_.erase(0, size);
  return out;
}

std::string RawClient::read_to_end() {
  while (fill()) {
  }
  return std::exchange(unread_, {});
}

bool RawClient::fill() {
  wait_for(fd_, POLLIN);
  char bytes[16384];
  const ssize_t received = ::recv(fd_, bytes, sizeof bytes, 0);
  if (received < 0 && errno != ECONNRESET) throw std::runtime_error("recv failed");
  if (received <= 0) return false;
  unread_.append(bytes, static_cast<std::size_t>(received));
  return true;
}

std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

std::string post(std::string_view target, std::string_view fields) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: localhost:7601\r\n" +
         std::string(fields) + "Content-Length: 0\r\n\r\n";
}

std::string post_with_body(std::string_view target, std::string_view body) {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: localhost:7601\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

}  // namespace pulsewheel

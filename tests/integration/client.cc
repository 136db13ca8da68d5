#include "tests/integration/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace pulsewheel::test {
namespace {

constexpr int kReadLimitMs = 20'000;

}  // namespace

Client::Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd_);
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  }
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Client::Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), sizeof(address.sun_path) - 1);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd_);
    throw std::runtime_error("cannot connect to " + path);
  }
}

Client::~Client() {
  close();
}

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), input_(std::move(other.input_)) {}

void Client::finish_sending() {
  ::shutdown(fd_, SHUT_WR);
}

void Client::close() {
  if (fd_ != -1) ::close(std::exchange(fd_, -1));
}

void Client::reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

void Client::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // closed by the daemon: what it said before is still to be read
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Client::send_text(std::string_view bytes) {
  send(std::as_bytes(std::span(bytes)));
}

void Client::send_login(std::string_view uid, std::string_view device, std::uint32_t interval_ms) {
  std::array<std::byte, proto::kLoginFrameSizeMax> frame;
  proto::Login login;
  login.uid = uid;
  login.device = device;
  login.interval_ms = interval_ms;
  send(std::span(frame).first(proto::encode_login(login, frame)));
}

proto::LoginAck Client::login(std::string_view uid, std::string_view device,
                              std::uint32_t interval_ms) {
  send_login(uid, device, interval_ms);
  proto::LoginAck ack;
  const Received frame = expect(proto::FrameType::kLoginAck);
  if (proto::decode_login_ack(frame.payload, ack) != proto::ErrorCode::kNone) {
    throw std::runtime_error("a malformed LOGIN_ACK");
  }
  return ack;
}

void Client::send_keepalive(std::uint8_t flags) {
  send(proto::encode_keepalive(flags));
}

void Client::send_message(std::uint64_t id, std::string_view body) {
  std::vector<std::byte> frame(proto::kHeaderSize + proto::kMessageIdSize + body.size());
  const std::size_t size =
      proto::encode_message({.id = id, .body = std::as_bytes(std::span(body))}, frame);
  send(std::span(frame).first(size));
}

void Client::send_logout() {
  send(proto::kLogout);
}

bool Client::fill() {
  pollfd readable{fd_, POLLIN, 0};
  if (::poll(&readable, 1, kReadLimitMs) <= 0) throw std::runtime_error("the daemon says nothing");
  std::array<std::byte, 4096> bytes;
  const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (n <= 0) return false;
  input_.insert(input_.end(), bytes.begin(), bytes.begin() + n);
  return true;
}

std::optional<Received> Client::read_frame() {
  for (;;) {
    const auto cut = proto::next_server_frame(input_);
    if (cut.status == proto::NextFrame::Status::kError) {
      throw std::runtime_error("the daemon sent what is no frame");
    }
    if (cut.status == proto::NextFrame::Status::kFrame) {
      Received frame{cut.frame.header.type, {cut.frame.payload.begin(), cut.frame.payload.end()}};
      input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(cut.size));
      return frame;
    }
    if (!fill()) return std::nullopt;
  }
}

Received Client::expect(proto::FrameType type) {
  auto frame = read_frame();
  if (!frame) throw std::runtime_error("no frame, expected " + std::string(to_string(type)));
  if (frame->type != type) {
    throw std::runtime_error("got " + std::string(to_string(frame->type)) + ", expected " +
                             std::string(to_string(type)));
  }
  return *std::move(frame);
}

proto::ErrorCode Client::expect_error() {
  proto::Error error;
  const Received frame = expect(proto::FrameType::kError);
  if (proto::decode_error(frame.payload, error) != proto::ErrorCode::kNone || !at_end()) {
    throw std::runtime_error("an ERROR that is malformed or not the last frame");
  }
  return error.code;
}

proto::Goaway Client::expect_goaway() {
  proto::Goaway goaway;
  const Received frame = expect(proto::FrameType::kGoaway);
  if (proto::decode_goaway(frame.payload, goaway) != proto::ErrorCode::kNone || !at_end()) {
    throw std::runtime_error("a GOAWAY that is malformed or not the last frame");
  }
  return goaway;
}

bool Client::at_end() {
  return input_.empty() && !fill() && input_.empty();
}

std::string Client::read_to_end() {
  while (fill()) {
  }
  return {reinterpret_cast<const char*>(input_.data()), input_.size()};
}

}  // namespace pulsewheel::test

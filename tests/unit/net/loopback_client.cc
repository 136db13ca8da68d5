#include "tests/unit/net/loopback_client.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

/// Throws what errno says when `result` is negative.
int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

/// Leaves the option alone where `value` is 0.
void set_option(int fd, int level, int option, int value) {
  if (value != 0) checked(setsockopt(fd, level, option, &value, sizeof value), "setsockopt");
}

/// Each send is a segment, whatever is on its way.
void set_no_delay(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

LoopbackClient::LoopbackClient(FakeShard& shard, const ConnectOptions& options) : shard_(shard) {
  const int listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  // Inherited by the session's socket.
  set_option(listener, SOL_SOCKET, SO_SNDBUF, options.session_send_buffer);
  set_option(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, options.session_user_timeout_ms);
  set_no_delay(listener);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  checked(bind(listener, raw, size), "bind");
  checked(listen(listener, 1), "listen");
  checked(getsockname(listener, raw, &size), "getsockname");

  fd_ = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  set_option(fd_, SOL_SOCKET, SO_RCVBUF, options.client_receive_buffer);
  set_no_delay(fd_);
  checked(connect(fd_, raw, size), "connect");
  const int accepted =
      checked(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC), "accept");
  close(listener);
  ref_ = shard_.adopt(accepted, options.accepted);
}

LoopbackClient::~LoopbackClient() {
  if (fd_ >= 0) close(fd_);
}

void LoopbackClient::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t sent = send_some(bytes);
    bytes = bytes.subspan(sent);
    if (sent == 0) shard_.run_ready();
  }
}

std::size_t LoopbackClient::send_some(std::span<const std::byte> bytes) {
  const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno == EAGAIN) return 0;
  return static_cast<std::size_t>(checked(static_cast<int>(n), "send"));
}

void LoopbackClient::deliver(std::span<const std::byte> bytes) {
  const std::uint64_t all = shard_.counters.bytes_received.value() + bytes.size();
  send(bytes);
  shard_.run_until([&] { return shard_.counters.bytes_received.value() >= all; });
}

void LoopbackClient::wait_until_arrived() const {
  const MonoTime give_up = MonoClock::now() + kPatience;
  int unacknowledged = 0;
  do {
    checked(ioctl(fd_, SIOCOUTQ, &unacknowledged), "ioctl");
    if (MonoClock::now() > give_up) throw std::runtime_error("sent, and never arrived");
  } while (unacknowledged != 0);
}

bool LoopbackClient::fill() {
  std::array<std::byte, 4096> bytes;
  const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return true;
  was_reset_ = n < 0 && errno == ECONNRESET;
  if (was_reset_) return false;
  checked(static_cast<int>(n), "recv");
  unread_.insert(unread_.end(), bytes.begin(), bytes.begin() + n);
  return n != 0;
}

void LoopbackClient::read_ahead() {
  for (std::size_t before = unread_.size() + 1; before != unread_.size();) {
    before = unread_.size();
    if (!fill()) throw std::runtime_error("the connection ended early");
  }
}

Bytes LoopbackClient::take(std::size_t size) {
  shard_.run_until([&] {
    if (unread_.size() >= size) return true;
    if (!fill() && unread_.size() < size) throw std::runtime_error("the connection ended early");
    return unread_.size() >= size;
  });
  const auto end = unread_.begin() + static_cast<std::ptrdiff_t>(size);
  Bytes taken(unread_.begin(), end);
  unread_.erase(unread_.begin(), end);
  return taken;
}

std::string LoopbackClient::read(std::size_t size) {
  return proto::to_hex(take(size));
}

LoopbackClient::ReadFrame LoopbackClient::read_frame() {
  const proto::Header header = proto::read_header(take(proto::kHeaderSize).data());
  return {header.type, take(header.payload_size)};
}

proto::ErrorCode LoopbackClient::read_error() {
  const ReadFrame frame = read_frame();
  proto::Error error;
  if (frame.type != proto::FrameType::kError ||
      proto::decode_error(frame.payload, error) != proto::ErrorCode::kNone) {
    throw std::runtime_error("not an ERROR: " + std::string(to_string(frame.type)));
  }
  return error.code;
}

proto::Goaway LoopbackClient::read_goaway() {
  const ReadFrame frame = read_frame();
  proto::Goaway goaway;
  if (frame.type != proto::FrameType::kGoaway ||
      proto::decode_goaway(frame.payload, goaway) != proto::ErrorCode::kNone) {
    throw std::runtime_error("not a GOAWAY: " + std::string(to_string(frame.type)));
  }
  return goaway;
}

LoopbackClient::End LoopbackClient::read_to_end() {
  shard_.run_until([this] {
    for (std::size_t before = unread_.size(); fill(); before = unread_.size()) {
      if (unread_.size() == before) return false;
    }
    return true;
  });
  return {std::exchange(unread_, {}), was_reset_};
}

std::string LoopbackClient::read_to_fin() {
  const End end = read_to_end();
  if (end.was_reset) throw std::runtime_error("a reset instead of a FIN");
  return proto::to_hex(end.bytes);
}

void LoopbackClient::finish_sending() {
  checked(shutdown(fd_, SHUT_WR), "shutdown");
}

void LoopbackClient::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  checked(setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now), "setsockopt");
  close(std::exchange(fd_, -1));
}

void LoopbackClient::log_in(std::string_view uid, std::uint32_t interval_ms) {
  send(login_frame({.interval_ms = interval_ms, .uid = uid}));
  if (!shard_.accepts_at_once) shard_.accept_login();
  take(proto::kLoginAckFrameSize);
}

Bytes login_frame(const proto::Login& login) {
  Bytes frame(proto::kLoginFrameSizeMax);
  frame.resize(proto::encode_login(login, frame));
  return frame;
}

Bytes message_frame(std::uint64_t id, std::size_t body_size) {
  const Bytes body(body_size, std::byte{0x5a});
  Bytes frame(proto::kHeaderSize + proto::kMessageIdSize + body_size);
  frame.resize(proto::encode_message({.id = id, .body = body}, frame));
  return frame;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes first_of(std::size_t size, Bytes bytes) {
  bytes.resize(size);
  return bytes;
}

Bytes times(std::size_t n, const Bytes& bytes) {
  Bytes all;
  for (std::size_t i = 0; i < n; ++i)
    all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

}  // namespace pulsewheel

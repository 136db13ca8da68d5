#include "tests/integration/swarm.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

constexpr std::size_t kEventsPerWait = 512;
constexpr std::size_t kReadBytes = 64 * 1024;

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

}  // namespace

Swarm::Swarm(std::uint16_t port, std::string source)
    : port_(port), source_(std::move(source)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Swarm::~Swarm() {
  for (std::size_t i = 0; i < peers_.size(); ++i)
    close(i);
  ::close(epoll_);
}

void Swarm::add(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    peers_.emplace_back();
    begin_connect(peers_.size() - 1);
  }
}

bool Swarm::add_users(const std::string& prefix, std::size_t count) {
  const std::size_t first = peers_.size();
  const std::size_t logged_in = totals_.logged_in;
  add(count);
  if (!all_connected()) return false;
  for (std::size_t i = 0; i < count; ++i)
    send_login(first + i, count == 1 ? prefix : prefix + "-" + std::to_string(i));
  return drive_until([&] { return totals_.logged_in == logged_in + count; });
}

void Swarm::reconnect(std::size_t i) {
  peers_[i] = {};
  begin_connect(i);
}

void Swarm::begin_connect(std::size_t i) {
  Peer& peer = peers_[i];
  peer.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (peer.fd == -1) throw std::runtime_error("the test is out of descriptors");
  const int on = 1;
  ::setsockopt(peer.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(peer.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  const sockaddr_in source = address_of(source_, 0);
  const sockaddr_in target = address_of("127.0.0.1", port_);
  peer.began = Clock::now();
  if (::bind(peer.fd, reinterpret_cast<const sockaddr*>(&source), sizeof(source)) != 0 ||
      (::connect(peer.fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0 &&
       errno != EINPROGRESS)) {
    throw std::runtime_error("cannot connect to port " + std::to_string(port_));
  }
  epoll_event wanted{EPOLLIN | EPOLLOUT | EPOLLET, {.u64 = i}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, peer.fd, &wanted);
}

std::size_t Swarm::send(std::size_t i, std::span<const std::byte> bytes) {
  if (peers_[i].fd == -1) return 0;
  const ssize_t n = ::send(peers_[i].fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

std::size_t Swarm::send(std::size_t i, std::string_view bytes) {
  return send(i, std::as_bytes(std::span(bytes)));
}

void Swarm::send_login(std::size_t i, std::string_view uid, std::string_view device) {
  send(i, login_frame(uid, device));
}

void Swarm::send_all(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < peers_.size(); ++i)
    send(i, bytes);
}

void Swarm::close(std::size_t i) {
  if (peers_[i].fd != -1) ::close(std::exchange(peers_[i].fd, -1));
}

void Swarm::reset(std::size_t i) {
  const linger at_once{1, 0};
  if (peers_[i].fd != -1) {
    ::setsockopt(peers_[i].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  close(i);
}

void Swarm::reset_all() {
  for (std::size_t i = 0; i < peers_.size(); ++i)
    reset(i);
}

void Swarm::drive(Clock::duration time) {
  const auto until = Clock::now() + time;
  while (Clock::now() < until)
    wait_and_read(until);
}

bool Swarm::drive_until(const std::function<bool()>& done, Clock::duration limit) {
  return eventually(
      [&] {
        if (done()) return true;
        // Short: `done` may ask for what happens elsewhere.
        wait_and_read(Clock::now() + std::chrono::milliseconds{10});
        return done();
      },
      limit);
}

bool Swarm::all_connected() {
  return drive_until([this] {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return peer.fd == -1 || peer.connected; });
  });
}

void Swarm::wait_and_read(Clock::time_point until) {
  std::array<epoll_event, kEventsPerWait> events;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                             static_cast<int>(std::max<std::int64_t>(0, wait.count())));
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Peer& peer = peers_[event.data.u64];
    if (peer.fd == -1) continue;
    if (!peer.connected && (event.events & EPOLLOUT) != 0) {
      peer.connected = true;
      ++totals_.connected;
    }
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(peer);
  }
}

void Swarm::read(Peer& peer) {
  static thread_local std::array<std::byte, kReadBytes> bytes;
  while (!peer.ended) {
    const ssize_t n = ::recv(peer.fd, bytes.data(), bytes.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      peer.ended = true;
      peer.ended_at = Clock::now();
      ++totals_.ended;
      return;
    }
    peer.input.insert(peer.input.end(), bytes.begin(), bytes.begin() + n);
    take_frames(peer);
  }
}

void Swarm::take_frames(Peer& peer) {
  std::size_t used = 0;
  for (;;) {
    const auto cut = proto::next_server_frame(std::span(peer.input).subspan(used));
    if (cut.status == proto::NextFrame::Status::kError) {
      throw std::runtime_error("the daemon sent what is no frame");
    }
    if (cut.status == proto::NextFrame::Status::kNeedMore) break;
    take_frame(peer, cut.frame);
    used += cut.size;
  }
  peer.input.erase(peer.input.begin(), peer.input.begin() + static_cast<std::ptrdiff_t>(used));
}

void Swarm::take_frame(Peer& peer, const proto::Frame& frame) {
  proto::LoginAck ack;
  proto::Error error;
  proto::Goaway goaway;
  auto flaw = proto::ErrorCode::kNone;
  switch (frame.header.type) {
    case proto::FrameType::kLoginAck:
      flaw = proto::decode_login_ack(frame.payload, ack);
      peer.session_id = ack.session_id;
      ++totals_.logged_in;
      break;
    case proto::FrameType::kKeepaliveAck:
    case proto::FrameType::kMessageAck:
      ++peer.acks;
      ++totals_.acks;
      break;
    case proto::FrameType::kLogoutAck:
      peer.logged_out = true;
      ++totals_.logged_out;
      break;
    case proto::FrameType::kError:
      flaw = proto::decode_error(frame.payload, error);
      peer.error = error.code;
      ++totals_.errors;
      break;
    case proto::FrameType::kGoaway:
      flaw = proto::decode_goaway(frame.payload, goaway);
      peer.goaway = goaway.reason;
      ++totals_.goaways;
      break;
    default:
      break;
  }
  if (flaw != proto::ErrorCode::kNone) throw std::runtime_error("a malformed frame of the daemon");
}

std::vector<std::byte> login_frame(std::string_view uid, std::string_view device,
                                   std::uint32_t interval_ms) {
  std::vector<std::byte> frame(proto::kLoginFrameSizeMax);
  proto::Login login;
  login.uid = uid;
  login.device = device;
  login.interval_ms = interval_ms;
  frame.resize(proto::encode_login(login, frame));
  return frame;
}

std::vector<std::byte> message_frame(std::uint64_t id, std::size_t body_size) {
  const std::vector<std::byte> body(body_size, std::byte{'x'});
  std::vector<std::byte> frame(proto::kHeaderSize + proto::kMessageIdSize + body_size);
  frame.resize(proto::encode_message({.id = id, .body = body}, frame));
  return frame;
}

}  // namespace pulsewheel::test

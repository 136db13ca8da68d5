#include "tests/client_sim/soak/strangers.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "proto/frame.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// Strangers have addresses of their own, far from those of the largest run's clients.
constexpr std::uint32_t kFirstNumber = kConnectionsPerSource * 200;
constexpr Duration kStepInterval = 100ms;
constexpr int kDeafReceiveBuffer = 4 * 1024;   // bytes; the kernel doubles it
constexpr std::size_t kDeafBatch = 64 * 1024;  // bytes of messages that are sent again and again
constexpr std::size_t kRubbishMax = 600;       // bytes
constexpr std::uint32_t kDeafIntervalMs = 2'000;
constexpr std::size_t kLongUid = 100;  // bytes: its LOGIN takes longer than it may
constexpr std::array<std::string_view, 5> kOtherProtocols = {
    "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03",
    "SSH-2.0-OpenSSH_9.2\r\n", "*1\r\n$4\r\nPING\r\n", std::string_view("\0\0\0\0\0\0\0\0", 8)};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> login_of(const std::string& uid) {
  proto::Login login;
  login.uid = uid;
  login.interval_ms = kDeafIntervalMs;
  std::vector<std::byte> frame(256);
  frame.resize(proto::encode_login(login, frame));
  return frame;
}

/// A header whose payload is longer than allowed before login: by one byte, or by all it can be.
std::vector<std::byte> oversize_header(bool by_one) {
  constexpr std::uint16_t kPayloadBeforeLoginMax = 1'024;
  const unsigned length = by_one ? kPayloadBeforeLoginMax + 1U : 0xffffU;
  return {std::byte{1}, std::byte{0}, std::byte(length >> 8), std::byte(length & 0xff)};
}

}  // namespace

Strangers::Strangers(const Setup& setup, MonoTime now)
    : setup_(setup), random_(setup.seed, setup.serial), began_(now), next_step_(now) {
  for (std::uint32_t i = 0; i < setup.amount; ++i) {
    Connection connection;
    connection.descriptor = open_connection(*setup.target, kFirstNumber + i);
    if (connection.descriptor < 0) continue;
    if (setup.kind == FaultKind::kDeaf) {
      ::setsockopt(connection.descriptor, SOL_SOCKET, SO_RCVBUF, &kDeafReceiveBuffer,
                   sizeof(kDeafReceiveBuffer));
    }
    connection.output = words_of(i);
    open_.push_back(std::move(connection));
  }
}

Strangers::~Strangers() {
  for (const Connection& connection : open_)
    close_connection(connection.descriptor, /*abruptly=*/true);
}

std::vector<std::byte> Strangers::words_of(std::uint32_t number) {
  switch (setup_.kind) {
    case FaultKind::kSlowLogins:
      return login_of(std::string(kLongUid, 'x'));
    case FaultKind::kOversize:
      return oversize_header(random_.happens(50));
    case FaultKind::kDeaf:
      return login_of("deaf-" + std::to_string(setup_.serial) + "-" + std::to_string(number));
    case FaultKind::kGarbage: {
      const std::size_t other = random_.below(kOtherProtocols.size() + 1);
      if (other < kOtherProtocols.size()) return bytes_of(kOtherProtocols[other]);
      std::vector<std::byte> rubbish(1 + random_.below(kRubbishMax));
      std::generate(rubbish.begin(), rubbish.end(), [&] { return std::byte(random_.next()); });
      return rubbish;
    }
    default:
      return {};  // never says anything
  }
}

void Strangers::step(MonoTime now) {
  if (now < next_step_) return;
  next_step_ = now + kStepInterval;
  std::erase_if(open_, [&](Connection& connection) {
    if (talk(connection) && listen(connection)) return false;
    close_connection(connection.descriptor, /*abruptly=*/true);
    return true;
  });
}

bool Strangers::talk(Connection& connection) const noexcept {
  const bool is_deaf = setup_.kind == FaultKind::kDeaf;
  const std::size_t most = setup_.kind == FaultKind::kSlowLogins ? 1 : connection.output.size();
  const std::size_t size = std::min(most, connection.output.size() - connection.sent);
  if (size == 0) return true;
  const ssize_t sent = ::send(connection.descriptor, connection.output.data() + connection.sent,
                              size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<std::size_t>(sent);
  if (is_deaf && connection.sent == connection.output.size()) {
    // Logged in; from here on one batch of messages after the other, whatever comes back.
    std::array<std::byte, 64> message;
    const std::size_t length = proto::encode_message({1, {}}, message);
    connection.output.clear();
    while (connection.output.size() + length <= kDeafBatch) {
      connection.output.insert(connection.output.end(), message.begin(),
                               message.begin() + static_cast<std::ptrdiff_t>(length));
    }
    connection.sent = 0;
  }
  return true;
}

bool Strangers::listen(const Connection& connection) const noexcept {
  if (setup_.kind == FaultKind::kDeaf) return true;
  std::array<std::byte, 1'024> buffer;
  const ssize_t got = ::recv(connection.descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace pulsewheel::sim

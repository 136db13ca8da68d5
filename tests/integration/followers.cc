#include "tests/integration/followers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

namespace pulsewheel::test {
namespace {

int connect_to(std::uint16_t port, int receive_buffer_bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes != 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd);
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  }
  return fd;
}

std::uint64_t seq_of(const std::string& id) {
  return std::stoull(id.substr(id.find('-') + 1));
}

}  // namespace

Followers::Followers(std::uint16_t http_port, Options options)
    : http_port_(http_port), options_(options) {}

Followers::~Followers() {
  for (std::size_t i = 0; i < followers_.size(); ++i)
    close(i);
}

std::size_t Followers::add(const std::string& query, const std::string& fields) {
  Follower follower;
  follower.fd = connect_to(http_port_, options_.receive_buffer_bytes);
  const std::string request = "GET /v1/events" + query +
                              " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n" +
                              fields + "\r\n";
  const auto size = static_cast<ssize_t>(request.size());
  if (::send(follower.fd, request.data(), request.size(), MSG_NOSIGNAL) != size) {
    throw std::runtime_error("a follower's request was not taken");
  }
  ::fcntl(follower.fd, F_SETFL, O_NONBLOCK);
  followers_.push_back(std::move(follower));
  return followers_.size() - 1;
}

void Followers::close(std::size_t i) {
  if (const int fd = std::exchange(followers_[i].fd, -1); fd != -1) ::close(fd);
}

bool Followers::read_until(std::size_t first, std::size_t last, const std::function<bool()>& done,
                           Clock::duration limit) {
  const auto give_up = Clock::now() + limit;
  std::vector<pollfd> waiting;
  while (!done()) {
    if (Clock::now() > give_up) return false;
    waiting.clear();
    for (std::size_t i = first; i < last; ++i) {
      const bool reads = !followers_[i].ended;
      waiting.push_back({reads ? followers_[i].fd : -1, POLLIN, 0});
    }
    constexpr int kLookAgainMs = 50;
    if (::poll(waiting.data(), waiting.size(), kLookAgainMs) <= 0) continue;
    for (std::size_t i = first; i < last; ++i) {
      if (waiting[i - first].revents != 0) read(followers_[i]);
    }
  }
  return true;
}

bool Followers::read_until(std::size_t i, const std::function<bool(const Follower&)>& done) {
  return read_until(i, i + 1, [&] { return done(followers_[i]); });
}

const SseEvent& Followers::event(std::size_t i, std::size_t count) {
  if (!read_until(i, [&](const Follower& follower) { return follower.events.size() >= count; })) {
    throw std::runtime_error("an event did not come");
  }
  return followers_[i].events[count - 1];
}

void Followers::read(Follower& follower) {
  std::array<char, 64 * 1024> bytes;
  const ssize_t got = ::recv(follower.fd, bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    follower.ended = true;
    return;
  }
  follower.input.append(bytes.data(), static_cast<std::size_t>(got));
  if (follower.status == 0) take_head(follower);
  if (follower.status == 200) take_events(follower);
}

void Followers::take_head(Follower& follower) {
  const auto end = follower.input.find("\r\n\r\n");
  if (end == std::string::npos) return;
  follower.status = static_cast<unsigned>(std::stoul(follower.input.substr(9, 3)));
  follower.input.erase(0, end + 4);
}

void Followers::take_events(Follower& follower) {
  std::string_view rest = follower.input;
  for (;;) {
    const auto end = rest.find("\n\n");
    if (end == rest.npos) break;
    take_event(follower, rest.substr(0, end));
    rest.remove_prefix(end + 2);
  }
  follower.input.erase(0, follower.input.size() - rest.size());
}

void Followers::take_event(Follower& follower, std::string_view block) const {
  SseEvent event{{}, "message", nullptr};
  std::string_view data;
  while (!block.empty()) {
    const std::string_view line = block.substr(0, block.find('\n'));
    block.remove_prefix(std::min(line.size() + 1, block.size()));
    if (line.starts_with(':')) {
      ++follower.comments;
    } else if (line.starts_with("id: ")) {
      event.id = line.substr(4);
    } else if (line.starts_with("event: ")) {
      event.name = line.substr(7);
    } else if (line.starts_with("data: ")) {
      data = line.substr(6);
    } else if (!line.starts_with("retry: ")) {
      throw std::runtime_error("no line of a stream of events: " + std::string(line));
    }
  }
  if (!event.id.empty()) follower.last_id = event.id;
  if (data.empty()) return;
  if (event.name == "resync") {
    ++follower.resyncs;
  } else {
    follower.seqs.push_back(seq_of(event.id));
  }
  if (!options_.keep_events) return;
  event.data = nlohmann::json::parse(data);
  follower.events.push_back(std::move(event));
}

}  // namespace pulsewheel::test

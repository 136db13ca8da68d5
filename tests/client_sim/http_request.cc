#include "tests/client_sim/http_request.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>

#include "tests/client_sim/connection.h"

namespace pulsewheel::sim {
namespace {

constexpr std::size_t kAnswerMax = 16 << 20;  // bytes of an answer that are read
constexpr timeval kStepLimit{5, 0};
constexpr std::string_view kStatusLine = "HTTP/1.1 ";

/// Everything that the peer sends until it closes.
std::string read_all(int descriptor) {
  std::string answer;
  char buffer[64 * 1024];
  ssize_t got;
  while (answer.size() < kAnswerMax && (got = ::recv(descriptor, buffer, sizeof(buffer), 0)) > 0) {
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  return answer;
}

}  // namespace

std::optional<HttpAnswer> http_request(const std::string& http, std::string_view method,
                                       std::string_view path) {
  const Endpoint endpoint = resolve(http);
  const int descriptor = ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return std::nullopt;
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &kStepLimit, sizeof(kStepLimit));
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &kStepLimit, sizeof(kStepLimit));
  const std::string request = std::string(method) + " " + std::string(path) +
                              " HTTP/1.1\r\nHost: " + http +
                              "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  std::string text;
  if (::connect(descriptor, endpoint.get(), endpoint.size) == 0 &&
      ::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    text = read_all(descriptor);
  }
  ::close(descriptor);
  const std::size_t body = text.find("\r\n\r\n");
  if (!text.starts_with(kStatusLine) || body == std::string::npos) return std::nullopt;
  HttpAnswer answer;
  std::from_chars(text.data() + kStatusLine.size(), text.data() + text.size(), answer.status);
  answer.body = text.substr(body + 4);
  return answer;
}

}  // namespace pulsewheel::sim

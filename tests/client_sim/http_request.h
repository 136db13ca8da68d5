// One request to the daemon's HTTP port, blocking.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsewheel::sim {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

/// `method` and `path` ("POST", "/v1/users/alice:kick") go out as they are, without a body, to
/// `http` (HOST:PORT). Each step is waited for 5 s at most. nullopt when there was no answer.
[[nodiscard]] std::optional<HttpAnswer> http_request(const std::string& http,
                                                     std::string_view method,
                                                     std::string_view path);

}  // namespace pulsewheel::sim

// The HTTP client of pulsewheelctl: one question, one answer, within a time limit.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pulsewheel::ctl {

/// Where a daemon's HTTP port is.
struct Url {
  std::string host;  // a name or an address, without brackets
  std::string port;

  /// Takes "http://HOST[:PORT]" with an optional "/" behind it; the port is 7601 when missing,
  /// and an IPv6 address stands in brackets. Throws std::invalid_argument saying what is allowed.
  [[nodiscard]] static Url parse(std::string_view text);
  /// "host:port", as in the Host field.
  [[nodiscard]] std::string authority() const;
};

struct Answer {
  unsigned status = 0;
  std::string body;
};

/// Nobody answers there, not in time, or not in HTTP.
class UnreachableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Asks for `target`, which is an encoded path, or posts to it without a body. Blocks for `timeout`
/// at most, and for as long as the system's resolver takes where the host is a name. Throws
/// UnreachableError naming the URL.
[[nodiscard]] Answer http_get(const Url& url, std::string_view target,
                              std::chrono::milliseconds timeout);
[[nodiscard]] Answer http_post(const Url& url, std::string_view target,
                               std::chrono::milliseconds timeout);

}  // namespace pulsewheel::ctl

// The HTTP client of pulsewheelctl: one question, one answer or a stream of them, in time.
#pragma once

#include <chrono>
#include <functional>
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

/// A daemon, and what it takes to be let in.
struct Access {
  Url url;
  std::string unix_socket;  // a path to connect to instead of the URL's host; empty: none
  std::string token;        // empty: none

  /// "http://host:port" or "unix:PATH".
  [[nodiscard]] std::string name() const;
};

struct Question {
  enum class Method { kGet, kPost };

  Method method = Method::kGet;
  std::string target;         // an encoded path, with a query if any
  std::string body;           // JSON; empty: none
  std::string last_event_id;  // of a stream that goes on; empty: from now on
};

inline constexpr unsigned kStatusOk = 200;

struct Answer {
  unsigned status = 0;  // of HTTP
  std::string body;
};

/// Nobody answers there, not in time, or not in HTTP.
class UnreachableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Blocks for `timeout` at most, and for as long as the system's resolver takes where the host is a
/// name. Throws UnreachableError naming the daemon.
[[nodiscard]] Answer ask(const Access& access, const Question& question,
                         std::chrono::milliseconds timeout);

/// Asks for an endless answer and hands over its body as it comes; `more` returns false to end it.
/// `timeout` is for the head, and for each silence after it. The answer when it is a refusal, or
/// has come to its end; its body has been handed over then. Throws UnreachableError.
[[nodiscard]] Answer follow(const Access& access, const Question& question,
                            std::chrono::milliseconds timeout,
                            const std::function<bool(std::string_view)>& more);

}  // namespace pulsewheel::ctl

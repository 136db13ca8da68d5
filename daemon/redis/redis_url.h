// RedisUrl: where a Redis server is, from one line of configuration.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pulsewheel {

/// One of
///     redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
///     rediss://...                                      the same over TLS
///     unix:///PATH[?db=DATABASE]
/// HOST is a name, an IPv4 address, or an IPv6 address in brackets. What stands for itself in a URL
/// may be percent-encoded in USER, PASSWORD and PATH, and has to be for ':', '/', '?', '#', '@',
/// '%'.
struct RedisUrl {
  enum class Transport : std::uint8_t { kTcp, kTls, kUnix };

  static constexpr std::uint16_t kPortDefault = 6379;
  static constexpr std::uint32_t kDatabaseMax = 65'535;  // a server has 16 unless it is told so

  Transport transport = Transport::kTcp;
  std::string host;  // without brackets
  std::uint16_t port = kPortDefault;
  std::string path;  // of the socket
  std::uint32_t database = 0;
  std::string user;      // empty: the server's default user
  std::string password;  // empty: none in the URL

  /// Throws std::invalid_argument with one sentence: what is wrong and what is allowed. The
  /// sentence quotes nothing of what stands before an '@'.
  [[nodiscard]] static RedisUrl parse(std::string_view text);

  /// The same for logs and metrics: without user and password.
  [[nodiscard]] std::string display() const;

  friend bool operator==(const RedisUrl&, const RedisUrl&) = default;
};

}  // namespace pulsewheel

#include "daemon/redis/redis_url.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "daemon/base/percent.h"

namespace pulsewheel {
namespace {

constexpr std::string_view kShape =
    "a Redis URL is redis://[user:password@]host[:port][/database], rediss://... for TLS, or "
    "unix:///path[?db=database]";

// One byte of sun_path is the NUL at its end.
constexpr std::size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t kHostBytesMax = 253;  // of a name in the DNS

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(why);
}

/// What stands before the first `mark`, which goes too; nullopt, and nothing taken, without one.
std::optional<std::string_view> take_until(std::string_view& text, char mark) {
  const std::size_t end = text.find(mark);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end + 1);
  return taken;
}

std::string decode(std::string_view text, const char* what) {
  auto bytes = percent_decode(text);
  if (!bytes) refuse(std::string(what) + " of the Redis URL has a '%' without two hex digits");
  if (bytes->find('\0') != std::string::npos) {
    refuse(std::string(what) + " of the Redis URL has a NUL byte");
  }
  return *std::move(bytes);
}

std::uint32_t parse_number(std::string_view text, const char* what, std::uint32_t min,
                           std::uint32_t max) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stopped != end || number < min || number > max) {
    refuse("'" + std::string(text) + "' is no " + what + " of Redis: " + std::to_string(min) +
           " to " + std::to_string(max) + " is allowed");
  }
  return number;
}

std::uint32_t parse_database(std::string_view text) {
  return parse_number(text, "database number", 0, RedisUrl::kDatabaseMax);
}

bool is_host_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7f &&
         std::string_view("/?#@%\\\"'<>`{}|^").find(c) == std::string_view::npos;
}

void parse_user_info(std::string_view text, RedisUrl& url) {
  const auto user = take_until(text, ':');
  if (!user) {
    refuse(
        "the Redis URL has a name before '@' but no password: give user:password@ or "
        ":password@");
  }
  url.user = decode(*user, "the user");
  url.password = decode(text, "the password");
  if (url.password.empty()) refuse("the password of the Redis URL is empty: leave it out with '@'");
}

void parse_host_and_port(std::string_view text, RedisUrl& url) {
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    const auto host = take_until(text, ']');
    if (!host || !(text.empty() || text.starts_with(':'))) {
      refuse("an IPv6 address in a Redis URL stands in brackets, as in redis://[::1]:6379");
    }
    url.host = *host;
    if (!text.empty()) port = text.substr(1);
  } else {
    const auto host = take_until(text, ':');
    url.host = host.value_or(text);
    if (host) port = text;
    if (port && port->find(':') != std::string_view::npos) {
      refuse("an IPv6 address in a Redis URL stands in brackets, as in redis://[::1]:6379");
    }
  }
  if (url.host.empty()) refuse("the Redis URL has no host: " + std::string(kShape));
  if (url.host.size() > kHostBytesMax ||
      !std::all_of(url.host.begin(), url.host.end(), is_host_byte)) {
    refuse("the host of the Redis URL is no name and no address");
  }
  if (port) {
    url.port = static_cast<std::uint16_t>(parse_number(*port, "port", 1, 65'535));
  }
}

RedisUrl parse_network(std::string_view rest, RedisUrl::Transport transport) {
  RedisUrl url;
  url.transport = transport;
  // From here on an error may quote the text.
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    parse_user_info(rest.substr(0, at), url);
    rest.remove_prefix(at + 1);
  }
  if (rest.find_first_of("?#") != std::string_view::npos) {
    refuse("a Redis URL has no '?' and no '#': give the database as /NUMBER behind the port");
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  parse_host_and_port(rest.substr(0, slash), url);
  if (const std::string_view database = rest.substr(slash); database.size() > 1) {
    url.database = parse_database(database.substr(1));
  }
  return url;
}

RedisUrl parse_unix(std::string_view rest) {
  RedisUrl url;
  url.transport = RedisUrl::Transport::kUnix;
  std::optional<std::string_view> query;
  if (const auto path = take_until(rest, '?')) {
    query = rest;
    rest = *path;
  }
  url.path = decode(rest, "the path");
  if (!url.path.starts_with('/')) {
    refuse("the path of a Redis socket is absolute, as in unix:///run/redis/redis.sock");
  }
  if (url.path.size() > kPathBytesMax) {
    refuse("the path of a Redis socket has at most " + std::to_string(kPathBytesMax) + " bytes");
  }
  if (query) {
    if (!query->starts_with("db=")) {
      refuse("a Redis URL of a socket takes ?db=NUMBER and nothing else behind the path");
    }
    url.database = parse_database(query->substr(3));
  }
  return url;
}

}  // namespace

RedisUrl RedisUrl::parse(std::string_view text) {
  constexpr std::string_view kRedis = "redis://";
  constexpr std::string_view kRediss = "rediss://";
  constexpr std::string_view kUnix = "unix://";
  if (text.starts_with(kRedis)) return parse_network(text.substr(kRedis.size()), Transport::kTcp);
  if (text.starts_with(kRediss)) return parse_network(text.substr(kRediss.size()), Transport::kTls);
  if (text.starts_with(kUnix)) return parse_unix(text.substr(kUnix.size()));
  refuse(std::string(kShape));
}

std::string RedisUrl::display() const {
  if (transport == Transport::kUnix) {
    return "unix://" + path + "?db=" + std::to_string(database);
  }
  const bool is_v6 = host.find(':') != std::string::npos;
  return (transport == Transport::kTls ? "rediss://" : "redis://") +
         (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/" +
         std::to_string(database);
}

}  // namespace pulsewheel

// RequestTarget: the path of an HTTP request, cut into segments and nothing more.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace pulsewheel {

/// "/v1/users/a%2Fb:kick?x=1" is the segments "v1", "users", "a%2Fb", the verb "kick" and the
/// query "x=1". Everything stays percent-encoded and points into the parsed string; so an encoded
/// '/' or ':' never separates anything.
struct RequestTarget {
  static constexpr std::size_t kSegmentsMax = 8;  // twice what the deepest route has

  std::vector<std::string_view> segments;  // "/" has none; "/v1/" has "v1" and ""
  std::string_view verb;                   // after the last segment's first raw ':'
  bool has_verb = false;                   // "/x:" has an empty one
  std::string_view query;

  /// Nullopt unless `target` starts with '/', holds only visible ASCII without '#', and has at
  /// most kSegmentsMax segments. Dots are ordinary characters: no path here leads to a file.
  /// O(length).
  [[nodiscard]] static std::optional<RequestTarget> parse(std::string_view target);
};

/// Whether `host`, the value of a Host field, is "localhost" or an address literal, with or
/// without a port. A page of a foreign site can make a browser connect to this host by a name
/// that it controls (DNS rebinding), but not by one of these.
[[nodiscard]] bool is_local_host(std::string_view host);

/// Whether `origin`, the value of an Origin field, is that of a page which came from the same host
/// and port as the request with this Host field goes to. "null" never is.
[[nodiscard]] bool is_same_origin(std::string_view origin, std::string_view host);

}  // namespace pulsewheel

// Router: the table of (method, pattern) -> handler of the HTTP port.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/admin/http_message.h"
#include "daemon/admin/request_target.h"

namespace pulsewheel {

/// What is special about a route.
struct RouteOptions {
  bool open = false;  // needs no token
  /// How long its handler may take, for routes that wait on purpose; 0: as long as any other
  /// (HttpLimits::answer_timeout).
  std::chrono::milliseconds answer_timeout{0};
  /// What the body of a request may have, where that is more than HttpLimits::body_bytes_max.
  std::size_t body_bytes_max = 0;
};

/// Patterns are paths whose segments are literals or parameters, with a verb at the end if any:
/// "/v1/status", "/v1/users/{uid}", "/v1/users/{uid}:kick", "/v1/users:query". Filled before the
/// server starts, not changed afterwards; then match() may run on any thread.
class Router {
 public:
  /// Requires a well-formed pattern that has no handler for `method` yet. Of two patterns that
  /// fit a path the one added first wins. GET answers HEAD too: the server leaves out the body.
  void add(http::verb method, std::string_view pattern, Handler handler, RouteOptions options = {});

  struct Match {
    const Handler* handler = nullptr;  // these two live as long as the router
    const RouteOptions* options = nullptr;
    std::string_view query;  // points into the target
    std::vector<PathParam> params;
  };
  /// The handler of the request, or the answer instead of one: 400 for a target that is none or
  /// a parameter that is not well encoded, 404, or 405 with Allow. O(routes + length of target).
  [[nodiscard]] std::variant<Match, Response> match(http::verb method,
                                                    std::string_view target) const;

  /// Whether the request has a route, and one that is open. O(routes + length of target).
  [[nodiscard]] bool is_open(http::verb method, std::string_view target) const;

  /// What the route of a request says of its body; 0 without a route. O(routes + length of target).
  [[nodiscard]] std::size_t body_bytes_max(http::verb method, std::string_view target) const;
  /// The most of any route.
  [[nodiscard]] std::size_t largest_body_bytes_max() const noexcept { return largest_body_; }

 private:
  struct Segment {
    std::string text;  // literal, or the name of the parameter
    bool is_param = false;
  };
  struct Route {
    http::verb method;
    std::string pattern;
    std::vector<Segment> segments;
    std::string verb;
    bool has_verb = false;
    Handler handler;
    RouteOptions options;
  };

  [[nodiscard]] static bool same_path(const Route& route, const RequestTarget& target);
  [[nodiscard]] static std::variant<Match, Response> bind(const Route& route,
                                                          const RequestTarget& target);
  [[nodiscard]] Response not_found(RequestTarget target) const;

  std::vector<Route> routes_;
  std::size_t largest_body_ = 0;
};

}  // namespace pulsewheel

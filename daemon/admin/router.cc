#include "daemon/admin/router.h"

#include <algorithm>
#include <optional>

#include "daemon/base/check.h"
#include "daemon/base/percent.h"

namespace pulsewheel {

namespace {

void append_method(std::string& list, std::string_view method) {
  if (!list.empty()) list += ", ";
  list += method;
}

Response method_not_allowed(std::string allow) {
  Response response = error_response(http::status::method_not_allowed, "method_not_allowed",
                                     "this resource does not know the method; it allows " + allow);
  response.fields.emplace_back(http::field::allow, std::move(allow));
  return response;
}

}  // namespace

void Router::add(http::verb method, std::string_view pattern, Handler handler,
                 RouteOptions options) {
  const std::optional<RequestTarget> parsed = RequestTarget::parse(pattern);
  PULSEWHEEL_CHECK(parsed && parsed->query.empty());
  Route route{method,           std::string(pattern), {},     std::string(parsed->verb),
              parsed->has_verb, std::move(handler),   options};
  largest_body_ = std::max(largest_body_, options.body_bytes_max);
  for (const std::string_view segment : parsed->segments) {
    const bool is_param = segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
    route.segments.push_back(
        {std::string(is_param ? segment.substr(1, segment.size() - 2) : segment), is_param});
  }
  for (const Route& other : routes_) {
    PULSEWHEEL_CHECK(other.method != method || other.pattern != pattern);
  }
  routes_.push_back(std::move(route));
}

std::variant<Router::Match, Response> Router::match(http::verb method,
                                                    std::string_view target) const {
  const std::optional<RequestTarget> parsed = RequestTarget::parse(target);
  if (!parsed) {
    return error_response(http::status::bad_request, "bad_target",
                          "the request target must be a path: '/', then visible ASCII without "
                          "'#', at most " +
                              std::to_string(RequestTarget::kSegmentsMax) + " segments");
  }
  if (method == http::verb::head) method = http::verb::get;

  std::string allow;
  for (const Route& route : routes_) {
    if (!same_path(route, *parsed)) continue;
    if (route.method == method) return bind(route, *parsed);
    append_method(allow, http::to_string(route.method));
    if (route.method == http::verb::get) append_method(allow, http::to_string(http::verb::head));
  }
  if (allow.empty()) return not_found(*parsed);
  return method_not_allowed(std::move(allow));
}

bool Router::is_open(http::verb method, std::string_view target) const {
  const auto found = match(method, target);
  const auto* route = std::get_if<Match>(&found);
  return route != nullptr && route->options->open;
}

std::size_t Router::body_bytes_max(http::verb method, std::string_view target) const {
  const auto found = match(method, target);
  const auto* route = std::get_if<Match>(&found);
  return route == nullptr ? 0 : route->options->body_bytes_max;
}

bool Router::same_path(const Route& route, const RequestTarget& target) {
  return route.has_verb == target.has_verb && route.verb == target.verb &&
         std::equal(route.segments.begin(), route.segments.end(), target.segments.begin(),
                    target.segments.end(), [](const Segment& segment, std::string_view text) {
                      return segment.is_param || segment.text == text;
                    });
}

std::variant<Router::Match, Response> Router::bind(const Route& route,
                                                   const RequestTarget& target) {
  Match match;
  match.handler = &route.handler;
  match.options = &route.options;
  match.query = target.query;
  for (std::size_t i = 0; i < route.segments.size(); ++i) {
    if (!route.segments[i].is_param) continue;
    std::optional<std::string> value = percent_decode(target.segments[i]);
    if (!value) {
      return error_response(http::status::bad_request, "bad_encoding",
                            "'" + route.segments[i].text +
                                "' is not percent-encoded: each '%' must be followed by two "
                                "hexadecimal digits, and a '%' itself is written %25");
    }
    match.params.push_back({route.segments[i].text, std::move(*value)});
  }
  return match;
}

Response Router::not_found(RequestTarget target) const {
  // The likely reason for a stray ':' is a uid that holds one.
  target.verb = {};
  const bool without_verb = std::exchange(target.has_verb, false);
  const bool verb_is_wrong =
      without_verb && std::any_of(routes_.begin(), routes_.end(), [&target](const Route& route) {
        return same_path(route, target);
      });
  if (verb_is_wrong) {
    return error_response(http::status::not_found, "no_such_verb",
                          "this resource has no such verb; a ':' inside an id is written %3A");
  }
  return error_response(http::status::not_found, "not_found", "there is no such resource");
}

}  // namespace pulsewheel

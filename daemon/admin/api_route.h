// ApiRoute: one route of the HTTP API, as the router serves it and as /openapi.json describes it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "daemon/admin/http_message.h"
#include "daemon/admin/router.h"

namespace pulsewheel {

/// A parameter in the path or behind the '?'.
struct ApiParam {
  enum class Kind : std::uint8_t { kText, kNumber };

  std::string_view name;
  std::string_view what;  // one sentence
  std::string_view example;
  Kind kind = Kind::kText;
};

/// All text is literals of ours. One table of these is all that says which routes there are: what
/// is served and not described, or the other way round, cannot be.
struct ApiRoute {
  http::verb method = http::verb::get;
  std::string_view pattern;       // as for Router::add()
  std::string_view summary;       // one line
  std::vector<ApiParam> query{};  // all optional
  // The names of schemas in api_schemas(); empty: no body, and an answer that is no JSON.
  std::string_view body{};
  std::string_view answer{};
  std::string_view answer_type = kJsonType;
  http::status status = http::status::ok;  // of the answer, when all is well
  std::vector<http::status> refusals{};    // beside those that any request may get
  RouteOptions options{};
  Handler handler;
};

using ApiTable = std::vector<ApiRoute>;

/// Every {name} of a pattern is described here: they mean the same everywhere.
[[nodiscard]] ApiParam path_param(std::string_view name);

}  // namespace pulsewheel

#include "daemon/admin/routes.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "daemon/admin/json_body.h"
#include "daemon/admin/openapi.h"
#include "daemon/admin/query_string.h"

namespace pulsewheel {
namespace {

/// The refusal of parameters and a body that say something, for a route that takes neither.
std::optional<Response> refuse_surplus(std::string_view query, std::string_view body) {
  auto parameters = QueryString::parse(query, {});
  if (auto* refusal = std::get_if<Response>(&parameters)) return std::move(*refusal);
  auto members = JsonBody::parse(body, {});
  if (auto* refusal = std::get_if<Response>(&members)) return std::move(*refusal);
  return std::nullopt;
}

/// What a request to /v1 says and its route does not know is a mistake that must not go unnoticed:
/// whoever writes ":hold?for_ms=60000" must not get the hour that a hold usually lasts.
Handler strict(ApiRoute& route) {
  if (!route.pattern.starts_with("/v1/") || !route.query.empty()) return std::move(route.handler);
  const bool checks_body = route.method == http::verb::post && route.body.empty();
  return
      [handler = std::move(route.handler), checks_body](const Request& request, Responder respond) {
        const std::string_view body = checks_body ? request.body : std::string_view();
        if (auto refusal = refuse_surplus(request.query, body)) return respond(std::move(*refusal));
        handler(request, std::move(respond));
      };
}

}  // namespace

ApiTable api_routes(StatusSource& source, const RouteLimits& limits) {
  ApiTable table;
  add_node_routes(table, source);
  add_user_routes(table, source, limits);
  return table;
}

Router make_router(ApiTable table) {
  const auto document = std::make_shared<Response>();
  table.push_back(
      {.pattern = "/openapi.json",
       .summary = "This document",
       .query = {},
       .body = {},
       .answer = "OpenApi",
       .refusals = {},
       .handler = [document](const Request&, const Responder& respond) { respond(*document); }});
  *document = json_response(openapi_document(table));

  Router router;
  for (ApiRoute& route : table)
    router.add(route.method, route.pattern, strict(route), route.options);
  return router;
}

Router make_routes(StatusSource& source, const RouteLimits& limits) {
  return make_router(api_routes(source, limits));
}

}  // namespace pulsewheel

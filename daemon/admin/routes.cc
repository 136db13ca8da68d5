#include "daemon/admin/routes.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/admin/openapi.h"

namespace pulsewheel {

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
    router.add(route.method, route.pattern, std::move(route.handler), route.options);
  return router;
}

Router make_routes(StatusSource& source, const RouteLimits& limits) {
  return make_router(api_routes(source, limits));
}

}  // namespace pulsewheel

// The OpenAPI document: the table of routes, as other programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/admin/api_route.h"

namespace pulsewheel {

/// OpenAPI 3.1. Requires that the schemas which the routes name exist.
[[nodiscard]] nlohmann::json openapi_document(const ApiTable& routes);

/// The schemas by name, each with an "example" where it is the body of a request.
[[nodiscard]] const nlohmann::json& api_schemas();

}  // namespace pulsewheel

// The routes of the HTTP port: what the daemon answers about itself.
#pragma once

#include "daemon/admin/api_tables.h"
#include "daemon/admin/router.h"
#include "daemon/admin/status_source.h"
#include "daemon/admin/user_json.h"

namespace pulsewheel {

/// All that a StatusSource can answer. `source` must outlive the router that is made of it, and is
/// called on the thread that serves that.
[[nodiscard]] ApiTable api_routes(StatusSource& source, const RouteLimits& limits = {});

/// Serves `table`, and GET /openapi.json, which describes it and itself.
[[nodiscard]] Router make_router(ApiTable table);

/// The two in one, where there is nothing else to serve.
[[nodiscard]] Router make_routes(StatusSource& source, const RouteLimits& limits = {});

}  // namespace pulsewheel

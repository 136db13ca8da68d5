// The routes of the HTTP port: what the daemon answers about itself.
#pragma once

#include "daemon/admin/api_tables.h"
#include "daemon/admin/router.h"
#include "daemon/admin/status_source.h"
#include "daemon/admin/user_json.h"

namespace pulsewheel {

/// All of the tables in api_tables.h, and GET /openapi.json, which describes them and itself.
/// `source` must outlive the router, and is called on the thread that serves it.
[[nodiscard]] Router make_routes(StatusSource& source, const RouteLimits& limits = {});

}  // namespace pulsewheel

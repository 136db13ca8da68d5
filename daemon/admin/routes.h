// The routes of the HTTP port: what the daemon answers about itself.
#pragma once

#include <cstddef>

#include "daemon/admin/router.h"
#include "daemon/admin/status_source.h"

namespace pulsewheel {

struct RouteLimits {
  std::size_t uid_bytes_max = 128;
};

/// GET of /livez, /readyz, /metrics, /version, /v1/status and /v1/users/{uid}, and POST of
/// /v1/users/{uid}:kick. Every answer is JSON but for those of /metrics, and of /livez and /readyz
/// while all is well. `source` must outlive the router, and is called on the thread that serves it.
[[nodiscard]] Router make_routes(StatusSource& source, const RouteLimits& limits = {});

/// The answer of /v1/users/{uid}: uids and devices percent-encoded, session ids as strings
/// (JavaScript's numbers would round them), times in Unix milliseconds, null where unknown.
[[nodiscard]] nlohmann::json to_json(std::string_view uid, const UserReport& report);

}  // namespace pulsewheel

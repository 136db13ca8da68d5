// The parts of the API's table of routes. Each handler refers to `source`, which must outlive it.
#pragma once

#include <chrono>
#include <cstddef>

#include "daemon/admin/api_route.h"
#include "daemon/admin/status_source.h"

namespace pulsewheel {

struct RouteLimits {
  std::size_t uid_bytes_max = 128;
  std::size_t query_uids_max = 10'000;                 // of one POST /v1/users:query
  std::size_t query_bytes_max = std::size_t{1} << 20;  // of its body
  std::chrono::milliseconds hold_usual = std::chrono::hours{1};
  std::chrono::milliseconds hold_max = std::chrono::hours{24 * 7};
  std::size_t page_users_max = 10'000;  // of one GET /v1/users
};

/// /livez, /readyz, /metrics, /version, /v1/status, /v1/wheel, /v1/drain, /v1/reload.
void add_node_routes(ApiTable& table, StatusSource& source);

/// All below /v1/users.
void add_user_routes(ApiTable& table, StatusSource& source, const RouteLimits& limits);

/// 503, to be asked again: a shard did not answer in time.
[[nodiscard]] Response busy_response(std::string_view message);

}  // namespace pulsewheel

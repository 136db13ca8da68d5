// The dashboard: one page for people, with all that belongs to it inside the program.
#pragma once

#include <span>
#include <string_view>

#include "daemon/admin/router.h"

namespace pulsewheel {

/// A file of daemon/admin/dashboard/, as it was when the program was built.
struct DashboardFile {
  std::string_view name;          // "main.js"
  std::string_view content_type;  // for HTTP
  std::string_view etag;          // quoted; another one for other bytes
  std::string_view bytes;
};

/// All of them. The table is made by embed.cmake.
[[nodiscard]] std::span<const DashboardFile> dashboard_files() noexcept;

/// Adds GET / (index.html) and GET /dashboard/NAME for the others. They need no token, as a browser
/// has none for them, and tell nothing about the node: all that the page shows, it asks for with
/// the token that somebody types into it. The page can run and load nothing that is not in these
/// files, and a browser may keep them, but asks each time whether they are still the ones.
void add_dashboard_routes(Router& router);

}  // namespace pulsewheel

#include "daemon/admin/dashboard.h"

#include <algorithm>
#include <string>

#include "daemon/base/check.h"

namespace pulsewheel {

namespace {

constexpr std::string_view kIndex = "index.html";

// Scripts and styles from our own files and nowhere else, none inside the HTML; and no script may
// turn text into HTML: a uid is what a stranger chose.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

/// `etag` is hexadecimal between quotes, so it is in the list or a part of nothing in it.
bool is_known(const Request& request, std::string_view etag) {
  return request.field("If-None-Match").find(etag) != std::string_view::npos;
}

Response file_response(const DashboardFile& file, const Request& request) {
  Response response;
  response.content_type = file.content_type;
  response.content_security_policy = kPolicy;
  response.fields.emplace_back(http::field::cache_control, "no-cache");
  response.fields.emplace_back(http::field::etag, file.etag);
  if (is_known(request, file.etag)) {
    response.status = http::status::not_modified;
  } else {
    response.body = file.bytes;
  }
  return response;
}

}  // namespace

void add_dashboard_routes(Router& router) {
  const std::span<const DashboardFile> files = dashboard_files();
  PULSEWHEEL_CHECK(std::any_of(files.begin(), files.end(),
                               [](const DashboardFile& file) { return file.name == kIndex; }));
  for (const DashboardFile& file : files) {
    router.add(http::verb::get, file.name == kIndex ? "/" : "/dashboard/" + std::string(file.name),
               [&file](const Request& request, const Responder& respond) {
                 respond(file_response(file, request));
               },
               {.open = true});
  }
}

}  // namespace pulsewheel

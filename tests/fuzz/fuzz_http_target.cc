// Fuzzes what the HTTP port makes of a request target. The input is the target itself: it is
// cut, routed through the real routes, and answered by a source that knows every user. Beside
// what the sanitizers find: the pieces of a target lie inside it and give it back when joined, a
// refusal is a 4xx in JSON, and a uid comes back exact. The same input is read as the body of a
// query, too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "daemon/admin/request_target.h"
#include "daemon/admin/routes.h"
#include "daemon/base/percent.h"
#include "tests/unit/admin/fake_source.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kUidBytesMax = 128;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string join(const RequestTarget& target) {
  std::string out;
  for (const std::string_view segment : target.segments)
    out.append("/").append(segment);
  if (target.segments.empty()) out = "/";
  if (target.has_verb) out.append(":").append(target.verb);
  return out;
}

void cut(std::string_view input) {
  const std::optional<RequestTarget> target = RequestTarget::parse(input);
  if (!target) return;
  require(target->segments.size() <= RequestTarget::kSegmentsMax);
  require(join(*target) == input.substr(0, input.find('?')));
  require(input.ends_with(target->query));
}

void encode(std::string_view input) {
  require(percent_decode(percent_encode(input)) == input);
  if (const auto bytes = percent_decode(input)) {
    require(bytes->size() <= input.size());
    require(percent_decode(percent_encode(*bytes)) == *bytes);
  }
}

void check_answer(const Response& response, const std::vector<std::string>& uids_asked) {
  if (response.content_type != kJsonType) return;
  const Json body = Json::parse(response.body);
  if (response.status != http::status::ok) {
    require(http::to_status_class(response.status) == http::status_class::client_error);
    require(body.at("error").at("code").is_string() && body.at("error").at("message").is_string());
  } else if (body.contains("uid")) {
    require(uids_asked.size() == 1);
    require(!uids_asked[0].empty() && uids_asked[0].size() <= kUidBytesMax);
    require(percent_decode(body.at("uid").get<std::string>()) == uids_asked[0]);
  }
}

void ask(http::verb method, std::string_view input) {
  FakeSource source;
  const Router router = make_routes(source, {kUidBytesMax});
  auto match = router.match(method, input);
  if (const auto* refusal = std::get_if<Response>(&match)) {
    require(refusal->status != http::status::ok);
    return check_answer(*refusal, {});
  }
  auto& [handler, options, query, params] = std::get<Router::Match>(match);
  std::size_t answers = 0;
  (*handler)(Request{method, query, {}, std::move(params)}, Responder([&](Response response) {
               ++answers;
               check_answer(response, source.asked());
             }));
  require(answers == 1);
}

/// The input as the body of a query: refused with a 400, or taken for uids that a query can hold.
void query(std::string_view input) {
  FakeSource source;
  const Router router = make_routes(source, {kUidBytesMax});
  const auto match = router.match(http::verb::post, "/v1/users:query");
  std::size_t answers = 0;
  const Request request{http::verb::post, {}, input, {}};
  (*std::get<Router::Match>(match).handler)(request, Responder([&](const Response& response) {
                                              ++answers;
                                              check_answer(response, {});
                                            }));
  require(answers == 1);
  for (const std::string& uid : source.asked())
    require(!uid.empty() && uid.size() <= kUidBytesMax);
}

}  // namespace
}  // namespace pulsewheel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace pulsewheel;
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  cut(input);
  encode(input);
  (void)is_local_host(input);
  ask(http::verb::get, input);
  ask(http::verb::post, input);
  query(input);
  return 0;
}

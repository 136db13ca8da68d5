#include "daemon/admin/http_message.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "daemon/base/check.h"

namespace pulsewheel {

const std::string& Request::param(std::string_view name) const {
  const auto found = std::find_if(params.begin(), params.end(),
                                  [name](const PathParam& param) { return param.name == name; });
  PULSEWHEEL_CHECK(found != params.end());
  return found->value;
}

std::string_view Request::field(std::string_view name) const {
  if (fields == nullptr) return {};
  const auto found = fields->find(name);
  return found == fields->end() ? std::string_view() : std::string_view(found->value());
}

Response json_response(const nlohmann::json& value) {
  Response response;
  response.content_type = kJsonType;
  // ASCII only: what a terminal, a log or an old client makes of other bytes is not our problem.
  response.body = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  response.body += '\n';
  return response;
}

Response error_response(http::status status, std::string_view code, std::string_view message) {
  Response response = json_response({{"error", {{"code", code}, {"message", message}}}});
  response.status = status;
  return response;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kBytesMax = 40;
  const bool cut = name.size() > kBytesMax;
  return "'" + std::string(name.substr(0, kBytesMax)) + (cut ? "...'" : "'");
}

Responder::Responder(Sink sink) : pending_(std::make_shared<Pending>(std::move(sink))) {}

Responder::Pending::~Pending() {
  if (!sink) return;
  sink(error_response(http::status::internal_server_error, "no_answer",
                      "the daemon dropped this request without an answer"));
}

void Responder::operator()(Response response) const {
  // Taken first: the sink may end the request, and with it other copies of this object.
  if (const Sink sink = std::exchange(pending_->sink, nullptr)) sink(std::move(response));
}

}  // namespace pulsewheel

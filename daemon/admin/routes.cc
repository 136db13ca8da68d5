#include "daemon/admin/routes.h"

#include <optional>
#include <string>
#include <utility>

#include <prometheus/text_serializer.h>
#include <nlohmann/json.hpp>

#include "daemon/base/build_info.h"
#include "daemon/base/percent.h"

namespace pulsewheel {

namespace {

constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

Response text_response(std::string text) {
  Response response;
  response.content_type = kTextType;
  response.body = std::move(text);
  return response;
}

Response livez(const StatusSource& source) {
  if (source.live()) return text_response("ok\n");
  return error_response(http::status::service_unavailable, "not_live",
                        "a shard has not turned lately");
}

Response readyz(const StatusSource& source) {
  std::string why;
  if (source.ready(why)) return text_response("ok\n");
  return error_response(http::status::service_unavailable, "not_ready", why);
}

Response metrics(const StatusSource& source) {
  Response response = text_response(prometheus::TextSerializer().Serialize(source.collect()));
  response.content_type = kMetricsType;
  return response;
}

Response version() {
  const BuildInfo& build = build_info();
  return json_response({{"name", "pulsewheel"},
                        {"version", build.version},
                        {"commit", build.commit},
                        {"compiler", build.compiler},
                        {"build_type", build.type}});
}

/// What is wrong with the uid of a request, if anything is.
std::optional<Response> check_uid(const std::string& uid, const RouteLimits& limits) {
  if (!uid.empty() && uid.size() <= limits.uid_bytes_max) return std::nullopt;
  return error_response(http::status::bad_request, "bad_uid",
                        "a uid has 1 to " + std::to_string(limits.uid_bytes_max) +
                            " bytes after decoding, this one has " + std::to_string(uid.size()));
}

Response shard_timeout(std::string_view message) {
  Response busy = error_response(http::status::service_unavailable, "timeout", message);
  busy.fields.emplace_back(http::field::retry_after, "1");
  return busy;
}

void user(StatusSource& source, const RouteLimits& limits, const Request& request,
          Responder respond) {
  const std::string& uid = request.param("uid");
  if (auto refusal = check_uid(uid, limits)) return respond(std::move(*refusal));
  source.async_user(uid, [uid, respond = std::move(respond)](std::optional<UserReport> report) {
    respond(report ? json_response(to_json(uid, *report))
                   : shard_timeout("the shard of this user did not answer in time"));
  });
}

void kick(StatusSource& source, const RouteLimits& limits, const Request& request,
          Responder respond) {
  const std::string& uid = request.param("uid");
  if (auto refusal = check_uid(uid, limits)) return respond(std::move(*refusal));
  source.async_kick(uid, [uid, respond = std::move(respond)](std::optional<KickReport> report) {
    if (!report) {
      return respond(shard_timeout(
          "the shard of this user did not answer in time; the user may still be kicked"));
    }
    if (!report->was_online) {
      return respond(error_response(http::status::not_found, "not_online",
                                    "this user is not online: there is nobody to kick"));
    }
    respond(json_response(
        {{"uid", percent_encode(uid)}, {"kicked_sessions", report->kicked_sessions}}));
  });
}

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

Router make_routes(StatusSource& source, const RouteLimits& limits) {
  constexpr auto kGet = http::verb::get;
  Router router;
  router.add(kGet, "/livez",
             [&source](const Request&, Responder respond) { respond(livez(source)); },
             {.open = true});
  router.add(kGet, "/readyz",
             [&source](const Request&, Responder respond) { respond(readyz(source)); },
             {.open = true});
  router.add(kGet, "/metrics",
             [&source](const Request&, Responder respond) { respond(metrics(source)); });
  router.add(kGet, "/version", [](const Request&, Responder respond) { respond(version()); });
  router.add(kGet, "/v1/status", [&source](const Request&, Responder respond) {
    respond(json_response(source.status()));
  });
  router.add(kGet, "/v1/users/{uid}", [&source, limits](const Request& request, Responder respond) {
    user(source, limits, request, std::move(respond));
  });
  router.add(http::verb::post, "/v1/users/{uid}:kick",
             [&source, limits](const Request& request, Responder respond) {
               kick(source, limits, request, std::move(respond));
             });
  return router;
}

nlohmann::json to_json(std::string_view uid, const UserReport& report) {
  nlohmann::json sessions = nlohmann::json::array();
  for (const SessionReport& session : report.sessions) {
    sessions.push_back({{"id", std::to_string(session.id)},
                        {"shard", session.shard},
                        {"device", percent_encode(session.device)},
                        {"lingering", session.lingering},
                        {"login_at_ms", session.login_at_ms},
                        {"last_seen_ms", session.last_seen_ms},
                        {"deadline_ms", session.deadline_ms},
                        {"timeout_ms", session.timeout_ms}});
  }
  return {{"uid", percent_encode(uid)},
          {"state", report.state},
          {"since_ms", or_null(report.since_ms)},
          {"last_seen_ms", or_null(report.last_seen_ms)},
          {"sessions", std::move(sessions)}};
}

}  // namespace pulsewheel

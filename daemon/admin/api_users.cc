#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "daemon/admin/api_tables.h"
#include "daemon/admin/json_body.h"
#include "daemon/admin/query_string.h"
#include "daemon/admin/user_json.h"
#include "daemon/base/percent.h"

namespace pulsewheel {
namespace {

constexpr std::uint64_t kUsualPageUsers = 100;

constexpr std::string_view kShardIsBusy = "the shard of this user did not answer in time";
constexpr std::string_view kShardsAreBusy =
    "the shards did not answer in time, or are busy with other questions about many users";

/// What is wrong with a uid of `size` bytes, if anything is.
std::optional<Response> check_uid_size(std::size_t size, const RouteLimits& limits) {
  if (size > 0 && size <= limits.uid_bytes_max) return std::nullopt;
  return error_response(http::status::bad_request, "bad_uid",
                        "a uid has 1 to " + std::to_string(limits.uid_bytes_max) +
                            " bytes after decoding, this one has " + std::to_string(size));
}

/// A route about one user: `act` gets the uid, checked.
template <class Act>
Handler for_user(const RouteLimits& limits, Act act) {
  return [limits, act](const Request& request, Responder respond) {
    const std::string& uid = request.param("uid");
    if (auto refusal = check_uid_size(uid.size(), limits)) return respond(std::move(*refusal));
    act(uid, request, std::move(respond));
  };
}

void user(StatusSource& source, const std::string& uid, Responder respond) {
  source.async_user(uid, [uid, respond = std::move(respond)](std::optional<UserReport> report) {
    respond(report ? json_response(to_json(uid, *report)) : busy_response(kShardIsBusy));
  });
}

void explain(StatusSource& source, const std::string& uid, Responder respond) {
  source.async_explain(uid, [uid, respond = std::move(respond)](std::optional<Explanation> report) {
    respond(report ? json_response(to_json(uid, *report)) : busy_response(kShardIsBusy));
  });
}

void kick(StatusSource& source, const std::string& uid, Responder respond) {
  source.async_kick(uid, [uid, respond = std::move(respond)](std::optional<KickReport> report) {
    if (!report) {
      return respond(busy_response(
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

Response held(const std::string& uid, const HoldReport& report) {
  switch (report.verdict) {
    case HoldReport::Verdict::kNotOnline:
      return error_response(http::status::not_found, "not_online",
                            "this user is not online: there is no expiry to pause");
    case HoldReport::Verdict::kTooMany:
      return error_response(http::status::conflict, "too_many_holds",
                            "as many users are held as may be: release others first");
    case HoldReport::Verdict::kHeld:
      break;
  }
  return json_response({{"uid", percent_encode(uid)},
                        {"since_ms", report.hold.since_ms},
                        {"until_ms", report.hold.until_ms}});
}

void hold(StatusSource& source, const RouteLimits& limits, const std::string& uid,
          const Request& request, Responder respond) {
  const std::array members{JsonMember{
      .name = "for_ms", .max = static_cast<std::uint64_t>(limits.hold_max.count()), .min = 1}};
  const auto parsed = JsonBody::parse(request.body, members);
  if (const auto* refusal = std::get_if<Response>(&parsed)) return respond(*refusal);
  const std::chrono::milliseconds length(std::get<JsonBody>(parsed).number("for_ms").value_or(
      static_cast<std::uint64_t>(limits.hold_usual.count())));
  source.async_hold(uid, length,
                    [uid, respond = std::move(respond)](const std::optional<HoldReport>& report) {
                      respond(report ? held(uid, *report)
                                     : busy_response("the shard of this user did not answer in "
                                                     "time; the user may still be held"));
                    });
}

void release(StatusSource& source, const std::string& uid, Responder respond) {
  source.async_release(
      uid, [uid, respond = std::move(respond)](const std::optional<ReleaseReport>& report) {
        if (!report) {
          return respond(busy_response(
              "the shard of this user did not answer in time; the user may still be released"));
        }
        if (!report->was_held) {
          return respond(error_response(http::status::not_found, "not_held",
                                        "this user is not held: there is nothing to release"));
        }
        respond(json_response({{"uid", percent_encode(uid)}, {"held_ms", report->held_ms}}));
      });
}

/// Decodes `uids` in place. What is wrong with them, if anything is.
std::optional<Response> decode_uids(std::vector<std::string>& uids, const RouteLimits& limits) {
  for (std::size_t i = 0; i < uids.size(); ++i) {
    std::optional<std::string> bytes = percent_decode(uids[i]);
    if (!bytes) {
      return error_response(http::status::bad_request, "bad_encoding",
                            "uids[" + std::to_string(i) +
                                "] is not percent-encoded: each '%' must be followed by two "
                                "hexadecimal digits, and a '%' itself is written %25");
    }
    if (bytes->empty() || bytes->size() > limits.uid_bytes_max) {
      return error_response(http::status::bad_request, "bad_uid",
                            "uids[" + std::to_string(i) + "]: a uid has 1 to " +
                                std::to_string(limits.uid_bytes_max) +
                                " bytes after decoding, this one has " +
                                std::to_string(bytes->size()));
    }
    uids[i] = std::move(*bytes);
  }
  return std::nullopt;
}

void query(StatusSource& source, const RouteLimits& limits, const Request& request,
           Responder respond) {
  const std::array members{JsonMember{.name = "uids",
                                      .kind = JsonMember::Kind::kTexts,
                                      .max = limits.query_uids_max,
                                      .required = true}};
  auto parsed = JsonBody::parse(request.body, members);
  if (auto* refusal = std::get_if<Response>(&parsed)) return respond(std::move(*refusal));
  std::vector<std::string> uids = std::get<JsonBody>(parsed).take_texts("uids");
  if (auto refusal = decode_uids(uids, limits)) return respond(std::move(*refusal));
  source.async_query(std::move(uids), [respond = std::move(respond)](
                                          const std::optional<std::vector<UserLine>>& users) {
    respond(users ? users_response(*users) : busy_response(kShardsAreBusy));
  });
}

void list(StatusSource& source, const RouteLimits& limits, const Request& request,
          Responder respond) {
  static constexpr std::array<std::string_view, 3> kNames{"state", "cursor", "limit"};
  auto parsed = QueryString::parse(request.query, kNames);
  if (auto* refusal = std::get_if<Response>(&parsed)) return respond(std::move(*refusal));
  const auto& parameters = std::get<QueryString>(parsed);
  if (parameters.text("state").value_or("online") != "online") {
    return respond(error_response(http::status::bad_request, "bad_parameter",
                                  "state must be online: others are not listed"));
  }
  auto limit = parameters.number("limit", kUsualPageUsers, 1, limits.page_users_max);
  if (auto* refusal = std::get_if<Response>(&limit)) return respond(std::move(*refusal));
  const bool known =
      source.async_list(parameters.text("cursor").value_or(""), std::get<std::uint64_t>(limit),
                        [respond](const std::optional<UserPage>& page) {
                          respond(page ? page_response(*page) : busy_response(kShardsAreBusy));
                        });
  if (known) return;
  respond(error_response(http::status::bad_request, "bad_cursor",
                         "cursor must be the next_cursor of a page of this run of the daemon; "
                         "leave it out to begin anew"));
}

std::vector<ApiParam> list_params() {
  return {
      {"state", "Only online users are listed", "online", ApiParam::Kind::kText},
      {"cursor", "next_cursor of the page before; left out for the first", "",
       ApiParam::Kind::kText},
      {"limit", "Users in a page at most: 1 to 10000, usually 100", "50", ApiParam::Kind::kNumber}};
}

}  // namespace

void add_user_routes(ApiTable& table, StatusSource& source, const RouteLimits& limits) {
  using http::status;
  using http::verb;
  table.push_back({.pattern = "/v1/users",
                   .summary = "Who is online, page by page; who stays online is there once",
                   .query = list_params(),
                   .answer = "UserPage",
                   .refusals = {status::bad_request, status::service_unavailable},
                   .handler = [&source, limits](const Request& request, Responder respond) {
                     list(source, limits, request, std::move(respond));
                   }});
  table.push_back(
      {.method = verb::post,
       .pattern = "/v1/users:query",
       .summary = "The states of up to 10000 users in one call",
       .body = "QueryRequest",
       .answer = "QueryAnswer",
       .refusals = {status::bad_request, status::payload_too_large, status::service_unavailable},
       .options = {.body_bytes_max = limits.query_bytes_max},
       .handler = [&source, limits](const Request& request, Responder respond) {
         query(source, limits, request, std::move(respond));
       }});
  const auto add = [&](verb method, std::string_view pattern, std::string_view summary,
                       std::string_view answer, std::vector<status> refusals, auto act) {
    refusals.insert(refusals.end(), {status::bad_request, status::service_unavailable});
    table.push_back({.method = method,
                     .pattern = pattern,
                     .summary = summary,
                     .answer = answer,
                     .refusals = std::move(refusals),
                     .handler = for_user(limits, [&source, act](const std::string& uid,
                                                                const Request&, Responder respond) {
                       act(source, uid, std::move(respond));
                     })});
  };
  add(verb::get, "/v1/users/{uid}", "One user's state and sessions", "User", {}, user);
  add(verb::get, "/v1/users/{uid}:explain", "Why a user is what it is, and what happens next",
      "Explanation", {}, explain);
  add(verb::post, "/v1/users/{uid}:kick", "Makes a user offline at once and closes its sessions",
      "KickAnswer", {status::not_found}, kick);
  add(verb::post, "/v1/users/{uid}:release",
      "Lets a held user's expiry go on, with the time that was left", "ReleaseAnswer",
      {status::not_found}, release);
  table.push_back(
      {.method = verb::post,
       .pattern = "/v1/users/{uid}:hold",
       .summary = "Pauses an online user's expiry, an hour or for_ms at most",
       .body = "HoldRequest",
       .answer = "HoldAnswer",
       .refusals = {status::bad_request, status::not_found, status::conflict,
                    status::service_unavailable},
       .handler = for_user(limits, [&source, limits](const std::string& uid, const Request& request,
                                                     Responder respond) {
         hold(source, limits, uid, request, std::move(respond));
       })});
}

}  // namespace pulsewheel

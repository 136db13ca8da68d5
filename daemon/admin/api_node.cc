#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include <prometheus/text_serializer.h>

#include "daemon/admin/api_tables.h"
#include "daemon/base/build_info.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

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

Json level_json(const WheelReport::Level& level) {
  return {{"ticks_per_slot", level.ticks_per_slot}, {"hand", level.hand}, {"slots", level.counts}};
}

Json levels_json(const std::vector<WheelReport::Level>& levels) {
  Json out = Json::array();
  for (const WheelReport::Level& level : levels)
    out.push_back(level_json(level));
  return out;
}

/// Slot by slot over all shards: they count the same ticks. Requires a shard.
std::vector<WheelReport::Level> sum_of(const std::vector<WheelReport::OfShard>& shards) {
  const auto furthest = std::max_element(
      shards.begin(), shards.end(), [](const auto& a, const auto& b) { return a.tick < b.tick; });
  std::vector<WheelReport::Level> sum = furthest->levels;
  for (const WheelReport::OfShard& shard : shards) {
    if (&shard == &*furthest) continue;
    for (std::size_t level = 0; level < sum.size(); ++level) {
      for (std::size_t slot = 0; slot < sum[level].counts.size(); ++slot)
        sum[level].counts[slot] += shard.levels[level].counts[slot];
    }
  }
  return sum;
}

Response wheel_response(const WheelReport& report) {
  Json shards = Json::array();
  for (const WheelReport::OfShard& shard : report.shards) {
    shards.push_back({{"shard", shard.shard},
                      {"tick", shard.tick},
                      {"clock_tick", shard.clock_tick},
                      {"armed", shard.armed},
                      {"levels", levels_json(shard.levels)}});
  }
  return json_response({{"tick_s", report.tick_s},
                        {"levels", levels_json(sum_of(report.shards))},
                        {"shards", std::move(shards)}});
}

void wheel(StatusSource& source, Responder respond) {
  source.async_wheel([respond = std::move(respond)](const std::optional<WheelReport>& report) {
    respond(report ? wheel_response(*report) : busy_response("a shard did not answer in time"));
  });
}

void drain(StatusSource& source, Responder respond) {
  source.async_drain([respond = std::move(respond)](const std::optional<DrainReport>& report) {
    if (!report) return respond(busy_response("the daemon did not answer in time"));
    Response response =
        json_response({{"connections", report->connections}, {"window_ms", report->window_ms}});
    response.status = http::status::accepted;
    respond(std::move(response));
  });
}

Json changes_json(const std::vector<ReloadReport::Change>& changes) {
  Json out = Json::array();
  for (const ReloadReport::Change& change : changes)
    out.push_back({{"key", change.key}, {"before", change.before}, {"after", change.after}});
  return out;
}

Response reloaded(const ReloadReport& report) {
  if (report.problems.empty()) {
    return json_response({{"changed", changes_json(report.changed)},
                          {"needs_restart", changes_json(report.needs_restart)}});
  }
  Response response = json_response(
      {{"error",
        {{"code", "bad_config"},
         {"message", "the configuration was not reloaded, everything stays as it was"}}},
       {"problems", report.problems}});
  response.status = http::status::unprocessable_entity;
  return response;
}

void reload(StatusSource& source, Responder respond) {
  source.async_reload([respond = std::move(respond)](const std::optional<ReloadReport>& report) {
    respond(report ? reloaded(*report)
                   : busy_response("the daemon stops, or did not answer in time"));
  });
}

/// A route that is answered at once.
template <class Answer>
Handler at_once(Answer answer) {
  return [answer](const Request&, const Responder& respond) { respond(answer()); };
}

/// What a supervisor asks, without a token: answered by "ok", or 503 and why not.
ApiRoute probe(std::string_view pattern, std::string_view summary, Handler handler) {
  return {.pattern = pattern,
          .summary = summary,
          .answer = "Text",
          .answer_type = kTextType,
          .refusals = {http::status::service_unavailable},
          .options = {.open = true},
          .handler = std::move(handler)};
}

}  // namespace

Response busy_response(std::string_view message) {
  Response busy = error_response(http::status::service_unavailable, "timeout", message);
  busy.fields.emplace_back(http::field::retry_after, "1");
  return busy;
}

void add_node_routes(ApiTable& table, StatusSource& source) {
  constexpr auto kUnavailable = http::status::service_unavailable;
  table.push_back(
      probe("/livez", "Whether every shard turns", at_once([&source] { return livez(source); })));
  table.push_back(
      probe("/readyz", "Whether clients may come", at_once([&source] { return readyz(source); })));
  table.push_back({.pattern = "/metrics",
                   .summary = "All metrics, for Prometheus",
                   .answer = "Text",
                   .answer_type = kMetricsType,
                   .handler = at_once([&source] { return metrics(source); })});
  table.push_back({.pattern = "/version",
                   .summary = "What is running",
                   .answer = "Version",
                   .handler = at_once(version)});
  table.push_back({.pattern = "/v1/status",
                   .summary = "The node's state and totals",
                   .answer = "Status",
                   .handler = at_once([&source] { return json_response(source.status()); })});
  table.push_back({.pattern = "/v1/wheel",
                   .summary = "The timing wheels, slot by slot",
                   .answer = "Wheel",
                   .refusals = {kUnavailable},
                   .handler = [&source](const Request&, Responder respond) {
                     wheel(source, std::move(respond));
                   }});
  table.push_back({.method = http::verb::post,
                   .pattern = "/v1/drain",
                   .summary = "Stops the daemon in order: clients leave over drain.window",
                   .answer = "DrainAnswer",
                   .status = http::status::accepted,
                   .refusals = {kUnavailable},
                   .handler = [&source](const Request&, Responder respond) {
                     drain(source, std::move(respond));
                   }});
  table.push_back({.method = http::verb::post,
                   .pattern = "/v1/reload",
                   .summary = "Reads the configuration again; a mistake in it changes nothing",
                   .answer = "ReloadAnswer",
                   .refusals = {http::status::unprocessable_entity, kUnavailable},
                   .handler = [&source](const Request&, Responder respond) {
                     reload(source, std::move(respond));
                   }});
}

}  // namespace pulsewheel

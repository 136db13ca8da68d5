#include "daemon/admin/user_json.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/base/percent.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json session_json(const SessionReport& session) {
  return {{"id", std::to_string(session.id)},         {"shard", session.shard},
          {"device", percent_encode(session.device)}, {"lingering", session.lingering},
          {"login_at_ms", session.login_at_ms},       {"last_seen_ms", session.last_seen_ms},
          {"deadline_ms", session.deadline_ms},       {"timeout_ms", session.timeout_ms}};
}

Json explained_session_json(const SessionExplanation& explained) {
  Json out = session_json(explained.session);
  out["address"] = explained.address.empty() ? Json(nullptr) : Json(explained.address);
  out["packet_age_ms"] = explained.packet_age_ms;
  out["remaining_ms"] = explained.remaining_ms;
  out["wheel"] = nullptr;
  if (explained.wheel) {
    out["wheel"] = {{"level", explained.wheel->level}, {"slot", explained.wheel->slot}};
  }
  return out;
}

void append_number(std::string& out, std::int64_t number) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void append_time(std::string& out, const std::optional<std::int64_t>& ms) {
  if (!ms) {
    out += "null";
  } else {
    append_number(out, *ms);
  }
}

/// What is percent-encoded needs no escapes in JSON.
void append_encoded(std::string& out, std::string_view bytes) {
  out += '"';
  append_percent_encoded(out, bytes);
  out += '"';
}

void append_user(std::string& out, const UserLine& user) {
  out += R"({"uid":)";
  append_encoded(out, user.uid);
  out += R"(,"state":")";
  out += user.state;
  out += R"(","since_ms":)";
  append_time(out, user.since_ms);
  out += R"(,"last_seen_ms":)";
  append_time(out, user.last_seen_ms);
  out += R"(,"sessions":)";
  append_number(out, static_cast<std::int64_t>(user.sessions));
  out += R"(,"devices":[)";
  for (std::size_t i = 0; i < user.devices.size(); ++i) {
    if (i > 0) out += ',';
    append_encoded(out, user.devices[i]);
  }
  out += "]}";
}

/// Without the end of the object.
std::string begin_users(const std::vector<UserLine>& users) {
  static constexpr std::size_t kUsualUserBytes = 160;
  std::string out;
  out.reserve(users.size() * kUsualUserBytes);
  out += R"({"users":[)";
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (i > 0) out += ',';
    append_user(out, users[i]);
  }
  out += ']';
  return out;
}

Response json_text_response(std::string text) {
  Response response;
  response.content_type = kJsonType;
  response.body = std::move(text);
  return response;
}

}  // namespace

Json to_json(std::string_view uid, const UserReport& report) {
  Json sessions = Json::array();
  for (const SessionReport& session : report.sessions)
    sessions.push_back(session_json(session));
  return {{"uid", percent_encode(uid)},
          {"state", report.state},
          {"since_ms", or_null(report.since_ms)},
          {"last_seen_ms", or_null(report.last_seen_ms)},
          {"sessions", std::move(sessions)}};
}

Json to_json(std::string_view uid, const Explanation& explanation) {
  Json out = to_json(uid, explanation.user);
  out["sessions"] = Json::array();
  for (const SessionExplanation& session : explanation.sessions)
    out["sessions"].push_back(explained_session_json(session));
  out["summary"] = summary_of(explanation);
  out["home_shard"] = explanation.home_shard;
  out["now_ms"] = explanation.now_ms;
  out["hold"] = nullptr;
  if (explanation.hold) {
    out["hold"] = {{"since_ms", explanation.hold->since_ms},
                   {"until_ms", explanation.hold->until_ms}};
  }
  out["edges"] = Json::array();
  for (const EdgeReport& edge : explanation.edges) {
    out["edges"].push_back({{"seq", or_null(edge.seq)},
                            {"kind", edge.kind},
                            {"reason", edge.reason},
                            {"at_ms", edge.at_ms},
                            {"last_seen_ms", or_null(edge.last_seen_ms)}});
  }
  return out;
}

Response users_response(const std::vector<UserLine>& users) {
  return json_text_response(begin_users(users) + "}\n");
}

Response page_response(const UserPage& page) {
  std::string text = begin_users(page.users) + R"(,"next_cursor":)";
  text += page.next_cursor.empty() ? "null" : '"' + page.next_cursor + '"';
  return json_text_response(text + "}\n");
}

}  // namespace pulsewheel

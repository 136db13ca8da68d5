#include "daemon/ctl/commands.h"

#include <sysexits.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/base/percent.h"

namespace pulsewheel::ctl {

using Json = nlohmann::json;

namespace {

constexpr unsigned kStatusOk = 200;
constexpr unsigned kStatusServerErrors = 500;

int complain(CommandContext& context, std::string_view what, int exit_code) {
  context.err << "pulsewheelctl: " << what << '\n';
  return exit_code;
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// A value as text. A string stands as it is while it cannot harm a terminal.
std::string to_text(const Json& value) {
  if (!value.is_string()) return dump(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(),
                                                  [](char c) { return c >= 0x20 && c < 0x7f; });
  return plain ? text : dump(value);
}

std::string member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? "?" : to_text(*found);
}

// Unix milliseconds as "2026-01-31 12:00:00.250 UTC"; "never" for null.
std::string time_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return "never";
  const auto ms = found->get<std::int64_t>();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &utc);
  std::string fraction = std::to_string(ms % 1000);
  fraction.insert(0, 3 - std::min<std::size_t>(3, fraction.size()), '0');
  return std::string(text.data()) + "." + fraction + " UTC";
}

using Lines = std::vector<std::pair<std::string, std::string>>;

void flatten(const std::string& path, const Json& value, Lines& lines) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items()) {
      flatten(path.empty() ? key : path + "." + key, inner, lines);
    }
  } else if (value.is_array() && !value.empty()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      flatten(path + "[" + std::to_string(i) + "]", value[i], lines);
    }
  } else {
    lines.emplace_back(to_text(path), to_text(value));
  }
}

std::string in_columns(const Lines& lines) {
  std::size_t width = 0;
  for (const auto& [name, value] : lines)
    width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, value] : lines) {
    out.append(name).append(width + 2 - name.size(), ' ').append(value).append("\n");
  }
  return out;
}

std::string user_text(const Json& user) {
  const Json sessions = user.value("sessions", Json::array());
  std::string out = in_columns({{"uid", member(user, "uid")},
                                {"state", member(user, "state")},
                                {"since", time_text(user, "since_ms")},
                                {"last seen", time_text(user, "last_seen_ms")},
                                {"sessions", std::to_string(sessions.size())}});
  for (const Json& session : sessions) {
    Lines lines = {{"  session", member(session, "id")},
                   {"  shard", member(session, "shard")},
                   {"  device", member(session, "device")},
                   {"  lingering", member(session, "lingering")},
                   {"  login", time_text(session, "login_at_ms")},
                   {"  last seen", time_text(session, "last_seen_ms")},
                   {"  deadline", time_text(session, "deadline_ms")},
                   {"  timeout", member(session, "timeout_ms") + " ms"}};
    out += "\n" + in_columns(lines);
  }
  return out;
}

std::string kick_text(const Json& answer) {
  return "kicked " + member(answer, "uid") +
         ", sessions closed: " + member(answer, "kicked_sessions") + "\n";
}

constexpr std::string_view kBadUid =
    "UID is percent-encoded: each '%' is followed by two hexadecimal digits, a '%' itself is "
    "written %25, and it is not empty";

// The path of a user named on the command line; nullopt for kBadUid.
std::optional<std::string> user_target(std::string_view uid) {
  const std::optional<std::string> bytes = percent_decode(uid);
  if (!bytes || bytes->empty()) return std::nullopt;
  return "/v1/users/" + percent_encode(*bytes);
}

// The message of a JSON error; else something that names the status.
std::string error_message(const Answer& answer) {
  const Json body = Json::parse(answer.body, nullptr, false);
  if (body.is_object() && body.contains("error")) {
    const Json& error = body["error"];
    if (error.is_object() && error.contains("message")) return to_text(error["message"]);
  }
  return "HTTP status " + std::to_string(answer.status);
}

// Prints the JSON object that was answered, as it is or by `to_human`.
template <class ToHuman>
int show(CommandContext& context, const Answer& answer, ToHuman to_human) {
  if (answer.status != kStatusOk) {
    const int code = answer.status >= kStatusServerErrors ? EX_UNAVAILABLE : kExitNo;
    return complain(context, "the daemon says: " + error_message(answer), code);
  }
  const Json body = Json::parse(answer.body, nullptr, false);
  if (!body.is_object()) {
    return complain(context,
                    "what answers at http://" + context.url.authority() + " is no pulsewheeld",
                    EX_UNAVAILABLE);
  }
  context.out << (context.json ? dump(body) + "\n" : to_human(body));
  return kExitOk;
}

}  // namespace

int healthcheck(CommandContext& context, bool live) {
  const std::string good = live ? "live" : "ready";
  int code = kExitNo;
  std::string message;
  try {
    const Answer answer = http_get(context.url, live ? "/livez" : "/readyz", context.timeout);
    if (answer.status == kStatusOk) {
      code = kExitOk;
      message = good;
    } else {
      message = "not " + good + ": " + error_message(answer);
    }
  } catch (const UnreachableError& e) {
    code = EX_UNAVAILABLE;
    message = e.what();
  }
  const bool healthy = code == kExitOk;
  context.out << (context.json ? dump({{"healthy", healthy}, {"message", message}}) : message)
              << '\n';
  return code;
}

int status(CommandContext& context) {
  return show(context, http_get(context.url, "/v1/status", context.timeout), to_lines);
}

int user(CommandContext& context, std::string_view uid) {
  const std::optional<std::string> target = user_target(uid);
  if (!target) return complain(context, kBadUid, EX_USAGE);
  return show(context, http_get(context.url, *target, context.timeout), user_text);
}

int kick(CommandContext& context, std::string_view uid) {
  const std::optional<std::string> target = user_target(uid);
  if (!target) return complain(context, kBadUid, EX_USAGE);
  return show(context, http_post(context.url, *target + ":kick", context.timeout), kick_text);
}

std::string to_lines(const Json& value) {
  Lines lines;
  flatten("", value, lines);
  return in_columns(lines);
}

}  // namespace pulsewheel::ctl

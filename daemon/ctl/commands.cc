#include "daemon/ctl/commands.h"

#include <sysexits.h>
#include <unistd.h>

#include <csignal>
#include <ostream>
#include <utility>

#include "daemon/base/percent.h"

namespace pulsewheel::ctl {
namespace {

constexpr unsigned kStatusAccepted = 202;
constexpr unsigned kStatusUnauthorized = 401;
constexpr unsigned kStatusForbidden = 403;
constexpr unsigned kStatusServerErrors = 500;

constexpr std::string_view kUidRule =
    "it is percent-encoded, with two hexadecimal digits behind each '%' and %25 for a '%' itself, "
    "and not empty";
/// Of a wrong uid, so much is shown.
constexpr std::size_t kShownBytesMax = 80;

std::string user_text(const Json& user) {
  const Json sessions = user.value("sessions", Json::array());
  std::string out = in_columns({{"uid", member(user, "uid")},
                                {"state", member(user, "state")},
                                {"since", time_text(user, "since_ms")},
                                {"last seen", time_text(user, "last_seen_ms")},
                                {"sessions", std::to_string(sessions.size())}});
  for (const Json& session : sessions) {
    const Lines lines = {{"  session", member(session, "id")},
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

/// "level 0, slot 17"
std::string wheel_text(const Json& session) {
  const Json wheel = session.value("wheel", Json());
  if (!wheel.is_object()) return "being handled";
  return "level " + member(wheel, "level") + ", slot " + member(wheel, "slot");
}

std::string explained_session_text(const Json& session) {
  return in_columns({{"  session", member(session, "id")},
                     {"  shard", member(session, "shard")},
                     {"  address", member(session, "address")},
                     {"  device", member(session, "device")},
                     {"  lingering", member(session, "lingering")},
                     {"  login", time_text(session, "login_at_ms")},
                     {"  last packet", seconds_text(session, "packet_age_ms") + " ago"},
                     {"  timeout", seconds_text(session, "timeout_ms")},
                     {"  deadline", time_text(session, "deadline_ms") + ", in " +
                                        seconds_text(session, "remaining_ms")},
                     {"  wheel", wheel_text(session)}});
}

std::string explanation_text(const Json& answer) {
  Lines lines = {{"uid", member(answer, "uid")},
                 {"summary", member(answer, "summary")},
                 {"since", time_text(answer, "since_ms")},
                 {"last seen", time_text(answer, "last_seen_ms")},
                 {"home shard", member(answer, "home_shard")}};
  if (const Json hold = answer.value("hold", Json()); hold.is_object()) {
    lines.emplace_back("held since", time_text(hold, "since_ms"));
    lines.emplace_back("held until", time_text(hold, "until_ms"));
  }
  for (const Json& edge : answer.value("edges", Json::array())) {
    lines.emplace_back("edge", time_text(edge, "at_ms") + "  " + member(edge, "kind") + " (" +
                                   member(edge, "reason") + ")");
  }
  std::string out = in_columns(lines);
  for (const Json& session : answer.value("sessions", Json::array()))
    out += "\n" + explained_session_text(session);
  return out;
}

std::string kick_text(const Json& answer) {
  return "kicked " + member(answer, "uid") +
         ", sessions closed: " + member(answer, "kicked_sessions") + "\n";
}

std::string hold_text(const Json& answer) {
  return "held " + member(answer, "uid") + " until " + time_text(answer, "until_ms") + "\n";
}

std::string release_text(const Json& answer) {
  return "released " + member(answer, "uid") + ", held for " + seconds_text(answer, "held_ms") +
         "\n";
}

std::string drain_text(const Json& answer) {
  return "draining: " + member(answer, "connections") + " connections leave within " +
         seconds_text(answer, "window_ms") + "\n";
}

std::string reload_text(const Json& answer) {
  std::string out;
  for (const Json& change : answer.value("changed", Json::array())) {
    out += member(change, "key") + ": " + member(change, "before") + " is now " +
           member(change, "after") + "\n";
  }
  for (const Json& change : answer.value("needs_restart", Json::array())) {
    out += member(change, "key") + ": " + member(change, "before") + " stays, " +
           member(change, "after") + " takes a restart\n";
  }
  return out.empty() ? "reloaded: nothing has changed\n" : out;
}

// The message of a JSON error; else something that names the status.
std::string error_message(const Answer& answer) {
  const Json body = Json::parse(answer.body, nullptr, false);
  if (body.is_object() && body.contains("error")) {
    const Json& error = body["error"];
    if (error.is_object() && error.contains("message")) {
      std::string message = to_text(error["message"]);
      for (const Json& problem : body.value("problems", Json::array()))
        message += "\n  " + to_text(problem);
      return message;
    }
  }
  return "HTTP status " + std::to_string(answer.status);
}

int exit_code_of(unsigned status) {
  if (status == kStatusUnauthorized || status == kStatusForbidden) return EX_NOPERM;
  return status >= kStatusServerErrors ? EX_UNAVAILABLE : kExitNo;
}

// Prints the JSON object that was answered, as it is or by `to_human`.
template <class ToHuman>
int show(CommandContext& context, const Question& question, ToHuman to_human) {
  int exit_code = kExitOk;
  const auto body = object_in(context, ask(context.access, question, context.timeout), exit_code);
  if (body) context.out << (context.json ? dump(*body) + "\n" : to_human(*body));
  return exit_code;
}

// The same for a question about one user; `what` is behind the uid in the path.
template <class ToHuman>
int show_user(CommandContext& context, Question::Method method, std::string_view uid,
              std::string_view what, std::string body, ToHuman to_human) {
  const auto encoded = canonical_uid(context, uid);
  if (!encoded) return EX_USAGE;
  Question question{.method = method,
                    .target = "/v1/users/" + *encoded + std::string(what),
                    .body = std::move(body),
                    .last_event_id = {}};
  return show(context, question, to_human);
}

Question get(std::string target) {
  return {.method = Question::Method::kGet,
          .target = std::move(target),
          .body = {},
          .last_event_id = {}};
}

Question post(std::string target) {
  return {.method = Question::Method::kPost,
          .target = std::move(target),
          .body = {},
          .last_event_id = {}};
}

}  // namespace

void end_by_signal() noexcept {
  const auto end = [](int /*signal*/) { ::_exit(kExitOk); };
  std::signal(SIGINT, end);
  std::signal(SIGTERM, end);
}

int complain(CommandContext& context, std::string_view what, int exit_code) {
  context.err << "pulsewheelctl: " << what << '\n';
  return exit_code;
}

std::optional<std::string> canonical_uid(CommandContext& context, std::string_view uid) {
  const std::optional<std::string> bytes = percent_decode(uid);
  if (bytes && !bytes->empty()) return percent_encode(*bytes);
  complain(context, to_text(uid.substr(0, kShownBytesMax)) + " is no UID: " + std::string(kUidRule),
           EX_USAGE);
  return std::nullopt;
}

std::optional<Json> object_in(CommandContext& context, const Answer& answer, int& exit_code) {
  if (answer.status != kStatusOk && answer.status != kStatusAccepted) {
    const bool token_is_missing =
        answer.status == kStatusUnauthorized && context.access.token.empty();
    exit_code = complain(context,
                         "the daemon says: " + error_message(answer) +
                             (token_is_missing ? "; --token-file FILE does so" : ""),
                         exit_code_of(answer.status));
    return std::nullopt;
  }
  Json body = Json::parse(answer.body, nullptr, false);
  if (body.is_object()) return body;
  exit_code = complain(context, "what answers at " + context.access.name() + " is no pulsewheeld",
                       EX_UNAVAILABLE);
  return std::nullopt;
}

int healthcheck(CommandContext& context, bool live) {
  const std::string good = live ? "live" : "ready";
  int code = kExitNo;
  std::string message;
  try {
    const Answer answer = ask(context.access, get(live ? "/livez" : "/readyz"), context.timeout);
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
  return show(context, get("/v1/status"), to_lines);
}

int drain(CommandContext& context) {
  return show(context, post("/v1/drain"), drain_text);
}

int reload(CommandContext& context) {
  return show(context, post("/v1/reload"), reload_text);
}

int user(CommandContext& context, std::string_view uid) {
  return show_user(context, Question::Method::kGet, uid, "", {}, user_text);
}

int explain(CommandContext& context, std::string_view uid) {
  return show_user(context, Question::Method::kGet, uid, ":explain", {}, explanation_text);
}

int kick(CommandContext& context, std::string_view uid) {
  return show_user(context, Question::Method::kPost, uid, ":kick", {}, kick_text);
}

int hold(CommandContext& context, std::string_view uid,
         std::optional<std::chrono::milliseconds> length) {
  std::string body;
  if (length) body = dump({{"for_ms", length->count()}});
  return show_user(context, Question::Method::kPost, uid, ":hold", std::move(body), hold_text);
}

int release(CommandContext& context, std::string_view uid) {
  return show_user(context, Question::Method::kPost, uid, ":release", {}, release_text);
}

}  // namespace pulsewheel::ctl

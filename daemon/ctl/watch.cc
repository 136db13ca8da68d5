#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <thread>
#include <utility>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/sse.h"

namespace pulsewheel::ctl {
namespace {

/// The daemon says something at least this often; a longer silence is a broken connection.
constexpr std::chrono::milliseconds kSilenceMax{60'000};
constexpr std::chrono::milliseconds kPauseBeforeRetry{1'000};

/// "2026-01-02T03:04:35.000412Z  offline  alice  (timeout)", or what the stream has to say of
/// itself.
std::string text_of(const Json& event) {
  if (event.contains("kind")) {
    return member(event, "at") + "  " + member(event, "kind") + "  " + member(event, "uid") +
           "  (" + member(event, "reason") + ")";
  }
  if (event.contains("resync")) return "-- edges are missing here: ask for the state anew";
  if (event.contains("gap")) return "-- the daemon itself has lost edges here";
  return dump(event);
}

}  // namespace

int watch(CommandContext& context, const std::optional<std::string>& uid,
          const std::string& cursor) {
  Question question{.method = Question::Method::kGet,
                    .target = "/v1/events",
                    .body = {},
                    .last_event_id = cursor};
  if (uid) {
    const auto encoded = canonical_uid(context, *uid);
    if (!encoded) return EX_USAGE;
    question.target += "?uid=" + *encoded;
  }
  const auto show = [&](const SseEvent& event) {
    const Json body = Json::parse(event.data, nullptr, false);
    if (body.is_object()) {
      context.out << (context.json ? dump(body) : text_of(body)) << '\n' << std::flush;
    }
  };
  end_by_signal();
  for (bool was_connected = false;;) {
    SseReader reader(show, question.last_event_id);
    try {
      const Answer answer = follow(context.access, question, std::max(context.timeout, kSilenceMax),
                                   [&](std::string_view bytes) {
                                     was_connected = true;
                                     return reader.feed(bytes) && context.out.good();
                                   });
      if (!context.out) return EX_IOERR;
      int exit_code = kExitOk;
      if (answer.status != kStatusOk && !object_in(context, answer, exit_code)) return exit_code;
    } catch (const UnreachableError&) {
      if (!was_connected) throw;
    }
    question.last_event_id = reader.last_event_id();
    std::this_thread::sleep_for(kPauseBeforeRetry);
  }
}

}  // namespace pulsewheel::ctl

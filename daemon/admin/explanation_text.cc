#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "daemon/admin/reports.h"

namespace pulsewheel {
namespace {

constexpr std::int64_t kMsPerSecond = 1'000;

/// "12.3 s"
std::string seconds(std::int64_t ms) {
  const std::int64_t tenths = std::max<std::int64_t>(ms, 0) / (kMsPerSecond / 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string_view why_offline(std::string_view reason) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWhy{
      {{"timeout", "no packet came within the timeout"},
       {"logout", "the last session logged out"},
       {"disconnect", "the last connection closed, and nobody came back by the deadline"},
       {"kicked", "an operator ended the sessions"},
       {"shutdown", "this node stopped"}}};
  for (const auto& [name, why] : kWhy) {
    if (name == reason) return why;
  }
  return reason;
}

std::string offline_summary(const Explanation& e) {
  if (!e.user.since_ms) {
    return "offline: nothing is known of this uid; it has not logged in here, or its record was "
           "dropped after presence.offline_retention";
  }
  std::string text = "offline for " + seconds(e.now_ms - *e.user.since_ms);
  if (!e.edges.empty()) text.append(": ").append(why_offline(e.edges.front().reason));
  if (e.user.last_seen_ms) {
    text +=
        "; the last packet came " + seconds(*e.user.since_ms - *e.user.last_seen_ms) + " before";
  }
  return text;
}

std::string online_summary(const Explanation& e) {
  const auto live = std::count_if(e.sessions.begin(), e.sessions.end(),
                                  [](const auto& s) { return !s.session.lingering; });
  std::int64_t remaining_ms = 0;
  for (const SessionExplanation& session : e.sessions)
    remaining_ms = std::max(remaining_ms, session.remaining_ms);
  std::string text = live == 0 ? "online without a connection (lingering)"
                               : "online, live sessions: " + std::to_string(live);
  if (e.hold) {
    return text + "; held, so that no deadline runs for the next " +
           seconds(e.hold->until_ms - e.now_ms) + "; then " + seconds(remaining_ms) + " are left";
  }
  return text + "; offline in " + seconds(remaining_ms) +
         (live == 0 ? " unless the client comes back" : " if nothing more comes");
}

}  // namespace

std::string summary_of(const Explanation& explanation) {
  if (explanation.user.state == "online") return online_summary(explanation);
  if (explanation.user.state == "offline") return offline_summary(explanation);
  return "unknown: the run before this one did not stop in order, and until restart.grace ends "
         "this "
         "user may just be coming back";
}

}  // namespace pulsewheel

#include "tests/client_sim/soak/footprint.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/client_sim/daemon_usage.h"
#include "tests/client_sim/http_request.h"

namespace pulsewheel::sim {
namespace {

namespace fs = std::filesystem;

std::uint64_t count_entries(const std::string& folder) {
  std::error_code failure;
  const fs::directory_iterator entries(folder, failure);
  return failure ? 0 : static_cast<std::uint64_t>(std::distance(entries, {}));
}

std::string text_of(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

void say_unless_zero(const char* what, double value, std::vector<std::string>& out) {
  if (value != 0) out.push_back(text_of(value) + " " + what);
}

void say_if_grown(const char* what, double before, double now, std::vector<std::string>& out) {
  if (now > before) {
    out.push_back(text_of(now) + " " + what + ", and " + text_of(before) + " in the beginning");
  }
}

/// The value of a sample line of `name` whose labels contain `label`.
std::optional<double> sample(std::string_view line, std::string_view name, std::string_view label) {
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  const std::size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view labels = line.substr(0, space);
  if (!labels.empty() && labels.front() != '{') return std::nullopt;  // a longer name
  if (labels.find(label) == std::string_view::npos) return std::nullopt;
  double value = 0;
  std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
  return value;
}

}  // namespace

std::optional<double> metric_sum(std::string_view text, std::string_view name,
                                 std::string_view label) {
  std::optional<double> sum;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto value = sample(text.substr(0, end), name, label)) {
      sum = sum.value_or(0) + *value;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sum;
}

std::optional<Footprint> read_footprint(pid_t pid, const std::string& http) {
  // Before the request: its connection is the daemon's for a moment longer than it is ours.
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::uint64_t descriptors = count_entries(folder + "/fd");
  const auto answer = http_request(http, "GET", "/metrics");
  if (!answer || answer->status != 200) return std::nullopt;
  const auto usage = read_usage(pid);
  if (!usage) return std::nullopt;
  bool complete = true;
  const auto metric = [&](std::string_view name, std::string_view label = "") {
    const auto value = metric_sum(answer->body, name, label);
    complete = complete && value.has_value();
    return value.value_or(0);
  };
  Footprint out;
  out.rss_bytes = usage->rss_bytes;
  out.descriptors = descriptors;
  out.threads = count_entries(folder + "/task");
  out.connections = metric("pulsewheel_connections");
  out.users_online = metric("pulsewheel_users", "state=\"online\"");
  out.users_remembered = metric("pulsewheel_users", "state=\"offline_remembered\"");
  out.partial_frame_bytes = metric("pulsewheel_partial_frame_bytes");
  out.backlog_bytes = metric("pulsewheel_backlog_bytes");
  out.timers_armed = metric("pulsewheel_timers_armed");
  out.service_timers_armed = metric("pulsewheel_service_timers_armed");
  out.edges_queued =
      metric("pulsewheel_sequencer_queued_edges") + metric("pulsewheel_event_log_queued");
  return complete ? std::optional(out) : std::nullopt;
}

std::vector<std::string> leftovers(const Footprint& now) {
  std::vector<std::string> out;
  say_unless_zero("connections open", now.connections, out);
  say_unless_zero("users online", now.users_online, out);
  say_unless_zero("offline users remembered", now.users_remembered, out);
  say_unless_zero("bytes of partial frames", now.partial_frame_bytes, out);
  say_unless_zero("bytes of backlog", now.backlog_bytes, out);
  say_unless_zero("edges queued", now.edges_queued, out);
  return out;
}

std::vector<std::string> growth(const Footprint& base, const Footprint& now) {
  std::vector<std::string> out;
  say_if_grown("descriptors", static_cast<double>(base.descriptors),
               static_cast<double>(now.descriptors), out);
  say_if_grown("threads", static_cast<double>(base.threads), static_cast<double>(now.threads), out);
  say_if_grown("timers armed", base.timers_armed, now.timers_armed, out);
  say_if_grown("service timers armed", base.service_timers_armed, now.service_timers_armed, out);
  if (now.rss_bytes > base.rss_bytes + kRssSlackBytes) {
    out.push_back(std::to_string(now.rss_bytes) + " bytes resident, and " +
                  std::to_string(base.rss_bytes) + " in the beginning");
  }
  return out;
}

}  // namespace pulsewheel::sim

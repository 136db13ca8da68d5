// Footprint: everything of a daemon that must not grow, measured while nobody is connected.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pulsewheel::sim {

struct Footprint {
  std::uint64_t rss_bytes = 0;
  std::uint64_t descriptors = 0;  // of the process' table
  std::uint64_t threads = 0;
  // From /metrics.
  double connections = 0;
  double users_online = 0;  // lingering ones included
  double users_remembered = 0;
  double partial_frame_bytes = 0;
  double backlog_bytes = 0;
  double timers_armed = 0;  // of sessions and users
  double service_timers_armed = 0;
  double edges_queued = 0;
};

/// nullopt when the process or its HTTP port does not answer, or a metric is missing. Blocking.
[[nodiscard]] std::optional<Footprint> read_footprint(pid_t pid, const std::string& http);

/// The sum over all samples of `name` in the text of /metrics whose labels contain `label`;
/// nullopt without a sample.
[[nodiscard]] std::optional<double> metric_sum(std::string_view text, std::string_view name,
                                               std::string_view label = "");

/// How much larger the resident memory may be at the end: a heap that was taken apart and put
/// together for hours in other orders than in the rehearsal is not packed as tightly.
inline constexpr std::uint64_t kRssSlackBytes = 4 << 20;

/// What is left in `now` that nobody who has gone may leave behind, or more than in `base`: one
/// sentence each.
[[nodiscard]] std::vector<std::string> leftovers(const Footprint& now);
[[nodiscard]] std::vector<std::string> growth(const Footprint& base, const Footprint& now);

}  // namespace pulsewheel::sim

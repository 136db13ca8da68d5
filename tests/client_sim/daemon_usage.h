// What the daemon uses, and what it measures of itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/client_sim/lateness.h"

namespace pulsewheel::sim {

struct ProcessUsage {
  std::uint64_t rss_bytes = 0;
  double cpu_seconds = 0;  // user and system, all threads
};

/// From /proc; nullopt when there is no such process.
[[nodiscard]] std::optional<ProcessUsage> read_usage(pid_t pid);

/// The daemon's own figures, from its /metrics. Quantiles are interpolated in the histogram's
/// buckets, as Prometheus does; min and max are exact where the daemon exports them.
struct DaemonMetrics {
  Lateness::Summary lateness_s;
  Lateness::Summary loop_delay_s;
  Lateness::Summary wakeup_delay_s;
};

/// GET /metrics from `http` (HOST:PORT), blocking, for at most 5 s. nullopt when that failed.
[[nodiscard]] std::optional<DaemonMetrics> fetch_metrics(const std::string& http);

/// The same from the text.
[[nodiscard]] DaemonMetrics parse_metrics(std::string_view text);

}  // namespace pulsewheel::sim

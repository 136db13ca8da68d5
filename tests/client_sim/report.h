// The figures of a run: as a table for people and as JSON for scripts.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>

#include "tests/client_sim/daemon_usage.h"
#include "tests/client_sim/habits.h"
#include "tests/client_sim/judge.h"
#include "tests/client_sim/ring_verifier.h"

namespace pulsewheel::sim {

struct DaemonFigures {
  std::uint64_t base_rss_bytes = 0;  // before the first client
  std::uint64_t rss_bytes = 0;       // with all connected
  double rss_per_connection = 0;     // their difference, by connection
  double cpu_seconds = 0;            // until the end of the run
  double cpu_percent = 0;            // of one core, after the ramp
  double cpu_us_per_keepalive = 0;   // after the ramp; messages count as keepalives
};

/// Of --cut-all-at.
struct CutFigures {
  std::uint64_t connections = 0;  // that were cut
  std::uint64_t back = 0;         // logged in again
  std::uint64_t late = 0;         // later than --back-within, or not at all
  double slowest_seconds = 0;     // from the cut to the login of the last one
};

/// Of --restart-daemon-at and --kill-daemon-at.
struct RestartFigures {
  bool killed = false;
  double away_seconds = 0;         // from the signal until it listened again
  std::uint64_t clients = 0;       // that were logged in before
  std::uint64_t back = 0;          // of them, logged in again
  double slowest_seconds = 0;      // from when it listened to the login of the last one
  std::uint64_t online_edges = 0;  // since the signal
  std::uint64_t offline_edges = 0;
  std::uint64_t repeated_edges = 0;    // that a kill may make the daemon say again
  std::uint64_t epochs_continued = 0;  // whose numbers went on
  std::uint64_t epochs_restarted = 0;  // that began with 1

  /// Behind a stop in order the numbers go on.
  [[nodiscard]] bool broke_numbers() const noexcept { return !killed && epochs_restarted > 0; }
};

struct Figures {
  std::uint64_t connections = 0;  // at the end of the ramp
  std::uint64_t users = 0;
  std::uint64_t logins = 0;
  std::uint64_t keepalives = 0;
  std::uint64_t keepalive_acks = 0;
  std::uint64_t messages = 0;
  std::uint64_t refusals = 0;
  std::uint64_t unexpected_closes = 0;
  double connect_rate = 0;  // connected and logged in, a second, during the ramp
  double seconds = 0;       // after the ramp
  bool judged = false;      // there was an event log to follow
  Verdict verdict;
  std::uint64_t reordered_edges = 0;   // by (epoch, seq)
  std::uint64_t dropped_edges = 0;     // that the event log says it lost
  std::uint64_t skipped_edges = 0;     // numbers that no edge had, and that were not dropped
  std::uint64_t unreadable_lines = 0;  // of the event log
  std::uint64_t stalls = 0;            // of the daemon, by --freeze-daemon-at
  std::array<std::uint64_t, kChurnActs> churned{};
  std::optional<CutFigures> cut;
  std::optional<RestartFigures> restart;
  std::optional<RingFigures> ring;  // of --verify-redis
  std::optional<DaemonFigures> daemon;
  std::optional<DaemonMetrics> metrics;
  std::map<std::string, std::uint64_t> troubles;

  /// All promises that were judged have been kept.
  [[nodiscard]] bool clean() const noexcept {
    const std::uint64_t log = reordered_edges + dropped_edges + skipped_edges + unreadable_lines;
    return verdict.clean() && log == 0 && (!cut || cut->late == 0) &&
           (!restart || !restart->broke_numbers()) && (!ring || ring->equal());
  }
};

/// The keys are public interface: only add some.
[[nodiscard]] std::string to_json(const Figures& figures);

void print_table(std::ostream& out, const Figures& figures);

}  // namespace pulsewheel::sim

// Cycle: one generation of clients, from their first login until the last has left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/client_sim/connection.h"
#include "tests/client_sim/edge_follower.h"
#include "tests/client_sim/fleet.h"
#include "tests/client_sim/judge.h"
#include "tests/client_sim/options.h"
#include "tests/client_sim/run_control.h"
#include "tests/client_sim/uid_names.h"

namespace pulsewheel::sim {

/// What a cycle found out.
struct CycleFigures {
  Verdict verdict;
  Fleet::Totals totals;
  std::uint64_t reordered_edges = 0;
  std::uint64_t skipped_edges = 0;
  std::uint64_t dropped_edges = 0;
  std::uint64_t unreadable_lines = 0;
  std::map<std::string, std::uint64_t> troubles;

  [[nodiscard]] std::uint64_t violations() const noexcept {
    return verdict.violations() + reordered_edges + skipped_edges + dropped_edges +
           unreadable_lines;
  }
};

/// Main thread. The caller turns a loop and looks at the clock; nothing here blocks for long but
/// finish(). Options and target outlive it.
class Cycle {
 public:
  /// `tag` makes the uids of this cycle its own. Throws as Fleet and EdgeFollower do.
  Cycle(const Options& options, const Endpoint& target, const std::string& event_log,
        std::uint64_t tag);

  /// Connects the clients.
  void start();
  [[nodiscard]] bool all_logged_in() const;
  /// From here on churn and commands by control() work.
  void go_steady(MonoTime now) { control_.enter(Phase::kSteady, now); }
  /// Everybody leaves.
  void leave(MonoTime now);
  /// Everybody has left, and whatever edge is still to come has had its time.
  [[nodiscard]] bool has_left(MonoTime now) const;
  /// Waits until the event log has been read up to now, and judges. Call once, last.
  [[nodiscard]] CycleFigures finish();

  [[nodiscard]] RunControl& control() noexcept { return control_; }
  [[nodiscard]] Fleet::Totals totals() const { return fleet_.totals(); }

 private:
  const Options& options_;
  UidNames names_;
  RunControl control_;
  Fleet fleet_;
  std::optional<EdgeFollower> follower_;
};

}  // namespace pulsewheel::sim

// Progress: what a person sees while a run goes on.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

struct ProgressFigures {
  std::int64_t connected = 0;
  std::uint64_t logins = 0;
  std::uint64_t keepalives = 0;
  std::int64_t online = 0;
  std::int64_t offline_edges = 0;
  std::int64_t violations = 0;
};

/// On a terminal one line that is drawn again, with a bar; else a plain line every few seconds.
/// Writes to stderr: stdout is for the table. Main thread only.
class Progress {
 public:
  Progress();
  /// Ends the line.
  ~Progress();

  /// `what` is the phase; `share` of it is done, in [0, 1]. Cheap: draws only when it is time.
  void show(const std::string& what, double share, const ProgressFigures& figures, MonoTime now);
  /// A line of its own, also between two drawings.
  void say(const std::string& line);

 private:
  void draw(const std::string& what, double share, const ProgressFigures& figures, double seconds);

  bool terminal_;
  bool line_open_ = false;
  ProgressFigures shown_;
  MonoTime shown_at_;
};

}  // namespace pulsewheel::sim

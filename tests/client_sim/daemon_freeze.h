// DaemonFreeze: stops the daemon's process for a while, and sees to it that it runs again.
#pragma once

#include <sys/types.h>

#include "daemon/base/time.h"
#include "tests/client_sim/run_control.h"

namespace pulsewheel::sim {

/// One thread at a time.
class DaemonFreeze {
 public:
  DaemonFreeze(pid_t daemon, RunControl& control) : daemon_(daemon), control_(control) {}
  /// Lets a stopped daemon run again.
  ~DaemonFreeze() { end(); }
  DaemonFreeze(const DaemonFreeze&) = delete;
  DaemonFreeze& operator=(const DaemonFreeze&) = delete;

  /// SIGSTOP; the judges learn of it. No effect while the daemon is stopped already.
  void begin();
  /// SIGCONT. No effect on a running daemon.
  void end();

  [[nodiscard]] bool lasts() const noexcept { return lasts_; }

 private:
  pid_t daemon_;
  RunControl& control_;
  bool lasts_ = false;
};

}  // namespace pulsewheel::sim

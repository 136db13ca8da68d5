#include "tests/client_sim/daemon_freeze.h"

#include <signal.h>

namespace pulsewheel::sim {

void DaemonFreeze::begin() {
  if (lasts_) return;
  lasts_ = true;
  control_.daemon_stops(MonoClock::now());
  ::kill(daemon_, SIGSTOP);
}

void DaemonFreeze::end() {
  if (!lasts_) return;
  lasts_ = false;
  control_.daemon_continues(MonoClock::now());
  ::kill(daemon_, SIGCONT);
}

}  // namespace pulsewheel::sim

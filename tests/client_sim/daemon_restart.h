// DaemonRestart: one end and new start of the daemon, as judges have to know it.
#pragma once

#include "daemon/base/time.h"

namespace pulsewheel::sim {

struct DaemonRestart {
  bool killed = false;  // SIGKILL; else SIGTERM
  MonoTime left;        // before the signal
  MonoTime started;     // before the new process
  MonoTime back;        // it listens
};

}  // namespace pulsewheel::sim

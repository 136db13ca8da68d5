#include "daemon/core/close_reason.h"

namespace pulsewheel {

std::string_view to_string(CloseReason reason) noexcept {
  switch (reason) {
    case CloseReason::kLogout:
      return "logout";
    case CloseReason::kTimeout:
      return "timeout";
    case CloseReason::kLoginTimeout:
      return "login_timeout";
    case CloseReason::kPeerClosed:
      return "peer_closed";
    case CloseReason::kPeerReset:
      return "peer_reset";
    case CloseReason::kProtocolError:
      return "protocol_error";
    case CloseReason::kLoginRefused:
      return "login_refused";
    case CloseReason::kSlowConsumer:
      return "slow_consumer";
    case CloseReason::kTakenOver:
      return "taken_over";
    case CloseReason::kKicked:
      return "kicked";
    case CloseReason::kBusy:
      return "busy";
    case CloseReason::kDrained:
      return "drained";
  }
  return "?";
}

bool lingers(CloseReason reason) noexcept {
  switch (reason) {
    case CloseReason::kLogout:
    case CloseReason::kTimeout:
    case CloseReason::kTakenOver:
    case CloseReason::kKicked:
      return false;
    case CloseReason::kLoginTimeout:
    case CloseReason::kPeerClosed:
    case CloseReason::kPeerReset:
    case CloseReason::kProtocolError:
    case CloseReason::kLoginRefused:
    case CloseReason::kSlowConsumer:
    case CloseReason::kBusy:
    case CloseReason::kDrained:
      return true;
  }
  return true;
}

}  // namespace pulsewheel

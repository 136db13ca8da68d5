// CloseReason: why a session ended. Each end has exactly one, and each is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pulsewheel {

/// Append only: the names are metric labels.
enum class CloseReason : std::uint8_t {
  kLogout,         // the client said goodbye
  kTimeout,        // silent for its timeout
  kLoginTimeout,   // no complete LOGIN within the login deadline
  kPeerClosed,     // FIN
  kPeerReset,      // RST, or any other failure of the connection
  kProtocolError,  // a frame that is malformed, too long, unknown, or not allowed in this state
  kLoginRefused,   // a well-formed LOGIN that was not accepted
  kSlowConsumer,   // the backlog of bytes to send passed its cap, or made no progress in time
  kTakenOver,      // a newer login with the same uid and device
  kKicked,         // by an operator
  kBusy,           // over the connection cap
  kDrained,        // the server is going away
};
inline constexpr std::size_t kCloseReasonCount = 12;

[[nodiscard]] std::string_view to_string(CloseReason reason) noexcept;  // "logout", "timeout", ...

/// Whether a logged-in session that ended so stays alive until its deadline when
/// presence.on_disconnect is "linger": all but logout, timeout, takeover and kick.
[[nodiscard]] bool lingers(CloseReason reason) noexcept;

}  // namespace pulsewheel

// The commands of pulsewheelctl: each asks the daemon, prints, and returns an exit code. Where
// nothing else is said they throw UnreachableError.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "daemon/ctl/http_client.h"

namespace pulsewheel::ctl {

/// What all commands have in common.
struct CommandContext {
  Url url;
  std::chrono::milliseconds timeout;
  bool json = false;  // one line of JSON instead of text
  std::ostream& out;  // answers
  std::ostream& err;  // one line for whatever went wrong
};

inline constexpr int kExitOk = 0;
inline constexpr int kExitNo = 1;  // not healthy, or the daemon refused the question

/// Whether the daemon is ready for clients, or with `live` whether it runs at all. kExitOk or
/// kExitNo, with the reason; EX_UNAVAILABLE when nobody answers. All three are answers, so they
/// go to `out`.
int healthcheck(CommandContext& context, bool live);

/// The daemon's own account of itself.
int status(CommandContext& context);

/// One user's state and sessions. `uid` is percent-encoded where it has to be ('%' itself is
/// %25); EX_USAGE when it is malformed.
int user(CommandContext& context, std::string_view uid);

/// Makes a user offline at once and closes the user's sessions. `uid` as for user(); kExitNo when
/// the user is not online.
int kick(CommandContext& context, std::string_view uid);

/// One line per value, "path value" in two columns; for people and grep. Values never hold
/// control characters.
[[nodiscard]] std::string to_lines(const nlohmann::json& value);

}  // namespace pulsewheel::ctl

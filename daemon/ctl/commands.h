// The commands of pulsewheelctl: each asks the daemon, prints, and returns an exit code. Where
// nothing else is said they throw UnreachableError.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ctl/http_client.h"
#include "daemon/ctl/text.h"

namespace pulsewheel::ctl {

/// What all commands have in common.
struct CommandContext {
  Access access;
  std::chrono::milliseconds timeout;
  bool json = false;  // JSON, a line for each answer, instead of text
  std::ostream& out;  // answers
  std::ostream& err;  // one line for whatever went wrong
};

/// Beside those of sysexits.h: EX_USAGE, EX_NOINPUT (a file that cannot be read), EX_UNAVAILABLE
/// (nobody answers, or cannot answer now), EX_IOERR (`out` takes no more), EX_NOPERM (the token is
/// missing or wrong).
inline constexpr int kExitOk = 0;
inline constexpr int kExitNo = 1;  // not healthy, or the daemon refused

/// Whether the daemon is ready for clients, or with `live` whether it runs at all. kExitOk or
/// kExitNo, with the reason; EX_UNAVAILABLE when nobody answers. All three are answers, so they
/// go to `out`.
int healthcheck(CommandContext& context, bool live);

/// The daemon's own account of itself.
int status(CommandContext& context);

/// Stops the daemon in order: clients leave over the drain window.
int drain(CommandContext& context);

/// Reads the configuration again. kExitNo, with what is wrong, when it stays as it was.
int reload(CommandContext& context);

// About one user. `uid` is percent-encoded where it has to be ('%' itself is %25); EX_USAGE when it
// is malformed.

/// State and sessions.
int user(CommandContext& context, std::string_view uid);
/// Why the user is what it is, and what happens next.
int explain(CommandContext& context, std::string_view uid);
/// Makes the user offline at once and closes its sessions; kExitNo when it is not online.
int kick(CommandContext& context, std::string_view uid);
/// Pauses the user's expiry, for a while or as long as the daemon thinks right; kExitNo when it is
/// not online.
int hold(CommandContext& context, std::string_view uid,
         std::optional<std::chrono::milliseconds> length);
/// Lets it go on; kExitNo when it is not held.
int release(CommandContext& context, std::string_view uid);

/// The states of many users: `uids`, and the lines of `file` ("-": standard input) if any, encoded
/// as above; in as many calls as it takes. EX_NOINPUT for a file that cannot be read.
int query(CommandContext& context, std::vector<std::string> uids,
          const std::optional<std::string>& file);

/// Draws the daemon each `interval`: totals, rates and the wheel; `count` times, or until a signal
/// ends the program (see end_by_signal()) or `out` takes no more. Over a terminal's screen when
/// `on_terminal`, else one picture behind the other.
int top(CommandContext& context, std::chrono::milliseconds interval,
        std::optional<std::uint64_t> count, bool on_terminal);

/// Prints edges as they happen, of one user or all, until a signal ends the program (see
/// end_by_signal()) or `out` takes no more; from now on, or behind `cursor`. When the stream breaks
/// it is taken up where it was.
int watch(CommandContext& context, const std::optional<std::string>& uid,
          const std::string& cursor);

// --- What they share ---

/// From now on SIGINT (Ctrl-C) and SIGTERM end the program at once, with kExitOk: for commands to
/// which that is the only end. What is printed has to be flushed.
void end_by_signal() noexcept;

/// One line to `err`. Returns `exit_code`.
int complain(CommandContext& context, std::string_view what, int exit_code);

/// The uid, encoded once more as the daemon writes it; nullopt, with a complaint, when it is
/// malformed or empty.
[[nodiscard]] std::optional<std::string> canonical_uid(CommandContext& context,
                                                       std::string_view uid);

/// The JSON object in `answer`; else nullopt, with a complaint and the exit code for it.
[[nodiscard]] std::optional<Json> object_in(CommandContext& context, const Answer& answer,
                                            int& exit_code);

}  // namespace pulsewheel::ctl

// pulsewheelctl: the operator's command line. Asks a running daemon over its HTTP port.
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "daemon/base/build_info.h"
#include "daemon/base/secret_file.h"
#include "daemon/base/standard_streams.h"
#include "daemon/ctl/commands.h"

namespace pulsewheel::ctl {
namespace {

using Command = std::function<int(CommandContext&)>;

/// What stands on the command line.
struct CommandLine {
  std::string url = "http://127.0.0.1:7601";
  std::string unix_socket;
  std::string token_file;
  std::string timeout = "5s";
  bool json = false;
  Command command;

  // Of single commands.
  bool live = false;
  std::string uid;
  std::vector<std::string> uids;
  std::string file;
  std::string length;
  std::string interval = "1s";
  std::int64_t count = 0;
  std::string cursor;
};

constexpr const char* kExitCodes =
    "Exit codes: 0 done, or a signal has ended top or watch; 1 not healthy, or the daemon refused\n"
    "(nobody of that name is online, the configuration has a mistake); 64 wrong usage; 66 a file\n"
    "cannot be read; 69 no daemon answers there, or it cannot answer now; 74 the answer cannot be\n"
    "written; 77 the token is missing or wrong.";

constexpr const char* kUidHelp = "Percent-encoded where it holds odd bytes ('%' itself is %25)";

/// Of pictures: ten a second for a year.
constexpr std::int64_t kCountMax = 315'360'000;

/// No daemon takes longer tokens.
constexpr std::size_t kTokenBytesMax = 1'024;

// Throws std::invalid_argument saying what is allowed.
std::chrono::milliseconds parse_duration(std::string_view option, std::string_view text,
                                         std::chrono::milliseconds max, std::string_view max_text) {
  using std::chrono::milliseconds;
  static constexpr std::pair<std::string_view, milliseconds> kUnits[] = {
      {"ms", std::chrono::milliseconds(1)},
      {"s", std::chrono::seconds(1)},
      {"m", std::chrono::minutes(1)},
      {"h", std::chrono::hours(1)}};

  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, ec] = std::from_chars(text.data(), end, number);
  const std::string_view unit(number_end, static_cast<std::size_t>(end - number_end));
  for (const auto& [name, length] : kUnits) {
    if (ec == std::errc() && unit == name && number > 0 && number <= max / length) {
      return number * length;
    }
  }
  throw std::invalid_argument(std::string(option) + " '" + std::string(text) +
                              "' is none: write 1ms to " + std::string(max_text) +
                              ", as in 500ms, 5s or 1m");
}

/// The value of an option, if it is on the command line: an empty one is none that was left out,
/// but a script's variable without a value.
std::optional<std::string> given(const CLI::Option& option, const std::string& value) {
  return option.count() > 0 ? std::optional(value) : std::nullopt;
}

void add_options(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", version_line("pulsewheelctl"));
  app.add_option("--url", line.url, "The daemon's HTTP port (Env:PULSEWHEEL_URL)")
      ->type_name("URL")
      ->capture_default_str();
  app.add_option("--unix-socket", line.unix_socket,
                 "The daemon's unix socket (http.unix_socket), instead of a URL "
                 "(Env:PULSEWHEEL_UNIX_SOCKET)")
      ->type_name("PATH");
  app.add_option("--token-file", line.token_file,
                 "A file with the daemon's token (http.token_file)")
      ->envname("PULSEWHEEL_TOKEN_FILE")
      ->type_name("FILE");
  app.add_option("--timeout", line.timeout, "Longest wait for the answer: 500ms, 5s, 1m")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_flag("--json", line.json, "Answer in JSON, a line for each answer");
  app.footer(kExitCodes);
}

void add_node_commands(CLI::App& app, CommandLine& line) {
  CLI::App* health = app.add_subcommand("healthcheck", "Is the daemon ready for clients?");
  health->add_flag("--live", line.live, "Ask only whether it runs: true also while it drains");
  health->callback([&line] {
    line.command = [&line](CommandContext& context) { return healthcheck(context, line.live); };
  });
  const auto add = [&](const char* name, const char* what, int (*command)(CommandContext&)) {
    app.add_subcommand(name, what)->callback([&line, command] { line.command = command; });
  };
  add("status", "What the daemon is doing", status);
  add("drain", "Stop the daemon in order: clients leave over drain.window", drain);
  add("reload", "Read the configuration again, and say what has changed or is wrong", reload);
}

void add_user_commands(CLI::App& app, CommandLine& line) {
  const auto add = [&](const char* name, const char* what,
                       int (*command)(CommandContext&, std::string_view)) {
    CLI::App* one = app.add_subcommand(name, what);
    one->add_option("UID", line.uid, kUidHelp)->required();
    one->callback([&line, command] {
      line.command = [&line, command](CommandContext& context) {
        return command(context, line.uid);
      };
    });
  };
  add("user", "One user's state and sessions", user);
  add("explain", "Why a user is what it is, and what happens next", explain);
  add("kick", "Make a user offline at once and close the user's sessions", kick);
  add("release", "Let a held user's expiry go on, with the time that was left", release);

  CLI::App* held = app.add_subcommand("hold", "Pause a user's expiry; it ends by itself");
  held->add_option("UID", line.uid, kUidHelp)->required();
  const CLI::Option* const limit =
      held->add_option("--for", line.length, "How long at most: 90s, 10m, 24h; usually 1h")
          ->type_name("DURATION");
  held->callback([&line, limit] {
    line.command = [&line, limit](CommandContext& context) {
      std::optional<std::chrono::milliseconds> length;
      if (limit->count() > 0) {
        length = parse_duration("--for", line.length, std::chrono::hours(168), "168h");
      }
      return hold(context, line.uid, length);
    };
  });
}

void add_live_commands(CLI::App& app, CommandLine& line) {
  CLI::App* many = app.add_subcommand("query", "The states of many users");
  many->add_option("UID", line.uids, kUidHelp);
  const CLI::Option* const file =
      many->add_option("--file", line.file, "Read more of them, one a line; - is standard input")
          ->type_name("FILE");
  many->callback([&line, file] {
    line.command = [&line, file](CommandContext& context) {
      if (line.uids.empty() && file->count() == 0) {
        throw std::invalid_argument("query: name some UIDs, or a --file of them");
      }
      return query(context, line.uids, given(*file, line.file));
    };
  });

  CLI::App* live = app.add_subcommand("top", "The daemon at work, drawn again and again");
  live->add_option("--interval", line.interval, "Time between two pictures")
      ->type_name("DURATION")
      ->capture_default_str();
  live->add_option("--count", line.count, "Pictures until it ends; 0: until Ctrl-C")
      ->check(CLI::Range(std::int64_t{0}, kCountMax))
      ->capture_default_str();
  live->callback([&line] {
    line.command = [&line](CommandContext& context) {
      std::optional<std::uint64_t> count;
      if (line.count > 0) count = static_cast<std::uint64_t>(line.count);
      return top(context, parse_duration("--interval", line.interval, std::chrono::hours(1), "60m"),
                 count, ::isatty(STDOUT_FILENO) == 1);
    };
  });

  CLI::App* follower = app.add_subcommand("watch", "Edges as they happen");
  const CLI::Option* const only =
      follower->add_option("--uid", line.uid, "Only those of this user, percent-encoded");
  follower->add_option("--cursor", line.cursor, "Begin behind this one (EPOCH-SEQ)");
  follower->callback([&line, only] {
    line.command = [&line, only](CommandContext& context) {
      return watch(context, given(*only, line.uid), line.cursor);
    };
  });
}

void add_commands(CLI::App& app, CommandLine& line) {
  app.require_subcommand(0, 1);  // a missing one is reported below, behind an unknown one
  app.fallthrough();
  add_node_commands(app, line);
  add_user_commands(app, line);
  add_live_commands(app, line);
}

/// Where neither way in is on the command line, the environment says it. Not left to CLI11, for
/// which a socket in the environment would be as strong as a URL that was typed, and a `drain` go
/// to another daemon than the one that was named.
void take_environment(const CLI::App& app, CommandLine& line) {
  if (app.count("--url") > 0 || app.count("--unix-socket") > 0) return;
  const auto take = [](const char* name, std::string& to) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') to = value;
  };
  take("PULSEWHEEL_URL", line.url);
  take("PULSEWHEEL_UNIX_SOCKET", line.unix_socket);
}

Access access_of(const CommandLine& line) {
  Access access{.url = Url::parse(line.url), .unix_socket = line.unix_socket, .token = {}};
  if (line.token_file.empty()) return access;
  access.token = read_secret_file(line.token_file, kTokenBytesMax);
  const bool fits_a_field = std::all_of(access.token.begin(), access.token.end(),
                                        [](char c) { return c > 0x20 && c < 0x7f; });
  if (!fits_a_field) throw std::runtime_error("what '" + line.token_file + "' holds is no token");
  return access;
}

int usage_error(std::string_view what) {
  std::cerr << "pulsewheelctl: " << what << "\nTry 'pulsewheelctl --help'.\n";
  return EX_USAGE;
}

int run(int argc, char** argv) {
  CommandLine line;
  CLI::App app("Asks a running pulsewheeld", "pulsewheelctl");
  add_options(app, line);
  add_commands(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return usage_error(e.what());
  }
  if (!line.command) return usage_error("a command is missing");
  take_environment(app, line);

  CommandContext context{
      .access = {}, .timeout = {}, .json = line.json, .out = std::cout, .err = std::cerr};
  try {
    context.timeout = parse_duration("--timeout", line.timeout, std::chrono::hours(1), "60m");
    context.access = access_of(line);
    const int exit_code = line.command(context);
    if (context.out.flush()) return exit_code;
    return complain(context, "cannot write the answer to standard output", EX_IOERR);
  } catch (const std::invalid_argument& e) {
    return usage_error(e.what());
  } catch (const UnreachableError& e) {
    return complain(context, e.what(), EX_UNAVAILABLE);
  } catch (const std::runtime_error& e) {  // the file with the token
    return complain(context, e.what(), EX_NOINPUT);
  }
}

}  // namespace
}  // namespace pulsewheel::ctl

int main(int argc, char** argv) {
  pulsewheel::occupy_closed_standard_streams();
  try {
    return pulsewheel::ctl::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "pulsewheelctl: " << e.what() << '\n';
    return EX_SOFTWARE;
  }
}

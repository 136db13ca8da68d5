// pulsewheelctl: the operator's command line. Asks a running daemon over its HTTP port.
#include <sysexits.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "daemon/base/build_info.h"
#include "daemon/ctl/commands.h"

namespace pulsewheel::ctl {
namespace {

using Command = std::function<int(CommandContext&)>;

struct CommandLine {
  std::string url = "http://127.0.0.1:7601";
  std::string timeout = "5s";
  bool json = false;
  Command command;
};

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 1 not healthy, or the daemon refused the question; 64 wrong usage;\n"
    "69 no daemon answers at the URL, or it cannot answer now.";

void add_options(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", version_line("pulsewheelctl"));
  app.add_option("--url", line.url, "The daemon's HTTP port")
      ->envname("PULSEWHEEL_URL")
      ->type_name("URL")
      ->capture_default_str();
  app.add_option("--timeout", line.timeout, "Longest wait for the answer: 500ms, 5s, 1m")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_flag("--json", line.json, "Answer as one line of JSON");
  app.footer(kExitCodes);
}

void add_commands(CLI::App& app, CommandLine& line, bool& live, std::string& uid) {
  app.require_subcommand(0, 1);  // a missing one is reported below, behind an unknown one
  app.fallthrough();

  CLI::App* health = app.add_subcommand("healthcheck", "Is the daemon ready for clients?");
  health->add_flag("--live", live, "Ask only whether it runs: true also while it drains");
  health->callback([&] {
    line.command = [&live](CommandContext& context) { return healthcheck(context, live); };
  });

  app.add_subcommand("status", "What the daemon is doing")->callback([&] {
    line.command = [](CommandContext& context) { return status(context); };
  });

  const auto add_for_user = [&](const char* name, const char* what,
                                int (*command)(CommandContext&, std::string_view)) {
    CLI::App* one = app.add_subcommand(name, what);
    one->add_option("UID", uid, "Percent-encoded where it holds odd bytes ('%' itself is %25)")
        ->required();
    one->callback([&line, &uid, command] {
      line.command = [&uid, command](CommandContext& context) { return command(context, uid); };
    });
  };
  add_for_user("user", "One user's state and sessions", user);
  add_for_user("kick", "Make a user offline at once and close the user's sessions", kick);
}

// Throws std::invalid_argument saying what is allowed.
std::chrono::milliseconds parse_timeout(std::string_view text) {
  using std::chrono::milliseconds;
  static constexpr std::pair<std::string_view, milliseconds> kUnits[] = {
      {"ms", std::chrono::milliseconds(1)},
      {"s", std::chrono::seconds(1)},
      {"m", std::chrono::minutes(1)}};
  static constexpr milliseconds kMax = std::chrono::hours(1);

  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, ec] = std::from_chars(text.data(), end, number);
  const std::string_view unit(number_end, static_cast<std::size_t>(end - number_end));
  for (const auto& [name, length] : kUnits) {
    if (ec == std::errc() && unit == name && number > 0 && number <= kMax / length) {
      return number * length;
    }
  }
  throw std::invalid_argument("--timeout '" + std::string(text) +
                              "' is none: write 1ms to 60m, as in 500ms, 5s or 1m");
}

int usage_error(std::string_view what) {
  std::cerr << "pulsewheelctl: " << what << "\nTry 'pulsewheelctl --help'.\n";
  return EX_USAGE;
}

int run(int argc, char** argv) {
  CommandLine line;
  bool live = false;
  std::string uid;
  CLI::App app("Asks a running pulsewheeld", "pulsewheelctl");
  add_options(app, line);
  add_commands(app, line, live, uid);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return usage_error(e.what());
  }
  if (!line.command) return usage_error("a command is missing");

  try {
    CommandContext context{Url::parse(line.url), parse_timeout(line.timeout), line.json, std::cout,
                           std::cerr};
    return line.command(context);
  } catch (const std::invalid_argument& e) {
    return usage_error(e.what());
  } catch (const UnreachableError& e) {
    std::cerr << "pulsewheelctl: " << e.what() << '\n';
    return EX_UNAVAILABLE;
  }
}

}  // namespace
}  // namespace pulsewheel::ctl

int main(int argc, char** argv) {
  try {
    return pulsewheel::ctl::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "pulsewheelctl: " << e.what() << '\n';
    return EX_SOFTWARE;
  }
}

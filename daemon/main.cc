// pulsewheeld: parse, load, build, run, exit code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "config/config.h"
#include "daemon/base/build_info.h"
#include "daemon/base/log.h"
#include "daemon/base/memory_reserve.h"
#include "daemon/base/standard_streams.h"
#include "daemon/base/thread.h"
#include "daemon/server/options.h"
#include "daemon/server/server.h"

namespace {

using pulsewheel::Config;
using pulsewheel::ExitCode;

struct Arguments {
  pulsewheel::ConfigSource source;
  bool check_config = false;
  bool print_config = false;
};

int code(ExitCode exit_code) {
  return static_cast<int>(exit_code);
}

int fail(ExitCode exit_code, const std::string& what) {
  pulsewheel::log::stop();  // what was logged so far comes first
  std::fprintf(stderr, "pulsewheeld: %s\n", what.c_str());
  return code(exit_code);
}

void declare(CLI::App& app, Arguments& arguments) {
  app.option_defaults()->always_capture_default(false);
  app.add_option("-c,--config", arguments.source.file,
                 "Configuration file (TOML). Without it, built-in defaults hold")
      ->envname("PULSEWHEEL_CONFIG")
      ->type_name("FILE");
  app.add_option("--set", arguments.source.sets,
                 "Override one key, such as presence.timeout=45s; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--check-config", arguments.check_config,
               "Check the configuration, say what is wrong with it, and exit");
  app.add_flag("--print-config", arguments.print_config,
               "Print the configuration that would hold, as TOML, and exit");
  app.set_version_flag("--version", std::string(pulsewheel::version_line("pulsewheeld")));
  app.footer(
      "Each key can also be set by an environment variable: PULSEWHEEL_PRESENCE_TIMEOUT=45s.\n"
      "Precedence: --set, environment, file, default.\n"
      "Signals: TERM and INT drain (a second one stops at once), HUP reads the configuration "
      "again,\n"
      "USR1 opens the logs again.");
}

/// Enough for the ends of all sessions, and for saying what is wrong.
constexpr std::size_t kMemoryReserve = std::size_t{8} << 20;

int serve(const Config& config, const pulsewheel::ConfigSource& source) {
  pulsewheel::memory_reserve::hold(kMemoryReserve);
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that is gone is an EPIPE
  pulsewheel::block_all_signals_in_this_thread();  // and so in all threads that start from here
  pulsewheel::log::init(pulsewheel::log_options(config));
  pulsewheel::Server server(config, source);
  server.run();
  pulsewheel::log::stop();
  return code(ExitCode::kOk);
}

int run(const Arguments& arguments) {
  const Config config = pulsewheel::load_config(arguments.source);
  pulsewheel::check_config(config);
  if (arguments.print_config) std::fputs(pulsewheel::print_config(config).c_str(), stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail(ExitCode::kIo, "cannot write to standard output");
  }
  if (arguments.check_config) std::fputs("the configuration is valid\n", stderr);
  if (arguments.print_config || arguments.check_config) return code(ExitCode::kOk);
  return serve(config, arguments.source);
}

}  // namespace

int main(int argc, char** argv) {
  pulsewheel::occupy_closed_standard_streams();
  Arguments arguments;
  CLI::App app("Presence daemon: knows who is online, and says so within one tick.", "pulsewheeld");
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? code(ExitCode::kOk) : code(ExitCode::kUsage);
  }
  try {
    arguments.source.env = pulsewheel::read_environment();
    return run(arguments);
  } catch (const pulsewheel::ConfigError& error) {
    return fail(ExitCode::kConfig, error.what());
  } catch (const pulsewheel::StartError& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::kBug, error.what());
  }
}

#include "tests/client_sim/soak/soak_options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "tests/client_sim/daemon_process.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr double kMinutesMax = 10'000;  // a week
constexpr std::uint32_t kSoakConnectionsMin = 100;
/// A soak's clients all live in one descriptor table with strangers and files.
constexpr std::uint32_t kSoakConnectionsMax = 15'000;

constexpr Duration kTimeout = 3s;
constexpr std::uint32_t kDevices = 2;
constexpr double kChurnPercent = 600;  // a client does something every ten seconds
constexpr double kMessagePercent = 20;
/// What a soak looks for is wrong and missing edges, on a machine that it keeps busy. How late they
/// are is for pulsewheel-sim to measure.
constexpr Duration kSlack = 1s;
constexpr Duration kDrain = 2s;

}  // namespace

std::optional<SoakOptions> parse_soak_options(int argc, const char* const* argv) {
  SoakOptions options;
  double minutes = 1;
  CLI::App app{
      "pulsewheel-soak: clients that come and go, and faults at random times, for as long as you "
      "like; at the end everybody leaves, and what the daemon holds is compared with what it held "
      "after a rehearsal.\n"
      "Exit status: 0 all promises kept and back to base, 1 not, 64 wrong usage, 69 no daemon.",
      "pulsewheel-soak"};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--minutes", minutes, "how long, after a rehearsal of about a minute")
      ->check(CLI::Range(0.1, kMinutesMax))
      ->capture_default_str();
  app.add_option("--seed", options.seed,
                 "of clients and faults (default: another one each time; it is printed)");
  app.add_option("--connections", options.connections, "how many clients, two for each user")
      ->check(CLI::Range(kSoakConnectionsMin, kSoakConnectionsMax))
      ->capture_default_str();
  app.add_option("--daemon", options.daemon,
                 "the daemon's program (default: pulsewheeld beside this one)");
  app.add_option("--report", options.report, "write the figures to this file, as JSON");
  app.add_flag("--keep", options.keep, "keep the daemon's state folder");
  app.add_flag("--verbose", options.verbose, "a line for each fault");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  options.length =
      std::chrono::round<Duration>(std::chrono::duration<double, std::ratio<60>>(minutes));
  if (options.daemon.empty()) options.daemon = default_daemon_program();
  return options;
}

Options client_options(const SoakOptions& soak, std::uint64_t seed, Duration length) {
  Options out;
  out.spawn = soak.daemon;
  out.sets = {
      "presence.tick=100ms",
      "presence.timeout_min=1s",
      "presence.offline_retention=2s",
      "server.login_timeout=2s",
      "server.write_timeout=2s",
      // The limit on descriptors, which a fault lowers, then holds for one table.
      "server.fd_tables=shared",
      // Small enough to be rotated by the daemon itself, too.
      "events.rotate_size=4MiB",
      // Clients, the connections that they replace, and strangers, wherever the kernel puts them.
      "server.max_connections=" + std::to_string(3 * soak.connections + 4'000),
  };
  out.connections = soak.connections;
  out.devices = kDevices;
  out.timeout = kTimeout;
  out.duration = length;
  out.slack = kSlack;
  out.drain = kDrain;
  out.churn_percent = kChurnPercent;
  out.message_percent = kMessagePercent;
  out.seed = seed;
  out.keep = soak.keep;
  return out;
}

}  // namespace pulsewheel::sim

#include "tests/client_sim/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <utility>

#include "daemon/base/build_info.h"
#include "tests/client_sim/redis_ring.h"

namespace pulsewheel::sim {
namespace {

constexpr Duration kDurationMax = std::chrono::hours{1'000};
constexpr Duration kDefaultTick = std::chrono::seconds{1};
constexpr Duration kDefaultTimeout = std::chrono::seconds{30};
constexpr Duration kDefaultRestartGrace = std::chrono::seconds{60};
constexpr Duration kDefaultSnapshotInterval = std::chrono::seconds{60};
/// How long a snapshot may take from its begin until it is on a busy disk.
constexpr Duration kSnapshotLength = std::chrono::seconds{2};
constexpr double kRateMax = 1'000'000;      // a second; no host does more
constexpr double kChurnPercentMax = 6'000;  // each client once a second

/// A flag whose value is a duration.
template <class Target>
void add_duration(CLI::App& app, const std::string& name, Target& target, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [name, &target](const std::string& text) {
           const std::optional<Duration> value = parse_duration(text);
           if (!value) {
             throw CLI::ValidationError(
                 name, "\"" + text + "\" is no duration: use a number with ms, s, m or h");
           }
           target = *value;
         },
         help)
      ->type_name("DURATION");
}

void add_percent(CLI::App& app, const std::string& name, double& target, const std::string& help) {
  app.add_option(name, target, help)->check(CLI::Range(0.0, 100.0))->type_name("PERCENT");
}

void add_daemon_flags(CLI::App& app, Options& options) {
  app.add_option("--target", options.target, "daemon to connect to, HOST:PORT");
  app.add_option_function<std::string>(
         "--spawn", [&](const std::string& path) { options.spawn = path; },
         "start this daemon on free ports, and stop it at the end; without a value: pulsewheeld "
         "beside this program")
      ->expected(0, 1)
      ->type_name("PROGRAM");
  app.add_option("--set", options.sets, "key=value for the spawned daemon (may be repeated)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--edges", options.edges,
                 "the daemon's event log to judge by (repeat it when online and offline edges have "
                 "files of their own); automatic with --spawn")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--metrics", options.metrics,
                 "the daemon's HTTP port, HOST:PORT; automatic with --spawn");
  app.add_option("--pid", options.pid,
                 "the daemon's process, for its memory and CPU time; automatic with --spawn");
  app.add_option("--verify-redis", options.verify_redis,
                 "compare the ring in this Redis with what the clients did, during the run and at "
                 "its end: redis://HOST[:PORT][/DATABASE] or unix:///PATH[?db=DATABASE]. A daemon "
                 "that --spawn starts mirrors into it, unless --set redis.mode says otherwise")
      ->type_name("URL");
  app.add_flag("--keep", options.keep, "keep the temporary folder of the spawned daemon");
}

void add_load_flags(CLI::App& app, Options& options) {
  app.add_option("--connections", options.connections, "how many clients")
      ->check(CLI::Range(1U, kConnectionsMax))
      ->capture_default_str();
  app.add_option("--devices", options.devices, "sessions of one user, each with a device label")
      ->check(CLI::Range(1U, kDevicesMax))
      ->capture_default_str();
  add_duration(app, "--keepalive", options.keepalive,
               "interval of keepalives (default: as the daemon advises)");
  add_duration(app, "--timeout", options.timeout,
               "timeout that the clients ask for (default: the daemon's choice)");
  app.add_option("--ramp", options.ramp,
                 "new connections a second (default: as fast as they are answered)")
      ->check(CLI::Range(0.0, kRateMax))
      ->type_name("RATE");
  add_duration(app, "--duration", options.duration, "length of the run after the ramp");
  add_percent(app, "--silent-percent", options.silent_percent,
              "users that fall silent at a random moment, with the connection open");
  add_percent(app, "--disconnect-percent", options.disconnect_percent,
              "users that close and come back, half of them after their timeout");
  add_percent(app, "--logout-percent", options.logout_percent,
              "users that log out at a random moment and come back");
  add_percent(app, "--message-percent", options.message_percent,
              "packets that are messages in place of keepalives");
  app.add_option("--churn", options.churn, "random reconnects a second, of all clients together")
      ->check(CLI::Range(0.0, kRateMax))
      ->type_name("RATE");
  app.add_option("--churn-percent", options.churn_percent,
                 "clients a minute that do one of: reconnect, the same after a reset, take over "
                 "their own session, log out and in, fall silent and come back")
      ->check(CLI::Range(0.0, kChurnPercentMax))
      ->type_name("PERCENT");
}

TimedReload timed_reload(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::size_t equals = text.find('=', colon == std::string::npos ? 0 : colon);
  const auto at = parse_duration(std::string_view(text).substr(0, colon));
  // Quotes are put around what comes into the file.
  const bool quoted = text.find_first_of("\"'\\\n") != std::string::npos;
  if (colon == std::string::npos || equals == std::string::npos || equals == colon + 1 || !at ||
      quoted) {
    throw CLI::ValidationError("--reload-daemon", "\"" + text +
                                                      "\" is not AT:KEY=VALUE, as in "
                                                      "10s:presence.timeout=6s, without quotes");
  }
  return {*at, text.substr(colon + 1, equals - colon - 1), text.substr(equals + 1)};
}

void add_event_flags(CLI::App& app, Options& options) {
  add_duration(app, "--stop-all-at", options.stop_all_at,
               "after the ramp: one last keepalive from all, then silence");
  add_duration(app, "--freeze-daemon-at", options.freeze_at,
               "after the ramp: SIGSTOP to the daemon, while the clients go on; those of "
               "--silent-percent fall silent so that they are due meanwhile");
  add_duration(app, "--freeze-for", options.freeze_for, "SIGCONT after this");
  add_duration(app, "--cut-all-at", options.cut_all_at,
               "after the ramp: every connection is reset, and all connect again in that moment");
  app.add_option_function<std::vector<std::string>>(
         "--reload-daemon",
         [&options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts)
             options.reloads.push_back(timed_reload(text));
           std::stable_sort(options.reloads.begin(), options.reloads.end(),
                            [](const auto& a, const auto& b) { return a.at < b.at; });
         },
         "so long after the ramp the daemon's file gets this key, and is reloaded (may be "
         "repeated); what --set says stays")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("AT:KEY=VALUE");
  add_duration(app, "--restart-daemon-at", options.restart_at,
               "after the ramp: SIGTERM to the daemon and, once it has ended, a new start on the "
               "same ports and state folder; whoever comes back owes no edge");
  add_duration(app, "--kill-daemon-at", options.kill_at,
               "the same with SIGKILL; edges that are younger than the last snapshot may repeat");
  add_duration(app, "--daemon-down-for", options.down_for, "how long it is away in between");
  add_duration(app, "--back-within", options.back_within,
               "how soon after --cut-all-at every client is to be logged in again");
}

void add_run_flags(CLI::App& app, Options& options) {
  app.add_flag("--expect-offline", options.expect_offline,
               "allow a keepalive that is not shorter than the timeout");
  add_duration(app, "--tick", options.tick,
               "the daemon's tick (default: as in --set presence.tick, or 1s)");
  add_duration(app, "--slack", options.slack,
               "how long after the tick an offline edge is in time (default 250ms)");
  add_duration(
      app, "--grace", options.grace,
      "how long a late offline edge is waited for before it counts as missed (default 1s)");
  add_duration(app, "--drain", options.drain,
               "how much longer than that an edge may take which is due while the daemon is "
               "frozen, counted from its SIGCONT (default 1s)");
  app.add_option("--threads", options.threads, "threads (default: what the connections need)")
      ->check(CLI::Range(1U, kThreadsMax));
  app.add_option("--seed", options.seed, "of everything random")->capture_default_str();
  app.add_option("--report", options.report, "write the figures to this file, as JSON");
}

std::string milliseconds(Duration duration) {
  return std::to_string(duration / std::chrono::milliseconds{1}) + " ms";
}

void check_events(const Options& options) {
  if (options.freeze_at.has_value() != (options.freeze_for != Duration::zero())) {
    throw UsageError("--freeze-daemon-at and --freeze-for go together");
  }
  if (options.freeze_at && !options.spawn && !options.pid) {
    throw UsageError("--freeze-daemon-at needs --spawn, or the daemon's --pid");
  }
  const auto restart = restart_time_of(options);
  if (options.restart_at && options.kill_at) {
    throw UsageError("give either --restart-daemon-at or --kill-daemon-at");
  }
  if (restart && !options.spawn) {
    throw UsageError("--restart-daemon-at and --kill-daemon-at need --spawn");
  }
  if (restart && (options.freeze_at || options.cut_all_at || !options.verify_redis.empty())) {
    throw UsageError(
        "--restart-daemon-at and --kill-daemon-at do not go with --freeze-daemon-at, "
        "--cut-all-at and --verify-redis");
  }
  if (!options.reloads.empty() && !options.spawn) {
    throw UsageError("--reload-daemon needs --spawn");
  }
  if (options.down_for != Duration::zero() && !restart) {
    throw UsageError("--daemon-down-for goes with --restart-daemon-at or --kill-daemon-at");
  }
  if (options.back_within && !options.cut_all_at) {
    throw UsageError("--back-within goes with --cut-all-at");
  }
  if (options.churn > 0 && options.churn_percent > 0) {
    throw UsageError("give either --churn or --churn-percent");
  }
}

void check(const Options& options) {
  if (options.target.empty() == !options.spawn.has_value()) {
    throw UsageError("give either --target HOST:PORT or --spawn");
  }
  if (!options.spawn && !options.sets.empty()) {
    throw UsageError("--set is for a daemon that --spawn starts");
  }
  if (!options.verify_redis.empty()) {
    static_cast<void>(RedisAddress::parse(options.verify_redis));
    if (!options.spawn && options.edges.empty()) {
      throw UsageError("--verify-redis needs --spawn, or the daemon's event log by --edges");
    }
  }
  if (options.edges.size() > 2) throw UsageError("--edges: at most two files");
  const double percent =
      options.silent_percent + options.disconnect_percent + options.logout_percent;
  if (percent > 100) {
    throw UsageError(
        "--silent-percent, --disconnect-percent and --logout-percent are shares of "
        "the same users: together at most 100");
  }
  if (options.connections < options.devices) {
    throw UsageError("--devices: at most as many as --connections");
  }
  check_events(options);
  if (options.keepalive == Duration::zero()) throw UsageError("--keepalive: more than 0");
  if (options.timeout && *options.timeout < std::chrono::milliseconds{2}) {
    throw UsageError("--timeout: at least 2ms");
  }
  const Duration timeout = expected_timeout_of(options);
  if (options.keepalive && *options.keepalive >= timeout && !options.expect_offline) {
    throw UsageError("a keepalive every " + milliseconds(*options.keepalive) +
                     " cannot keep a user online whose timeout is " + milliseconds(timeout) +
                     ": choose a shorter one, or --expect-offline");
  }
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app{
      "pulsewheel-sim: many clients for a presence daemon, and a judge of what it says about "
      "them.\nExit status: 0 all promises kept, 1 one was broken, 64 wrong usage, 69 no daemon.",
      "pulsewheel-sim"};
  // So that scripts can put their own flags behind a set of usual ones.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_daemon_flags(app, options);
  add_load_flags(app, options);
  add_event_flags(app, options);
  add_run_flags(app, options);
  app.set_version_flag("--version", version_line("pulsewheel-sim"));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << '\n';
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  check(options);
  return options;
}

std::optional<Duration> parse_duration(std::string_view text) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  double seconds_per_unit = 1;
  if (unit == "ms") {
    seconds_per_unit = 1e-3;
  } else if (unit == "m") {
    seconds_per_unit = 60;
  } else if (unit == "h") {
    seconds_per_unit = 3600;
  } else if (unit != "s" && !unit.empty()) {
    return std::nullopt;
  }
  const std::chrono::duration<double> value{number * seconds_per_unit};
  if (value > kDurationMax) return std::nullopt;
  return std::chrono::round<Duration>(value);
}

std::optional<std::string> value_of(const std::vector<std::string>& sets, std::string_view key) {
  std::optional<std::string> found;
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || std::string_view(set).substr(0, equals) != key) continue;
    std::string value = set.substr(equals + 1);
    const bool quoted = value.size() >= 2 && value.front() == value.back() &&
                        (value.front() == '"' || value.front() == '\'');
    found = quoted ? value.substr(1, value.size() - 2) : std::move(value);
  }
  return found;
}

namespace {

Duration duration_of(const Options& options, std::string_view key, Duration otherwise) {
  const std::optional<std::string> text = value_of(options.sets, key);
  if (!text) return otherwise;
  return parse_duration(*text).value_or(otherwise);  // the daemon will complain
}

}  // namespace

Duration tick_of(const Options& options) {
  return options.tick ? *options.tick : duration_of(options, "presence.tick", kDefaultTick);
}

std::optional<Duration> restart_time_of(const Options& options) noexcept {
  return options.restart_at ? options.restart_at : options.kill_at;
}

Duration restart_grace_of(const Options& options) {
  return duration_of(options, "restart.grace", kDefaultRestartGrace);
}

Duration snapshot_age_of(const Options& options) {
  return duration_of(options, "snapshot.interval", kDefaultSnapshotInterval) + kSnapshotLength;
}

double churn_rate_of(const Options& options) noexcept {
  constexpr double kPercentMinutes = 100 * 60;
  return options.churn + options.connections * options.churn_percent / kPercentMinutes;
}

bool names_devices(const Options& options) noexcept {
  return options.devices > 1 || options.churn_percent > 0;
}

Duration expected_timeout_of(const Options& options) {
  return options.timeout ? *options.timeout
                         : duration_of(options, "presence.timeout", kDefaultTimeout);
}

}  // namespace pulsewheel::sim

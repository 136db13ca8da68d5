// Options: what the command line asks of the simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

inline constexpr std::uint32_t kConnectionsMax = 1'000'000;
inline constexpr std::uint32_t kDevicesMax = 16;
inline constexpr std::uint32_t kThreadsMax = 256;

/// A key of the daemon's configuration that gets another value while it runs.
struct TimedReload {
  Duration at{0};  // after the ramp
  std::string key;
  std::string value;  // without quotes

  friend bool operator==(const TimedReload&, const TimedReload&) = default;
};

struct Options {
  std::string target;                // HOST:PORT of a running daemon; empty: spawn one
  std::optional<std::string> spawn;  // the daemon's program; "" is pulsewheeld beside this one
  std::vector<std::string> sets;     // key=value, passed on to the spawned daemon
  std::vector<std::string> edges;    // the daemon's event log, or its two files
  std::string metrics;               // HOST:PORT of the daemon's HTTP port; empty: not asked
  std::optional<std::uint32_t> pid;  // of the daemon, for its memory and CPU time
  std::string verify_redis;          // URL of the ring that is compared; empty: no Redis
  std::string report;                // file for the figures as JSON; empty: none
  bool keep = false;                 // the temporary folder of a spawned daemon

  std::uint32_t connections = 1'000;
  std::uint32_t devices = 1;          // sessions of a user
  std::uint32_t threads = 0;          // 0: as many as CPUs and descriptor tables ask for
  std::optional<Duration> keepalive;  // nullopt: as LOGIN_ACK advises
  std::optional<Duration> timeout;    // nullopt: the server's choice
  std::optional<Duration> tick;       // nullopt: see tick_of()
  Duration slack = std::chrono::milliseconds{250};
  Duration grace = std::chrono::seconds{1};
  Duration drain = std::chrono::seconds{1};
  double ramp = 0;  // connections a second; 0: as fast as they are answered
  Duration duration = std::chrono::seconds{60};  // after the ramp
  std::optional<Duration> stop_all_at;           // after the ramp
  std::optional<Duration> freeze_at;             // after the ramp: SIGSTOP to the daemon
  Duration freeze_for{0};                        // then SIGCONT
  std::optional<Duration> cut_all_at;            // after the ramp
  std::vector<TimedReload> reloads;              // in order of time
  std::optional<Duration> restart_at;            // after the ramp: SIGTERM, and a new start
  std::optional<Duration> kill_at;               // after the ramp: SIGKILL, and a new start
  Duration down_for{0};                          // between the two
  std::optional<Duration> back_within;           // of a cut: later is a broken promise
  double silent_percent = 0;
  double disconnect_percent = 0;
  double logout_percent = 0;
  double message_percent = 0;
  double churn = 0;          // reconnects a second, of all clients together
  double churn_percent = 0;  // clients a minute that do something of the mix
  std::uint64_t seed = 1;
  bool expect_offline = false;
};

/// The command line is wrong; what() is one line that says what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses and checks. Throws UsageError. Returns nullopt after printing --help or --version.
[[nodiscard]] std::optional<Options> parse_options(int argc, const char* const* argv);

/// "100ms", "30s", "2m", "1h"; a bare number is seconds. nullopt for anything else, and for what
/// is negative or beyond 1,000 h.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);

/// The value that `sets` give to `key`, the last one counts. Quotes of a TOML string are taken off.
[[nodiscard]] std::optional<std::string> value_of(const std::vector<std::string>& sets,
                                                  std::string_view key);

/// The daemon's tick: as given, or as passed on to the spawned daemon, or its default.
[[nodiscard]] Duration tick_of(const Options& options);

/// When the daemon is to be started again, in whatever way it ends before.
[[nodiscard]] std::optional<Duration> restart_time_of(const Options& options) noexcept;

/// How long the spawned daemon lets users linger behind a restart, on top of their timeouts.
[[nodiscard]] Duration restart_grace_of(const Options& options);

/// How old what it knows behind a kill may be.
[[nodiscard]] Duration snapshot_age_of(const Options& options);

/// Acts of churn a second, of all clients together.
[[nodiscard]] double churn_rate_of(const Options& options) noexcept;

/// Whether the clients name a device: those of one user must, and those whose new connection is to
/// replace the old one.
[[nodiscard]] bool names_devices(const Options& options) noexcept;

/// The timeout that the users will have as far as the command line tells; LOGIN_ACK decides.
[[nodiscard]] Duration expected_timeout_of(const Options& options);

}  // namespace pulsewheel::sim

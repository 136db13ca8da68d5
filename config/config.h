// The daemon's configuration: one typed struct, loaded from file, environment and command line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pulsewheel {

/// Everything that an operator can set. A default-constructed Config is the default one, and a
/// Config that load_config() returned has passed every check. A plain value: copy it, hand it to
/// any thread. Each member is documented, with its range, under the key of the same name in
/// config/pulsewheel.toml.
struct Config {
  using Duration = std::chrono::nanoseconds;

  struct Server {
    enum class FdTables : std::uint8_t { kAuto, kShared, kPerShard };

    std::uint32_t shards = 0;  // 0: as many as there are CPUs, more if descriptor tables ask for it
    std::uint32_t max_connections = 100'000;  // over all shards
    FdTables fd_tables = FdTables::kAuto;
    std::string state_dir = "/var/lib/pulsewheel";
    Duration login_timeout = std::chrono::seconds{10};
    std::uint32_t accept_burst = 16;              // connections per shard and loop round
    std::uint32_t loop_handlers_max = 64;         // polled per loop round
    std::uint32_t expiry_budget = 256;            // hooks visited per loop round
    std::uint32_t backlog_bytes_max = 16 * 1024;  // unsent bytes of one connection
    Duration write_timeout = std::chrono::seconds{10};
    std::uint32_t payload_before_login_max = 1'024;  // bytes
    std::uint32_t payload_after_login_max = 8'192;   // bytes
    std::string ports_file;                          // empty: none
    std::uint32_t tcp_backlog = 4'096;
    Duration tcp_user_timeout = std::chrono::minutes{6};    // 0: the kernel's own
    Duration tcp_keepalive_idle = std::chrono::minutes{4};  // 0: no probes

    friend bool operator==(const Server&, const Server&) = default;
  };

  struct Listener {
    enum class Protocol : std::uint8_t { kNative };

    std::string address = "*";  // "*" (IPv4 and IPv6) or an IP literal without brackets
    std::uint16_t port = 7600;  // 0: any free one
    Protocol protocol = Protocol::kNative;

    friend bool operator==(const Listener&, const Listener&) = default;
  };
  static constexpr std::size_t kListenersMax = 16;

  struct Http {
    bool enabled = true;
    std::string address = "127.0.0.1";  // an IP literal without brackets
    std::uint16_t port = 7601;          // 0: any free one
    std::string unix_socket;            // a path; empty: none
    std::string unix_socket_mode = "660";
    std::string token_file;  // empty: whoever can connect is served
    std::uint32_t connections_max = 256;
    std::uint32_t streams_max = 1'024;
    std::uint32_t event_ring = 65'536;  // events

    friend bool operator==(const Http&, const Http&) = default;
  };

  struct Presence {
    enum class OnDisconnect : std::uint8_t { kLinger, kOffline };

    Duration tick = std::chrono::seconds{1};
    Duration timeout = std::chrono::seconds{30};
    Duration timeout_min = std::chrono::seconds{5};
    Duration timeout_max = std::chrono::hours{24};
    OnDisconnect on_disconnect = OnDisconnect::kLinger;
    Duration offline_retention = std::chrono::hours{24};
    std::uint32_t offline_users_max = 100'000;  // over all shards
    std::uint32_t sessions_per_user_max = 16;
    std::uint32_t users_max = 0;  // online, over all shards; 0: see presence_users_max()

    friend bool operator==(const Presence&, const Presence&) = default;
  };

  struct Restart {
    Duration grace = std::chrono::seconds{60};

    friend bool operator==(const Restart&, const Restart&) = default;
  };

  struct Snapshot {
    bool enabled = true;
    Duration interval = std::chrono::minutes{1};  // 0: at the end of a drain only

    friend bool operator==(const Snapshot&, const Snapshot&) = default;
  };

  struct Drain {
    Duration window = std::chrono::seconds{10};
    Duration retry_after = std::chrono::seconds{2};

    friend bool operator==(const Drain&, const Drain&) = default;
  };

  struct Events {
    bool enabled = true;
    std::string path;                          // empty: see event_log_path()
    std::string offline_path;                  // empty: offline edges go to `path` too
    std::uint64_t rotate_size = 256ULL << 20;  // bytes
    std::uint32_t rotate_keep = 4;             // files
    std::uint32_t queue_max = 1'000'000;       // edges

    friend bool operator==(const Events&, const Events&) = default;
  };

  struct Redis {
    enum class Mode : std::uint8_t { kOff, kMirror, kShared };

    Mode mode = Mode::kOff;
    std::string url = "redis://127.0.0.1:6379";
    std::string user;           // empty: the server's default user
    std::string password_file;  // empty: none
    std::string password_env;   // name of a variable; empty: none
    std::string ca_file;        // empty: the system's authorities
    std::string cert_file;      // empty: none
    std::string key_file;       // of cert_file
    std::string node;           // empty: the host's name
    std::string list_key = "testlist";
    std::string slot_prefix = "slot-";
    std::uint32_t slots = 32;  // or 31
    std::string index_key = "timeline-index";
    std::string key_prefix = "pulsewheel:";
    std::uint32_t stream_max = 1'000'000;  // edges
    Duration connect_timeout = std::chrono::seconds{5};
    Duration command_timeout = std::chrono::seconds{5};
    std::uint32_t batch_max = 256;        // users
    std::uint32_t queue_max = 1'000'000;  // changes
    std::uint32_t repair_rate = 20'000;   // users per second

    friend bool operator==(const Redis&, const Redis&) = default;
  };

  struct Log {
    enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };
    enum class Format : std::uint8_t { kHuman, kJson };

    Level level = Level::kInfo;
    Format format = Format::kHuman;
    std::string destination = "stderr";                  // or the path of a file
    std::uint32_t rate_limit = 5;                        // lines per kind and second; 0: no limit
    Duration stats_interval = std::chrono::seconds{60};  // 0: no statistics line

    friend bool operator==(const Log&, const Log&) = default;
  };

  Server server;
  std::vector<Listener> listeners{Listener{}};  // 1 to kListenersMax; the key is [[listener]]
  Http http;
  Presence presence;
  Snapshot snapshot;
  Restart restart;
  Drain drain;
  Events events;
  Redis redis;
  Log log;

  friend bool operator==(const Config&, const Config&) = default;
};

/// Where the event log goes: events.path, or `<server.state_dir>/events.jsonl` when that is empty.
/// Empty when events.enabled is false.
[[nodiscard]] std::string event_log_path(const Config& config);

/// The bound on online users over all shards: presence.users_max, or twice
/// server.max_connections when that is 0 (a user whose connection closed lingers as online).
[[nodiscard]] std::uint64_t presence_users_max(const Config& config) noexcept;

/// What a Config is loaded from. A later source overrides an earlier one: defaults, `file`,
/// `env`, `sets`.
struct ConfigSource {
  std::string file;               // a TOML file of at most 1 MiB; empty: none
  std::vector<std::string> sets;  // "key=value"; the value is TOML or bare text
  std::vector<std::pair<std::string, std::string>> env;  // see read_environment()
};

/// The configuration is wrong. what() has one line per problem, without a final newline; each
/// names where it stands (file:line), the key, and what is allowed.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<std::string> problems);
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// Loads and checks. Throws ConfigError with all problems found, not only the first.
///
/// From the environment come PULSEWHEEL_<KEY> (PULSEWHEEL_PRESENCE_TICK for presence.tick) and,
/// as the default of server.state_dir, systemd's STATE_DIRECTORY. Another PULSEWHEEL_* variable
/// is an error, except PULSEWHEEL_CONFIG, which is the caller's (it names the file), and the
/// prefixes of foreign programs listed in load.cc. Variables without the prefix are ignored.
[[nodiscard]] Config load_config(const ConfigSource& source);

/// The same with the file's text in memory: `source.file` is only its name in messages.
[[nodiscard]] Config load_config_text(std::string_view text, const ConfigSource& source);

/// This process's environment, for ConfigSource::env. Call before other threads change it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> read_environment();

/// All of `config` as TOML; loads back to an equal Config.
[[nodiscard]] std::string print_config(const Config& config);

/// The text of config/pulsewheel.toml: every key with its documentation and, commented out, its
/// default.
[[nodiscard]] std::string print_documented_defaults();

/// The text of config/man/pulsewheel.toml.5: the same as a manual page.
[[nodiscard]] std::string print_manual_page();

/// One key, as text for people.
struct KeyInfo {
  std::string name;           // "presence.tick"; elements of [[listener]] are "listener.N.port"
  std::string type;           // "duration"
  std::string default_value;  // as TOML: "\"1s\""
  std::string range;          // "10ms to 10s"; empty when the type says it all
  std::string doc;            // whole sentences
  bool reloadable = false;    // a reload (SIGHUP) applies it; else it takes a restart
};

/// All keys, in the order of config/pulsewheel.toml.
[[nodiscard]] std::vector<KeyInfo> config_keys();

/// Names of the keys whose values differ, in the order of config_keys(). Elements of [[listener]]
/// are numbered from 0 ("listener.0.port"); another number of them is the one name "listener".
[[nodiscard]] std::vector<std::string> diff(const Config& old_config, const Config& new_config);

/// Whether a reload applies a key named by diff(); false for an unknown name.
[[nodiscard]] bool reload_applies(std::string_view key) noexcept;

/// What a reload of `wanted` makes of `running`: that, with the values of all keys that a reload
/// applies taken from `wanted`. Throws ConfigError where such a value does not go together with
/// one that takes a restart.
[[nodiscard]] Config apply_reload(const Config& running, const Config& wanted);

/// The value of a key named by diff(), as TOML: "\"30s\"". For "listener", how many there are.
[[nodiscard]] std::string value_text(const Config& config, std::string_view key);

}  // namespace pulsewheel

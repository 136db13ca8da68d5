#include "daemon/server/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <thread>

namespace pulsewheel {
namespace {

/// Descriptors of an event loop: epoll, its wake-up, its timer.
constexpr std::uint64_t kDescriptorsPerLoop = 3;
/// Loops beside the shards': main, HTTP and Redis.
constexpr std::uint64_t kOtherLoops = 3;
/// Listeners, log files and whatever a library opens for a moment; HTTP clients are beside them.
constexpr std::uint64_t kOtherDescriptors = 64;

/// A part of a limit that holds over all shards, with room for an uneven spread.
std::size_t per_shard(std::uint64_t total, std::size_t shards) {
  return shards == 1 ? total : with_spread_headroom((total + shards - 1) / shards);
}

DescriptorTables tables_of(Config::Server::FdTables tables) {
  switch (tables) {
    case Config::Server::FdTables::kShared:
      return DescriptorTables::kShared;
    case Config::Server::FdTables::kPerShard:
      return DescriptorTables::kPerShard;
    case Config::Server::FdTables::kAuto:
      break;
  }
  return DescriptorTables::kAuto;
}

/// The name under which this node holds users in Redis. Throws ConfigError.
std::string node_name(const Config::Redis& redis) {
  std::array<char, 256> host{};
  const bool named = !redis.node.empty();
  if (!named) ::gethostname(host.data(), host.size() - 1);
  std::string name = named ? redis.node : host.data();
  if (!RingNode::is_valid_name(name)) {
    throw ConfigError({std::string(named ? "redis.node" : "redis.node: the host's name") +
                       " must have 1 to " + std::to_string(RingNode::kNameBytesMax) +
                       " letters, digits, '.', '_' and '-'"});
  }
  return name;
}

RedisSecret secret_of(const Config::Redis& redis) {
  const bool has_file = !redis.password_file.empty();
  const bool has_variable = !redis.password_env.empty();
  if (has_file && has_variable) {
    throw ConfigError({"redis.password_file and redis.password_env: only one of them can be set"});
  }
  if (!redis.user.empty() && !has_file && !has_variable) {
    throw ConfigError({"redis.user: needs redis.password_file or redis.password_env"});
  }
  return {.user = redis.user,
          .password = {},
          .password_file = redis.password_file,
          .password_env = redis.password_env};
}

RedisTls tls_of(const Config::Redis& redis) {
  if (redis.cert_file.empty() != redis.key_file.empty()) {
    throw ConfigError({"redis.cert_file and redis.key_file: both of them, or none"});
  }
  return {.ca_file = redis.ca_file,
          .cert_file = redis.cert_file,
          .key_file = redis.key_file,
          .server_name = {}};
}

/// What `make` returns; what it throws as the problem of a key.
template <class Make>
auto checked(const char* key, Make make) {
  try {
    return make();
  } catch (const std::invalid_argument& error) {
    throw ConfigError({std::string(key) + ": " + error.what()});
  }
}

}  // namespace

std::size_t http_streams_max(const Config& config, std::uint64_t limit) noexcept {
  constexpr std::uint64_t kPart = 8;
  if (!config.http.enabled) return 0;
  return std::min<std::uint64_t>(config.http.streams_max, limit / kPart);
}

DescriptorRequest descriptor_request(const Config& config, std::uint64_t limit,
                                     std::uint64_t inherited) {
  const std::uint32_t shards = config.server.shards != 0
                                   ? config.server.shards
                                   : std::max(1U, std::thread::hardware_concurrency());
  // The port and the unix socket serve that many, each.
  const std::uint64_t http_ways = config.http.unix_socket.empty() ? 1 : 2;
  // Every loop's descriptors are in every table. How many shards there will be is not known yet:
  // 32 of them are enough for any limit that a table of its own helps against.
  const std::uint64_t loops = std::max<std::uint64_t>(shards, 32) + kOtherLoops;
  return {.mode = tables_of(config.server.fd_tables),
          .max_connections = config.server.max_connections,
          .limit = limit,
          .reserve = inherited + loops * kDescriptorsPerLoop + kOtherDescriptors +
                     http_ways * config.http.connections_max + http_streams_max(config, limit) +
                     Shard::kBusySessionsMax,
          .shards_wanted = shards};
}

ShardOptions shard_options(const Config& config, const NodeFacts& facts, ShardIndex index) {
  const std::size_t shards = facts.plan.shards;
  ShardOptions options;
  options.index = index;
  options.shards = shards;
  options.clock = TickClock(facts.origin, config.presence.tick);
  options.own_descriptor_table = facts.plan.per_shard;
  options.connections_max = facts.plan.connections_per_shard;
  options.accept_burst = config.server.accept_burst;
  options.handlers_max = config.server.loop_handlers_max;
  options.expiry_budget = config.server.expiry_budget;
  options.accept_queue_max = config.server.tcp_backlog;
  options.statistics_interval = config.log.stats_interval;
  options.tcp = {.user_timeout = config.server.tcp_user_timeout,
                 .keepalive_idle = config.server.tcp_keepalive_idle};

  SessionOptions& session = options.session;
  session.limits.payload_before_login_max =
      static_cast<std::uint16_t>(config.server.payload_before_login_max);
  session.limits.payload_after_login_max =
      static_cast<std::uint16_t>(config.server.payload_after_login_max);
  session.timeouts = {.timeout_default = config.presence.timeout,
                      .timeout_min = config.presence.timeout_min,
                      .timeout_max = config.presence.timeout_max};
  session.login_timeout = config.server.login_timeout;
  session.backlog_bytes_max = config.server.backlog_bytes_max;
  session.write_timeout = config.server.write_timeout;
  session.retry_after = config.drain.retry_after;

  PresenceRegistry::Options& registry = options.registry;
  registry.shard = index;
  registry.node_epoch = facts.epoch;
  registry.linger = config.presence.on_disconnect == Config::Presence::OnDisconnect::kLinger;
  registry.sessions_per_user_max = config.presence.sessions_per_user_max;
  registry.users_max = per_shard(presence_users_max(config), shards);
  registry.offline_retention = config.presence.offline_retention;
  registry.offline_users_max = per_shard(config.presence.offline_users_max, shards);
  registry.hash_seed = facts.hash_seed;
  registry.unknown_until = facts.grace_end;
  registry.run_began = facts.origin;
  registry.track_deadlines = uses_redis(config);
  return options;
}

Snapshotter::Options snapshot_options(const Config& config, const EpochStore& store) {
  return {.state_dir = store.state_dir(),
          .folder = store.folder_id(),
          .epoch = store.epoch(),
          .interval = config.snapshot.interval};
}

EventLog::Options event_log_options(const Config& config) {
  EventLog::Options options;
  options.path = event_log_path(config);
  options.offline_path = config.events.offline_path;
  options.rotate_bytes = config.events.rotate_size;
  options.rotate_keep = config.events.rotate_keep;
  options.queue_edges_max = config.events.queue_max;
  return options;
}

log::Options log_options(const Config& config) {
  log::Options options;
  switch (config.log.level) {
    case Config::Log::Level::kDebug:
      options.level = log::Level::kDebug;
      break;
    case Config::Log::Level::kInfo:
      options.level = log::Level::kInfo;
      break;
    case Config::Log::Level::kWarn:
      options.level = log::Level::kWarn;
      break;
    case Config::Log::Level::kError:
      options.level = log::Level::kError;
      break;
  }
  options.format =
      config.log.format == Config::Log::Format::kJson ? log::Format::kJson : log::Format::kHuman;
  options.destination = config.log.destination;
  options.lines_per_second_max = config.log.rate_limit;
  return options;
}

EventRing::Options event_ring_options(const Config& config, const NodeFacts& facts) {
  EventRing::Options options;
  options.entries_min = config.http.event_ring;
  options.epoch = facts.epoch;
  options.first_seq = facts.first_seq;
  options.continued_epoch = facts.continued_epoch;
  return options;
}

HttpServer::Options http_options(const Config& config, const NodeFacts& facts) {
  HttpServer::Options options;
  options.address = config.http.address;
  options.port = config.http.port;
  options.unix_socket = config.http.unix_socket;
  options.unix_socket_mode =
      static_cast<mode_t>(std::stoul(config.http.unix_socket_mode, nullptr, 8));
  options.limits.connections_max = config.http.connections_max;
  options.limits.streams_max = facts.http_streams_max;
  return options;
}

BearerToken http_token(const Config& config) {
  if (!config.http.enabled || config.http.token_file.empty()) return {};
  try {
    return BearerToken::read(config.http.token_file);
  } catch (const std::runtime_error& error) {
    throw ConfigError({std::string("http.token_file: ") + error.what()});
  }
}

bool uses_redis(const Config& config) noexcept {
  return config.redis.mode != Config::Redis::Mode::kOff;
}

MirrorOptions mirror_options(const Config& config, const NodeFacts& facts) {
  const Config::Redis& redis = config.redis;
  MirrorOptions options;
  options.connection.url = checked("redis.url", [&] { return RedisUrl::parse(redis.url); });
  options.connection.secret = secret_of(redis);
  options.connection.tls = tls_of(redis);
  options.node = {.name = node_name(redis), .epoch = facts.epoch};
  options.connection.client_name = "pulsewheel-" + options.node.name;
  options.connection.connect_timeout = redis.connect_timeout;
  options.connection.command_timeout = redis.command_timeout;
  options.seed = facts.hash_seed;
  options.layout = checked("redis.*_key, redis.*_prefix", [&] {
    return RingLayout({.ring = redis.list_key,
                       .slot_prefix = redis.slot_prefix,
                       .index = redis.index_key,
                       .prefix = redis.key_prefix},
                      redis.slots);
  });
  options.stream_entries_max = redis.stream_max;
  options.batch_max = redis.batch_max;
  options.queue.changes_max = redis.queue_max;
  options.shared = redis.mode == Config::Redis::Mode::kShared;
  options.repair = {.users_per_second = redis.repair_rate,
                    .seed = facts.hash_seed,
                    .leaves_earlier_lives = options.shared};
  options.timeout = config.presence.timeout;
  return options;
}

void check_config(const Config& config) {
  if (config.http.unix_socket.size() > UnixSocketFile::kPathBytesMax) {
    throw ConfigError(
        {"http.unix_socket: a path of up to " + std::to_string(UnixSocketFile::kPathBytesMax) +
         " bytes is allowed, this one has " + std::to_string(config.http.unix_socket.size())});
  }
  static_cast<void>(http_token(config));
  if (uses_redis(config)) static_cast<void>(mirror_options(config, {}));
}

}  // namespace pulsewheel

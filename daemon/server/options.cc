#include "daemon/server/options.h"

#include <algorithm>
#include <thread>

namespace pulsewheel {
namespace {

/// Descriptors of an event loop: epoll, its wake-up, its timer.
constexpr std::uint64_t kDescriptorsPerLoop = 3;
/// Loops beside the shards': main and HTTP.
constexpr std::uint64_t kOtherLoops = 2;
/// Listeners, HTTP clients, log files and whatever a library opens for a moment.
constexpr std::uint64_t kOtherDescriptors = 320;

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

}  // namespace

DescriptorRequest descriptor_request(const Config& config, std::uint64_t limit,
                                     std::uint64_t inherited) {
  const std::uint32_t shards = config.server.shards != 0
                                   ? config.server.shards
                                   : std::max(1U, std::thread::hardware_concurrency());
  // Every loop's descriptors are in every table. How many shards there will be is not known yet:
  // 32 of them are enough for any limit that a table of its own helps against.
  const std::uint64_t loops = std::max<std::uint64_t>(shards, 32) + kOtherLoops;
  return {.mode = tables_of(config.server.fd_tables),
          .max_connections = config.server.max_connections,
          .limit = limit,
          .reserve =
              inherited + loops * kDescriptorsPerLoop + kOtherDescriptors + Shard::kBusySessionsMax,
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
  return options;
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

HttpServer::Options http_options(const Config& config) {
  return {.address = config.http.address, .port = config.http.port, .limits = {}};
}

}  // namespace pulsewheel

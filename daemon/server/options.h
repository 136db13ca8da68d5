// From the Config of the operator to the Options of the parts. Nobody but the server knows both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/config.h"
#include "daemon/admin/bearer_token.h"
#include "daemon/admin/http_server.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/base/log.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/event_log.h"
#include "daemon/events/event_ring.h"
#include "daemon/redis/mirror_link.h"
#include "daemon/server/shard.h"
#include "daemon/server/snapshotter.h"

namespace pulsewheel {

/// What holds for every shard alike and is known at start only.
struct NodeFacts {
  DescriptorPlan plan;
  std::size_t http_streams_max = 0;
  std::uint64_t epoch = 1;
  std::uint64_t first_seq = 1;        // of this run's edges
  std::uint64_t continued_epoch = 0;  // of the run whose numbers go on; 0: none
  std::uint64_t hash_seed = 0;
  MonoTime origin;  // of the ticks
  /// The end of restart.grace: until then nobody can tell who was online. The past: no grace.
  MonoTime grace_end = MonoTime::min();
};

/// How many streams the HTTP port may have, given the limit of this process on descriptors: what
/// clients are for must not suffer from those who watch.
[[nodiscard]] std::size_t http_streams_max(const Config& config, std::uint64_t limit) noexcept;
/// How many shards and descriptors the connections asked for take, given the limit of this
/// process. `inherited`: descriptors open already.
[[nodiscard]] DescriptorRequest descriptor_request(const Config& config, std::uint64_t limit,
                                                   std::uint64_t inherited);
[[nodiscard]] ShardOptions shard_options(const Config& config, const NodeFacts& facts,
                                         ShardIndex index);
[[nodiscard]] Snapshotter::Options snapshot_options(const Config& config, const EpochStore& store);
[[nodiscard]] EventLog::Options event_log_options(const Config& config);
[[nodiscard]] log::Options log_options(const Config& config);
[[nodiscard]] EventRing::Options event_ring_options(const Config& config, const NodeFacts& facts);
[[nodiscard]] HttpServer::Options http_options(const Config& config, const NodeFacts& facts);
/// What requests have to show, read from http.token_file; none without that or without a port.
/// Blocks on the disk that has the file. Throws ConfigError.
[[nodiscard]] BearerToken http_token(const Config& config);

[[nodiscard]] bool uses_redis(const Config& config) noexcept;
/// Requires uses_redis(). Throws ConfigError where a key's text is wrong.
[[nodiscard]] MirrorOptions mirror_options(const Config& config, const NodeFacts& facts);
/// The checks that need more than config/ knows, and the files that it names. Throws ConfigError.
void check_config(const Config& config);

}  // namespace pulsewheel

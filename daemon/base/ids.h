// Names by which shards know each other's sessions and users. Never a pointer.
#pragma once

#include <compare>
#include <cstdint>

namespace pulsewheel {

using ShardIndex = std::uint16_t;

/// A slot of a shard's session slab. The generation grows each time the slot is given out, so
/// that a late message for an earlier session finds nobody.
struct SessionRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0: nobody
  ShardIndex shard = 0;

  friend bool operator==(const SessionRef&, const SessionRef&) = default;
};

/// A slot of the user slab of the user's home shard; same rule for the generation.
struct UserRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0: nobody
  ShardIndex shard = 0;          // the home shard

  friend bool operator==(const UserRef&, const UserRef&) = default;
};

/// Grows with every login of a node and with every start of it: node epoch (24 bits), the home
/// shard's login count (30 bits), home shard (10 bits). Of two sessions of one user the greater
/// id is the newer one.
using SessionId = std::uint64_t;

}  // namespace pulsewheel

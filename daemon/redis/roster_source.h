// RosterSource: whom the mirror asks who is online.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/ids.h"

namespace pulsewheel {

/// Called on the mirror's thread; must not block.
class RosterSource {
 public:
  [[nodiscard]] virtual std::size_t shards() const noexcept = 0;
  /// Asks for the online users in `slots` user slots of a shard, from `first_slot` on. They come as
  /// a batch of deadlines, behind all news of the shard that is older; or never, when the shard has
  /// stopped.
  virtual void ask(ShardIndex shard, std::uint32_t first_slot, std::size_t slots) = 0;

 protected:
  ~RosterSource() = default;
};

}  // namespace pulsewheel

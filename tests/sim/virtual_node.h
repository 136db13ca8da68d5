// VirtualNode: the shards of one node and the mail between them; it crashes, stops and starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/sim/virtual_shard.h"

namespace pulsewheel::nodesim {

class VirtualNode final : private MailCarrier {
 public:
  VirtualNode(World& world, Network& network);

  /// Handles what reaches the node's machine, up or not.
  void on_arrival(Connection& connection, Packet packet);
  /// An event of the node's own. Those of an earlier start are ignored.
  void on_event(const Event& event);

  // --- What befalls it ---

  void stall(Duration length, bool whole_node);
  void kick(std::uint32_t user);
  void hold_or_release(std::uint32_t user);
  /// Each shard hears of it in its own time; a node that starts has them from the beginning.
  void reload(const Timeouts& timeouts);
  /// Everything is gone at once, and starts again `down` later.
  void crash(Duration down);
  /// GOAWAY to everybody, `shutdown` edges for who is left, and a new start `down` later.
  void stop(Duration down);

  // --- Observing ---

  /// Nothing is on its way between shards, and no shard has anything to do.
  [[nodiscard]] bool at_rest() const noexcept;
  [[nodiscard]] bool up() const noexcept { return !shards_.empty(); }
  /// At rest: what the node says of each user is what the model says. O(users + sessions).
  void check() const;
  /// Nobody is connected or remembered: nothing is left behind.
  void check_empty() const;

 private:
  void post(ShardIndex from, ShardIndex to, MailBatch batch, MonoTime at) override;
  void start();
  void depart();
  void end(Duration down);
  [[nodiscard]] std::deque<MailBatch>& lane(std::size_t from, std::size_t to) noexcept {
    return lanes_[from * world_.profile.shards + to];
  }

  World& world_;
  Network& network_;
  std::uint32_t epoch_ = 0;  // which start this is
  std::vector<std::unique_ptr<VirtualShard>> shards_;
  std::vector<std::deque<MailBatch>> lanes_;  // on its way from shard to shard, in order
  std::size_t batches_on_their_way_ = 0;
  std::vector<ShardIndex> home_;  // by user
  Timeouts timeouts_;
  int departure_steps_left_ = 0;  // of a clean stop
  Duration down_{0};
};

}  // namespace pulsewheel::nodesim

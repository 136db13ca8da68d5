#include "tests/sim/network.h"

#include <algorithm>

namespace pulsewheel::nodesim {

Duration Network::delay() {
  const Profile& p = world_.profile;
  Duration delay = world_.random.in(p.network_delay);
  if (world_.random.chance(p.lost)) delay += world_.random.in(p.retransmission);
  return delay;
}

ConnectionRef Network::open(std::uint32_t client, std::uint32_t user, std::uint8_t device,
                            std::uint32_t wish_ms, ShardIndex shard) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(connections_.size()));
    connections_.emplace_back().index = free_.back();
  }
  Connection& c = connections_[free_.back()];
  free_.pop_back();
  ++c.generation;
  c.client = client;
  c.wish_ms = wish_ms;
  c.shard = shard;
  c.server = Connection::Server::kOnItsWay;
  c.client_holds = true;
  c.cut = false;
  c.last_up = c.last_down = MonoTime{};
  c.witness = &world_.model.on_connect(user, device, wish_ms);
  c.inbox.clear();
  return c.ref();
}

Connection* Network::find(ConnectionRef ref) noexcept {
  if (ref.generation == 0 || ref.index >= connections_.size()) return nullptr;
  Connection& c = connections_[ref.index];
  return c.generation == ref.generation ? &c : nullptr;
}

void Network::send(ConnectionRef ref, Packet packet) {
  Connection* const c = find(ref);
  if (c == nullptr || c->cut || !c->client_holds) return;
  c->last_up = std::max(c->last_up + Duration{1}, world_.now() + delay());
  world_.at(c->last_up, {.index = c->index,
                         .generation = c->generation,
                         .kind = EventKind::kArrival,
                         .detail = static_cast<std::uint8_t>(packet)});
}

void Network::cut(ConnectionRef ref) {
  Connection* const c = find(ref);
  if (c == nullptr) return;
  c->cut = true;
  // Of a connection that never came there is nothing to wait for.
  if (c->server == Connection::Server::kOnItsWay) server_leaves(*c);
}

void Network::leave(ConnectionRef ref) {
  Connection* const c = find(ref);
  if (c == nullptr) return;
  c->client_holds = false;
  free_if_left(*c);
}

void Network::tell(Connection& c, Word word) {
  if (c.cut || !c.client_holds) return;
  c.last_down = std::max(c.last_down + Duration{1}, world_.now() + delay());
  world_.at(c.last_down, {.index = c.index,
                          .generation = c.generation,
                          .kind = EventKind::kClientHears,
                          .detail = static_cast<std::uint8_t>(word)});
}

void Network::server_leaves(Connection& c) {
  if (c.server == Connection::Server::kGone) return;
  c.server = Connection::Server::kGone;
  c.inbox.clear();
  world_.model.on_connection_gone(*c.witness);
  c.witness = nullptr;
  free_if_left(c);
}

void Network::free_if_left(Connection& c) {
  if (c.client_holds || c.server != Connection::Server::kGone) return;
  ++c.generation;
  free_.push_back(c.index);
}

}  // namespace pulsewheel::nodesim

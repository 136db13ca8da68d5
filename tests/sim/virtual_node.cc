#include "tests/sim/virtual_node.h"

#include <algorithm>
#include <string>
#include <utility>

namespace pulsewheel::nodesim {
namespace {

constexpr int kDepartureSteps = 20;
constexpr Duration kDepartureStep = milliseconds{50};

}  // namespace

VirtualNode::VirtualNode(World& world, Network& network)
    : world_(world),
      network_(network),
      lanes_(world.profile.shards * world.profile.shards),
      timeouts_(world.profile.timeouts) {
  for (std::uint32_t user = 0; user < world.profile.users; ++user)
    home_.push_back(home_shard_of(uid_of(user), kHashSeed, world.profile.shards));
  start();
}

void VirtualNode::start() {
  ++epoch_;
  MailCarrier& carrier = *this;
  for (std::size_t index = 0; index < world_.profile.shards; ++index) {
    shards_.push_back(std::make_unique<VirtualShard>(
        world_, network_, carrier, static_cast<ShardIndex>(index), epoch_, timeouts_));
  }
}

void VirtualNode::on_arrival(Connection& c, Packet packet) {
  if (c.cut && c.server != Connection::Server::kGone) return;
  if (c.server == Connection::Server::kGone) {
    return network_.tell(c, Word::kClosed);  // a reset
  }
  if (packet == Packet::kConnect) {
    if (up() && departure_steps_left_ == 0) return shards_[c.shard]->on_connect(c);
    network_.tell(c, Word::kClosed);
    return network_.server_leaves(c);
  }
  c.inbox.push(packet, world_.now());
  if (packet == Packet::kLogin) world_.model.on_login_arrived(*c.witness, world_.now());
  if (c.server == Connection::Server::kAccepted) shards_[c.shard]->on_readable(c);
}

void VirtualNode::on_event(const Event& event) {
  if (event.index != epoch_) return;
  if (event.kind == EventKind::kStart) return start();
  if (!up()) return;
  VirtualShard& shard = *shards_[event.shard];
  switch (event.kind) {
    case EventKind::kMail: {
      auto& mail = lane(event.generation, event.shard);
      MailBatch batch = std::move(mail.front());
      mail.pop_front();
      --batches_on_their_way_;
      return shard.on_mail(std::move(batch));
    }
    case EventKind::kWake:
      return shard.on_wake(event.generation);
    case EventKind::kRound:
      return shard.on_round();
    case EventKind::kRestOfRound:
      return shard.on_rest_of_round();
    case EventKind::kCloseSome:
      return shard.close_some();
    case EventKind::kRenegotiate:
      return shard.renegotiate_some();
    case EventKind::kDepart:
      return depart();
    default:
      PULSEWHEEL_CHECK(!"an event of the node");
  }
}

/// A post is in the receiving loop's queue at once, as the daemon's are.
void VirtualNode::post(ShardIndex from, ShardIndex to, MailBatch batch, MonoTime at) {
  lane(from, to).push_back(std::move(batch));
  ++batches_on_their_way_;
  world_.at(at, {.index = epoch_, .generation = from, .kind = EventKind::kMail, .shard = to});
}

// --- What befalls it ----------------------------------------------------------------------------

void VirtualNode::stall(Duration length, bool whole_node) {
  if (!up()) return;
  const MonoTime until = world_.now() + length;
  world_.model.on_stall(until);
  if (!whole_node) return shards_[world_.random.below(shards_.size())]->stall(until);
  for (auto& shard : shards_)
    shard->stall(until);
}

void VirtualNode::kick(std::uint32_t user) {
  if (up()) shards_[home_[user]]->post_kick(user);
}

void VirtualNode::hold_or_release(std::uint32_t user) {
  if (up()) shards_[home_[user]]->post_hold_or_release(user);
}

void VirtualNode::reload(const Timeouts& timeouts) {
  timeouts_ = timeouts;
  for (auto& shard : shards_)
    shard->post_reload(timeouts);
}

void VirtualNode::crash(Duration down) {
  if (!up() || departure_steps_left_ > 0) return;
  ++world_.tally.crashes;
  end(down);
}

void VirtualNode::stop(Duration down) {
  if (!up() || departure_steps_left_ > 0) return;
  ++world_.tally.clean_stops;
  down_ = down;
  departure_steps_left_ = kDepartureSteps;
  for (auto& shard : shards_)
    shard->stop_accepting();
  depart();
}

void VirtualNode::depart() {
  const auto steps = static_cast<std::size_t>(departure_steps_left_);
  if (--departure_steps_left_ > 0) {
    for (auto& shard : shards_)
      shard->send_away(shard->sessions() / steps + 1);
    return world_.at(world_.now() + kDepartureStep, {.index = epoch_, .kind = EventKind::kDepart});
  }
  world_.model.on_shutdown();
  for (auto& shard : shards_)
    shard->shut_users_down();
  end(down_);
}

void VirtualNode::end(Duration down) {
  world_.model.on_gone(world_.now());
  shards_.clear();
  for (auto& lane : lanes_)
    lane.clear();
  batches_on_their_way_ = 0;
  network_.for_each([this](Connection& c) {
    if (c.server == Connection::Server::kOnItsWay || c.server == Connection::Server::kGone) return;
    network_.tell(c, Word::kClosed);
    network_.server_leaves(c);
  });
  world_.at(world_.now() + down, {.index = epoch_, .kind = EventKind::kStart});
}

// --- Observing ----------------------------------------------------------------------------------

bool VirtualNode::at_rest() const noexcept {
  return batches_on_their_way_ == 0 &&
         std::all_of(shards_.begin(), shards_.end(), [](const auto& s) { return s->at_rest(); });
}

void VirtualNode::check() const {
  if (!up()) return;
  const Model& model = world_.model;
  ++world_.tally.checks_at_rest;
  std::size_t users_online = 0;
  for (std::uint32_t user = 0; user < home_.size(); ++user) {
    model.check_user(user, shards_[home_[user]]->core().find_user(uid_of(user), world_.now()),
                     world_.now());
    users_online += model.online(user, world_.now()) ? 1 : 0;
  }
  std::size_t online = 0;
  std::size_t live = 0;
  std::size_t active = 0;
  for (const auto& shard : shards_) {
    online += shard->core().registry().online_users();
    live += shard->core().registry().live_sessions();
    active += shard->active_sessions();
  }
  if (online != users_online) model.fail("the registries count the wrong number of users");
  if (live != model.live_sessions())
    model.fail("the registries count the wrong number of sessions");
  if (active != live) {
    model.fail(std::to_string(active) + " sessions are logged in, " + std::to_string(live) +
               " are known at home");
  }
}

void VirtualNode::check_empty() const {
  const Model& model = world_.model;
  for (const auto& shard : shards_) {
    const PresenceRegistry& registry = shard->core().registry();
    if (shard->sessions() != 0) model.fail("a session is left");
    if (registry.online_users() != 0 || registry.live_sessions() != 0) model.fail("a user is left");
    if (registry.lingering_users() != 0) model.fail("a lingering user is left");
    if (registry.offline_users() != 0) model.fail("a user is remembered for ever");
    if (!shard->asleep_for_good()) model.fail("a hook is left on the wheel");
    if (shard->core().timers().counts().armed.value() != 0) model.fail("a timer is left");
  }
  if (model.live_sessions() != 0) model.fail("the model has a session left");
  if (model.witnesses() != 0) model.fail("the model has a connection left");
  if (network_.open_connections() != 0) model.fail("a connection is left");
}

}  // namespace pulsewheel::nodesim

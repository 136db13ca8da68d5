#include "tests/sim/clients.h"

#include <algorithm>
#include <array>

namespace pulsewheel::nodesim {
namespace {

/// Wished intervals, in ms; 0 leaves the choice to the server.
constexpr std::array<std::uint32_t, 8> kWishes{0, 0, 0, 4'000, 6'667, 20'000, 60'000, 300'000};
constexpr std::size_t kDevicesMax = 3;

}  // namespace

Clients::Clients(World& world, Network& network) : world_(world), network_(network) {
  Random& random = world_.random;
  for (std::uint32_t user = 0; user < world_.profile.users; ++user) {
    const bool labelled = random.chance(world_.profile.labelled);
    const std::uint64_t devices = 1 + random.below(kDevicesMax);
    for (std::uint8_t device = 1; device <= devices; ++device)
      add_client(user, labelled ? device : std::uint8_t{0});
  }
}

void Clients::add_client(std::uint32_t user, std::uint8_t device) {
  Client client;
  client.user = user;
  client.device = device;
  client.wish_ms = kWishes[world_.random.below(kWishes.size())];
  client.timeout = world_.profile.timeouts.of_wish(client.wish_ms);
  clients_.push_back(client);
}

void Clients::start(Duration window) {
  for (Client& client : clients_)
    set_timer(client, State::kAway, world_.random.in(Duration{0}, window));
}

void Clients::set_timer(Client& client, State state, Duration after) {
  client.state = state;
  world_.at(
      world_.now() + after,
      {.index = index_of(client), .generation = ++client.token, .kind = EventKind::kClientTimer});
}

void Clients::on_timer(std::uint32_t index, std::uint32_t token) {
  Client& client = clients_[index];
  if (client.token != token) return;
  switch (client.state) {
    case State::kAway:
      return connect(client);
    case State::kWaiting:  // the network or the server has swallowed it
      leave_behind(client.connection);
      return set_timer(client, State::kAway, time_away(client));
    case State::kOn:
      return act(client);
    case State::kSilent:
      if (world_.random.chance(500)) return keep_alive(client, Packet::kKeepalive);
      leave_behind(client.connection);
      return connect(client);
  }
}

void Clients::connect(Client& client) {
  if (home_) return;
  Random& random = world_.random;
  const auto shard = static_cast<ShardIndex>(random.below(world_.profile.shards));
  client.connection =
      network_.open(index_of(client), client.user, client.device, client.wish_ms, shard);
  network_.send(client.connection, Packet::kConnect);
  set_timer(client, State::kWaiting, kPatience);
  if (random.chance(world_.profile.speechless)) return;
  network_.send(client.connection, Packet::kLogin);
  if (!random.chance(world_.profile.impatient)) return;
  constexpr std::array kNext{Packet::kKeepalive, Packet::kMessage, Packet::kLogout, Packet::kFin,
                             Packet::kReset};
  const Packet next = kNext[random.below(kNext.size())];
  network_.send(client.connection, next);
  if (next != Packet::kFin && next != Packet::kReset) return;
  network_.leave(client.connection);
  set_timer(client, State::kAway, time_away(client));
}

/// Now and then just when the connection that was left runs out: within a few ticks of it.
Duration Clients::time_away(const Client& client) {
  Random& random = world_.random;
  const Duration tick = world_.profile.tick;
  switch (random.below(4)) {
    case 0:
      return random.in(milliseconds{0}, seconds{1});
    case 1:
      return random.in(client.timeout - std::min(client.timeout, 2 * tick),
                       client.timeout + 2 * tick);
    default:
      return random.in(world_.profile.away);
  }
}

void Clients::act(Client& client) {
  const Habits& h = world_.profile.habits;
  std::uint64_t draw = world_.random.below(h.keepalive + h.message + h.logout + h.fin + h.reset +
                                           h.half_open + h.silence + h.move + h.race);
  const auto falls_in = [&draw](unsigned weight) {
    if (draw < weight) return true;
    draw -= weight;
    return false;
  };
  if (falls_in(h.keepalive)) return keep_alive(client, Packet::kKeepalive);
  if (falls_in(h.message)) return keep_alive(client, Packet::kMessage);
  if (falls_in(h.logout)) {
    network_.send(client.connection, Packet::kLogout);
    return set_timer(client, State::kWaiting, kPatience);
  }
  if (falls_in(h.fin)) return close(client, Packet::kFin);
  if (falls_in(h.reset)) return close(client, Packet::kReset);
  if (falls_in(h.half_open)) {
    network_.cut(client.connection);
    network_.leave(client.connection);
    client.connection = {};
    return set_timer(client, State::kAway, time_away(client));
  }
  if (falls_in(h.silence)) {
    return set_timer(client, State::kSilent,
                     world_.random.in(client.timeout / 2, client.timeout * 3));
  }
  leave_behind(client.connection);
  connect(client);
  if (falls_in(h.move)) return;
  const ConnectionRef first = client.connection;
  connect(client);
  leave_behind(first);
}

void Clients::keep_alive(Client& client, Packet packet) {
  network_.send(client.connection, packet);
  const Duration interval = client.timeout * 2 / 3;
  if (!world_.random.chance(world_.profile.near_deadline)) {
    return set_timer(client, State::kOn, world_.random.in(interval * 9 / 10, interval));
  }
  const Duration near = 2 * world_.profile.tick;
  set_timer(
      client, State::kOn,
      world_.random.in(client.timeout - std::min(client.timeout, near), client.timeout + near));
}

void Clients::close(Client& client, Packet how) {
  network_.send(client.connection, how);
  network_.leave(client.connection);
  set_timer(client, State::kAway, time_away(client));
}

/// A connection that nobody uses any more is closed, cut off, or just left standing.
void Clients::leave_behind(ConnectionRef old) {
  switch (world_.random.below(3)) {
    case 0:
      network_.send(old, Packet::kFin);
      break;
    case 1:
      network_.cut(old);
      break;
    default:
      return;  // until the server ends it
  }
  network_.leave(old);
}

void Clients::on_hears(Connection& connection, Word word) {
  Client& client = clients_[connection.client];
  const ConnectionRef ref = connection.ref();
  const bool current = client.connection == ref;
  if (word == Word::kWelcome || word == Word::kSettings) {
    if (!current) return;
    client.timeout = connection.timeout;
    const State expected = word == Word::kWelcome ? State::kWaiting : State::kOn;
    if (client.state == expected) keep_alive(client, Packet::kMessage);
    return;
  }
  // Now and then a client does not care to close its side.
  const bool sloppy = word == Word::kFarewell && world_.random.chance(50);
  if (word == Word::kFarewell && !sloppy) network_.send(ref, Packet::kFin);
  network_.leave(ref);
  if (!current) return;
  client.connection = {};
  if (client.state != State::kAway) set_timer(client, State::kAway, time_away(client));
}

void Clients::storm() {
  for (Client& client : clients_) {
    network_.send(client.connection, world_.random.chance(500) ? Packet::kFin : Packet::kReset);
    network_.leave(client.connection);
    connect(client);
  }
}

void Clients::go_home() {
  home_ = true;
  for (Client& client : clients_) {
    ++client.token;
    network_.send(client.connection, Packet::kFin);
  }
  network_.for_each([this](Connection& c) { network_.leave(c.ref()); });
}

}  // namespace pulsewheel::nodesim

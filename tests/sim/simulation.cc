#include "tests/sim/simulation.h"

#include <algorithm>
#include <array>

namespace pulsewheel::nodesim {
namespace {

/// Between two checks of all users, for each user: keeps the checks a small part of the work.
constexpr std::uint64_t kStepsPerCheckedUser = 10;
constexpr Duration kArrivalWindow = seconds{20};
constexpr Span kDown{milliseconds{50}, seconds{20}};
/// To go home takes a timeout and a retention; beyond this many steps it goes in circles.
constexpr std::uint64_t kStepsToSettleMax = 20'000'000;

constexpr std::array kStrikes{EventKind::kStall, EventKind::kKick,   EventKind::kHold,
                              EventKind::kStorm, EventKind::kReload, EventKind::kRestart};

}  // namespace

Simulation::Simulation(const Profile& profile, std::uint64_t seed, Sabotage sabotage)
    : seed_(seed),
      world_(profile, seed, sabotage),
      network_(world_),
      node_(world_, network_),
      clients_(world_, network_) {
  clients_.start(kArrivalWindow);
  for (const EventKind kind : kStrikes)
    schedule(kind);
}

template <class Function>
void Simulation::explained(Function function) {
  try {
    function();
  } catch (const Violation& violation) {
    std::string again = "./dev simulate --profile " + std::string(world_.profile.name) +
                        " --seed " + std::to_string(seed_) + " --steps " +
                        std::to_string(over_at_.value_or(world_.tally.steps));
    if (world_.sabotage != Sabotage::kNone) {
      again += " --sabotage " + std::string(to_string(world_.sabotage));
    }
    throw Violation("at step " + std::to_string(world_.tally.steps) + ", " + to_text(world_.now()) +
                    ": " + violation.what() + "again: " + again);
  }
}

void Simulation::run(std::uint64_t steps) {
  explained([&] {
    for (; steps > 0; --steps)
      step();
  });
}

void Simulation::settle() {
  over_at_ = world_.tally.steps;
  explained([this] {
    clients_.go_home();
    for (std::uint64_t steps = 0; !world_.events.empty(); ++steps) {
      if (steps == kStepsToSettleMax) world_.model.fail("the node does not come to rest");
      step();
    }
    node_.check_empty();
  });
}

void Simulation::step() {
  handle(world_.events.pop());
  ++world_.tally.steps;
  const bool moment_over = world_.events.empty() || world_.events.next_at() > world_.now();
  if (!moment_over || !node_.at_rest()) return;
  world_.model.on_rest(world_.now());
  if (world_.tally.steps < next_check_) return;
  next_check_ = world_.tally.steps + kStepsPerCheckedUser * world_.profile.users;
  node_.check();
}

void Simulation::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kClientTimer:
      return clients_.on_timer(event.index, event.generation);
    case EventKind::kClientHears:
    case EventKind::kArrival:
      return on_client_event(event);
    case EventKind::kStall:
    case EventKind::kKick:
    case EventKind::kHold:
    case EventKind::kStorm:
    case EventKind::kReload:
    case EventKind::kRestart:
      return strike(event.kind);
    default:
      return node_.on_event(event);
  }
}

void Simulation::on_client_event(const Event& event) {
  Connection* const connection = network_.find({event.index, event.generation});
  if (connection == nullptr) return;
  if (event.kind == EventKind::kArrival) {
    node_.on_arrival(*connection, static_cast<Packet>(event.detail));
  } else if (!connection->cut && connection->client_holds) {
    clients_.on_hears(*connection, static_cast<Word>(event.detail));
  }
}

// --- What befalls the node ----------------------------------------------------------------------

Duration Simulation::mean_pause(EventKind kind) const noexcept {
  const Profile& p = world_.profile;
  switch (kind) {
    case EventKind::kStall:
      return p.stall_every;
    case EventKind::kKick:
      return p.kick_every;
    case EventKind::kHold:
      return p.hold_every;
    case EventKind::kStorm:
      return p.storm_every;
    case EventKind::kReload:
      return p.reload_every;
    default:
      return p.restart_every;
  }
}

void Simulation::schedule(EventKind kind) {
  const Duration mean = mean_pause(kind);
  if (mean == Duration{0}) return;
  world_.at(world_.now() + world_.random.in(mean / 2, mean * 3 / 2), {.kind = kind});
}

Timeouts Simulation::other_timeouts() {
  constexpr std::array<Duration, 5> kStandard{seconds{8}, seconds{15}, seconds{30}, seconds{45},
                                              seconds{90}};
  Timeouts timeouts = world_.profile.timeouts;
  timeouts.standard = kStandard[world_.random.below(kStandard.size())];
  timeouts.min = milliseconds{2'000 + world_.random.below(6'000)};
  timeouts.max = milliseconds{90'000 + world_.random.below(600'000)};
  return timeouts;
}

void Simulation::strike(EventKind kind) {
  if (over_at_) return;
  Random& random = world_.random;
  const Profile& p = world_.profile;
  schedule(kind);
  switch (kind) {
    case EventKind::kStall:
      return node_.stall(random.in(p.stall), random.chance(p.whole_node_stalls));
    case EventKind::kKick:
      return node_.kick(static_cast<std::uint32_t>(random.below(p.users)));
    case EventKind::kHold:
      // Of a tenth of the users, so that they are let go, too.
      return node_.hold_or_release(static_cast<std::uint32_t>(random.below(p.users / 10)));
    case EventKind::kStorm:
      ++world_.tally.storms;
      return clients_.storm();
    case EventKind::kReload:
      return node_.reload(other_timeouts());
    default:
      return random.chance(p.crashes) ? node_.crash(random.in(kDown))
                                      : node_.stop(random.in(kDown));
  }
}

}  // namespace pulsewheel::nodesim

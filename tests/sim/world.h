// World: what all parts of one simulation share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/core/edge.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/model.h"
#include "tests/sim/profile.h"
#include "tests/sim/random.h"
#include "tests/sim/sabotage.h"
#include "tests/sim/trace.h"

namespace pulsewheel::nodesim {

/// What a simulation did: a run in which nothing happened proves nothing.
struct Tally {
  std::uint64_t steps = 0;
  std::uint64_t rounds = 0;
  std::uint64_t packets_read = 0;
  std::uint64_t logins = 0;
  std::uint64_t refused = 0;
  std::uint64_t takeovers = 0;
  std::uint64_t dismissals = 0;
  std::uint64_t closed_while_decided = 0;  // sessions that ended before their login was answered
  std::uint64_t reprieves = 0;
  std::uint64_t stalls = 0;  // as the node counts them
  std::uint64_t fences = 0;
  std::uint64_t kicks = 0;
  std::uint64_t holds = 0;
  std::uint64_t holds_over = 0;  // by themselves
  std::uint64_t deadlines = 0;   // told to a mirror
  std::uint64_t settings = 0;    // sessions that got another timeout
  std::uint64_t storms = 0;
  std::uint64_t crashes = 0;
  std::uint64_t clean_stops = 0;
  std::uint64_t checks_at_rest = 0;                       // of every user
  std::uint64_t online = 0;                               // edges
  std::array<std::uint64_t, kEdgeReasonCount> offline{};  // edges by reason
};

struct World {
  World(const Profile& the_profile, std::uint64_t seed, Sabotage the_sabotage)
      : profile(the_profile), sabotage(the_sabotage), random(seed), model(profile, trace) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void at(MonoTime when, Event event) {
    event.at = when;
    events.push(event, random.bits());
  }
  [[nodiscard]] MonoTime now() const noexcept { return events.now(); }

  const Profile profile;
  const Sabotage sabotage;
  EventQueue events;
  Random random;
  Trace trace;
  Model model;
  Tally tally;
};

}  // namespace pulsewheel::nodesim

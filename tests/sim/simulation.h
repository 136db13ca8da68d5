// A whole node in virtual time: hours of a node's life in a minute, each step checked.
//
// What is real here, the code under test: ShardCore, PresenceRegistry, TimeWheel, TimerService,
// SessionFsm, negotiate(), and whatever they use. What is virtual: sockets, network, threads,
// clock.
//
//   event_queue.h, random.h   the virtual clock; the only source of chance
//   profile.h                 what a node and its clients are like, and what befalls them
//   network.h                 connections with delay, loss and cut lines
//   clients.h                 thousands of devices, each of which does one thing at a time
//   virtual_shard.h           what shard.cc and session.cc do, round the real ShardCore
//   virtual_node.h            shards, the mail between them, crashes and clean stops
//   model.h                   what must hold, in its plainest form; knows none of the code above
//   trace.h                   the last facts, told with a violation
//   sabotage.h                rules broken on purpose, each of which the model has to notice
//   main.cc                   node_sim: long runs, and replaying one seed
//
// Everything follows from profile and seed: a violation names both, and the step, and
// `./dev simulate --profile P --seed S` shows it again. The profiles: calm, single, lossy, stalls,
// hiccups, storms, takeovers, tiny, fine, no-linger, reloads, restarts,
// everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/clients.h"
#include "tests/sim/network.h"
#include "tests/sim/virtual_node.h"
#include "tests/sim/world.h"

namespace pulsewheel::nodesim {

class Simulation {
 public:
  Simulation(const Profile& profile, std::uint64_t seed, Sabotage sabotage = Sabotage::kNone);

  /// `steps` events more. Throws Violation, with how to see it again.
  void run(std::uint64_t steps);
  /// Everybody goes home, nothing else happens, and in the end nothing must be left behind.
  void settle();

  [[nodiscard]] const Tally& tally() const noexcept { return world_.tally; }
  [[nodiscard]] Duration virtual_time() const noexcept { return world_.now() - EventQueue::kStart; }
  [[nodiscard]] Duration worst_lateness() const noexcept { return world_.model.worst_lateness(); }

 private:
  void step();
  void handle(const Event& event);
  void on_client_event(const Event& event);
  void strike(EventKind kind);
  void schedule(EventKind kind);
  [[nodiscard]] Timeouts other_timeouts();
  [[nodiscard]] Duration mean_pause(EventKind kind) const noexcept;
  template <class Function>
  void explained(Function function);

  const std::uint64_t seed_;
  World world_;
  Network network_;
  VirtualNode node_;
  Clients clients_;
  std::uint64_t next_check_ = 0;          // the step from which on a moment of rest is checked
  std::optional<std::uint64_t> over_at_;  // the step after which everybody went home
};

}  // namespace pulsewheel::nodesim

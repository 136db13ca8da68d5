#include "tests/client_sim/soak/cycle.h"

#include <algorithm>
#include <thread>

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// How long the event log may take to be read up to the end.
constexpr Duration kCatchUpLimit = 10s;
/// How long the workers may take to say what their leaving clients owe.
constexpr Duration kLeaveNotice = 1s;

JudgeRules rules_of(const Options& options) {
  JudgeRules rules;
  rules.tick = tick_of(options);
  rules.slack = options.slack;
  rules.grace = options.grace;
  rules.drain = options.drain;
  rules.kicks_are_ours = true;
  return rules;
}

}  // namespace

Cycle::Cycle(const Options& options, const Endpoint& target, const std::string& event_log,
             std::uint64_t tag)
    : options_(options), names_(tag), fleet_(options, rules_of(options), target, names_, control_) {
  EdgeFollower::Setup setup;
  setup.paths = {event_log};
  setup.names = &names_;
  setup.inboxes = fleet_.inboxes();
  setup.users_per_inbox = fleet_.users_per_worker();
  follower_.emplace(std::move(setup));
}

void Cycle::start() {
  fleet_.start();
}

bool Cycle::all_logged_in() const {
  return fleet_.totals().first_logins == options_.connections;
}

void Cycle::leave(MonoTime now) {
  control_.owe_until(now + kLeaveNotice);
  control_.enter(Phase::kLeave, now);
}

bool Cycle::has_left(MonoTime now) const {
  return now >= control_.owed_until() && fleet_.totals().progress.connected == 0;
}

CycleFigures Cycle::finish() {
  const MonoTime end = MonoClock::now();
  while (follower_->caught_up() < end) {
    if (MonoClock::now() > end + kCatchUpLimit) {
      control_.note_trouble("the event log could not be read up to the end");
      break;
    }
    std::this_thread::sleep_for(5ms);
  }
  control_.enter(Phase::kEnd, end);
  fleet_.join();
  CycleFigures out;
  out.verdict = fleet_.verdict();
  out.totals = fleet_.totals();
  const EdgeFollower::Stats& log = follower_->stats();
  out.reordered_edges = log.reordered.value();
  out.dropped_edges = log.dropped.value();
  out.skipped_edges = log.skipped.value() - std::min(log.skipped.value(), out.dropped_edges);
  out.unreadable_lines = log.unreadable.value();
  out.troubles = control_.troubles();
  return out;
}

}  // namespace pulsewheel::sim

#include "tests/client_sim/habits.h"

#include <algorithm>

#include "tests/client_sim/random.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

// Streams of the run's seed, so that no choice depends on another.
constexpr std::uint64_t kHabitStream = 1ULL << 32;
constexpr std::uint64_t kMomentStream = 2ULL << 32;

constexpr Duration kLogoutPauseMin = 2s;
constexpr Duration kLogoutPauseSpread = 8s;
/// After an edge must have been seen, a client waits this much longer before it comes back: its
/// connection takes time too, and the two must not be mistaken for each other.
constexpr Duration kReturnMargin = 1s;

Duration part_of(Duration whole, double share) noexcept {
  return Duration{static_cast<Duration::rep>(static_cast<double>(whole.count()) * share)};
}

}  // namespace

Habit habit_of(const Options& options, std::uint32_t user) noexcept {
  Random random(options.seed, kHabitStream + user);
  double dice = random.unit() * 100;
  if (dice < options.silent_percent) return Habit::kFallSilent;
  dice -= options.silent_percent;
  if (dice < options.disconnect_percent / 2) return Habit::kDisconnectBriefly;
  if (dice < options.disconnect_percent) return Habit::kDisconnectLong;
  dice -= options.disconnect_percent;
  return dice < options.logout_percent ? Habit::kLogOut : Habit::kSteady;
}

ChurnAct churn_act(double dice) noexcept {
  return static_cast<ChurnAct>(dice * static_cast<double>(kChurnActs));
}

SilenceWindow silence_before_freeze(Duration freeze_at, Duration timeout,
                                    Duration interval) noexcept {
  const Duration begin = std::max(freeze_at - (timeout - interval), Duration::zero());
  return {begin, std::max(freeze_at - begin, Duration::zero())};
}

double moment_of(std::uint64_t seed, std::uint32_t session) noexcept {
  return Random(seed, kMomentStream + session).unit();
}

Duration habit_window(Duration run, Duration timeout, const JudgeRules& rules) noexcept {
  const Duration owed = timeout + rules.tick + rules.slack + rules.grace + kReturnMargin;
  return std::max(run - owed, run / 2);
}

Duration away_for(Habit habit, Duration timeout, Duration since_packet, const JudgeRules& rules,
                  double dice) noexcept {
  switch (habit) {
    case Habit::kDisconnectBriefly: {
      // Well before the deadline: a LOGIN on its heels would be a race that nobody can judge.
      const Duration left = std::max(timeout - since_packet, Duration::zero());
      return part_of(left, 0.8 * dice);
    }
    case Habit::kDisconnectLong:
      return timeout + rules.tick + rules.slack + rules.grace + kReturnMargin +
             part_of(timeout, dice / 2);
    case Habit::kLogOut:
      return std::max(kLogoutPauseMin, rules.tick + rules.slack + rules.grace + kReturnMargin) +
             part_of(kLogoutPauseSpread, dice);
    case Habit::kSteady:
    case Habit::kFallSilent:
      break;
  }
  return Duration::zero();
}

}  // namespace pulsewheel::sim

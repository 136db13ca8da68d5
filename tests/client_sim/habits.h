// What a client will do once in a run beside keeping alive. Pure: the same seed, the same run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/time.h"
#include "tests/client_sim/judge.h"
#include "tests/client_sim/options.h"

namespace pulsewheel::sim {

enum class Habit : std::uint8_t {
  kSteady,
  kFallSilent,         // sends nothing more, keeps the connection open
  kDisconnectBriefly,  // closes, and is back before the deadline
  kDisconnectLong,     // closes, and is back when the offline edge must have come
  kLogOut,             // says goodbye, and comes back
};

/// What a client does when churn hits it.
enum class ChurnAct : std::uint8_t {
  kReconnect,   // closes, and is back at once
  kReset,       // the same, by RST
  kTakeOver,    // logs in on a second connection while the first is open
  kLogOut,      // says goodbye, and logs in again as soon as that is answered
  kFallSilent,  // sends nothing more, and comes back when the offline edge must have come
};
inline constexpr std::size_t kChurnActs = 5;

/// One act, each as likely as the others; `dice` is in [0, 1).
[[nodiscard]] ChurnAct churn_act(double dice) noexcept;

/// All sessions of a user have the same habit; each has its own moment.
[[nodiscard]] Habit habit_of(const Options& options, std::uint32_t user) noexcept;

/// How far into the window for habits session `session` acts: in [0, 1).
[[nodiscard]] double moment_of(std::uint64_t seed, std::uint32_t session) noexcept;

/// The part of the run in which habits happen: it ends early enough for the last offline edge to
/// come within the run, if the run is long enough for that, and else after half of it.
[[nodiscard]] Duration habit_window(Duration run, Duration timeout,
                                    const JudgeRules& rules) noexcept;

/// When those who fall silent do so in a run that freezes the daemon, counted from the end of the
/// ramp: so that whoever keeps alive every `interval` is due in the first `timeout` of the freeze.
struct SilenceWindow {
  Duration begin{0};
  Duration length{0};
};
[[nodiscard]] SilenceWindow silence_before_freeze(Duration freeze_at, Duration timeout,
                                                  Duration interval) noexcept;

/// How long a client with `habit` stays away. `since_packet` is how long ago its last packet was
/// sent; `dice` is in [0, 1).
[[nodiscard]] Duration away_for(Habit habit, Duration timeout, Duration since_packet,
                                const JudgeRules& rules, double dice) noexcept;

}  // namespace pulsewheel::sim

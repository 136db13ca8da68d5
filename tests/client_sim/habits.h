// What a client will do once in a run beside keeping alive. Pure: the same seed, the same run.
#pragma once

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

/// All sessions of a user have the same habit; each has its own moment.
[[nodiscard]] Habit habit_of(const Options& options, std::uint32_t user) noexcept;

/// How far into the window for habits session `session` acts: in [0, 1).
[[nodiscard]] double moment_of(std::uint64_t seed, std::uint32_t session) noexcept;

/// The part of the run in which habits happen: it ends early enough for the last offline edge to
/// come within the run, if the run is long enough for that, and else after half of it.
[[nodiscard]] Duration habit_window(Duration run, Duration timeout,
                                    const JudgeRules& rules) noexcept;

/// How long a client with `habit` stays away. `since_packet` is how long ago its last packet was
/// sent; `dice` is in [0, 1).
[[nodiscard]] Duration away_for(Habit habit, Duration timeout, Duration since_packet,
                                const JudgeRules& rules, double dice) noexcept;

}  // namespace pulsewheel::sim

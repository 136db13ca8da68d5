// What the wheel's tests share: a hook that knows its number, ways to work a list off, and the
// places at which boundaries are tried.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/core/time_wheel.h"

namespace pulsewheel {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// Tests of boundaries run at several positions of the hand: at the start, round the wraps of the
// levels, and somewhere.
inline constexpr std::array<std::uint64_t, 16> kHands{
    0,      1,      28,      29,      30,      31,        899,       900,
    26'999, 27'000, 809'999, 810'000, 810'001, 1'234'567, 5'678'901, 98'765'432};

// Distances round everything at which filing changes: slots, laps, two laps of each level.
inline constexpr std::array<std::uint64_t, 48> kDistances{
    1,       2,       28,      29,      30,      31,        32,        58,       59,      60,
    61,      89,      90,      91,      869,     870,       871,       899,      900,     901,
    929,     930,     931,     1'799,   1'800,   1'801,     2'699,     2'700,    2'701,   26'999,
    27'000,  27'001,  53'999,  54'000,  54'001,  80'999,    81'000,    86'400,   782'999, 783'000,
    783'001, 809'999, 810'000, 810'001, 864'000, 1'619'999, 1'620'001, 8'640'000};

struct TestHook : TimerHook {
  static constexpr HookKind kHookKind = HookKind::kTest;
  explicit TestHook(int number = 0) noexcept : TimerHook(kHookKind), id(number) {}
  int id;
};

/// Pops all of `list`; the ids in the order in which they came.
inline std::vector<int> pop_ids(HookList& list) {
  std::vector<int> ids;
  while (TimerHook* const hook = list.pop_front())
    ids.push_back(owner_of<TestHook>(*hook).id);
  return ids;
}

/// Advances without a budget; the ids of what expired.
inline std::vector<int> expire(TimeWheel& wheel, Tick now) {
  HookList out;
  while (!wheel.advance(now, kNoLimit, out)) {
  }
  return pop_ids(out);
}

}  // namespace pulsewheel

// What the wheel's tests share: a hook that knows its number, and ways to work a list off.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "daemon/core/time_wheel.h"

namespace pulsewheel {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

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

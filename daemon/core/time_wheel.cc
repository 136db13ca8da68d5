#include "daemon/core/time_wheel.h"

#include <bit>

namespace pulsewheel {
namespace {

constexpr std::size_t kLastSlot = TimeWheel::kSlots - 1;  // seen from the hand
constexpr std::uint32_t kAllSlots = (std::uint32_t{1} << TimeWheel::kSlots) - 1;

/// Moves the bit of `slot` to position 0 and those behind it along; a ring of kSlots bits.
constexpr std::uint32_t seen_from(std::size_t slot, std::uint32_t bits) noexcept {
  return ((bits >> slot) | (bits << (TimeWheel::kSlots - slot))) & kAllSlots;
}

/// The finest level that reaches `distance` ticks, its last slot reaching over a second lap.
constexpr std::size_t level_for(std::uint64_t distance) noexcept {
  for (std::size_t level = 0; level + 1 < TimeWheel::kLevels; ++level) {
    if (distance < 2 * TimeWheel::kSlots * TimeWheel::ticks_per_slot(level)) return level;
  }
  return TimeWheel::kLevels - 1;
}

}  // namespace

TimeWheel::TimeWheel(Tick now) noexcept : now_(std::min(now, kLastTick)) {}

void TimeWheel::file_anew(TimerHook& hook, Tick deadline) noexcept {
  cancel(hook);
  hook.set_deadline(std::clamp(deadline, now_, kLastTick));
  file(hook);
}

void TimeWheel::cancel(TimerHook& hook) noexcept {
  if (!hook.linked()) return;
  if (hook.filed()) --counts_[hook.place_ - TimerHook::kFirstSlot];
  hook.unlink();
}

void TimeWheel::file(TimerHook& hook) noexcept {
  const Tick deadline = hook.deadline();
  const std::size_t level = level_for(deadline - now_);
  const std::uint64_t here = slot_number(level, now_);
  // At least 1 in every level but the first: there the deadline is two slots away or more. So a
  // slot that is being visited never gets back what was taken out of it.
  const std::uint64_t ahead =
      std::min<std::uint64_t>(slot_number(level, deadline) - here, kLastSlot);
  const std::size_t slot = (here + ahead) % kSlots;
  const std::size_t index = level * kSlots + slot;
  next_lane_ = (next_lane_ + 1) % kLanes;
  slots_[index][next_lane_].push_back(hook,
                                      static_cast<std::uint8_t>(TimerHook::kFirstSlot + index));
  ++counts_[index];
  occupied_[level] |= std::uint32_t{1} << slot;
}

bool TimeWheel::advance(Tick now, std::size_t budget, HookList& out) noexcept {
  const Tick target = std::clamp(now, now_, kLastTick);
  while (visit_current(budget, out)) {
    const std::optional<Tick> next = next_wakeup();
    if (!next || *next > target) {
      now_ = target;
      return true;
    }
    now_ = *next;
  }
  return false;
}

bool TimeWheel::visit_current(std::size_t& budget, HookList& out) noexcept {
  // From the top, since what a coarse slot holds may be due now and otherwise goes down. Between
  // the first ticks of its slots a level's current slot is empty: it was worked off at the first.
  for (std::size_t level = kLevels; level-- > 0;) {
    const std::size_t slot = hand(level);
    if ((occupied_[level] >> slot & 1) == 0) continue;
    if (!visit_slot(level * kSlots + slot, budget, out)) return false;
    occupied_[level] &= ~(std::uint32_t{1} << slot);
    counts_[level * kSlots + slot] = 0;
  }
  return true;
}

bool TimeWheel::visit_slot(std::size_t index, std::size_t& budget, HookList& out) noexcept {
  Slot& lanes = slots_[index];
  for (std::size_t lane = 0, empty_in_a_row = 0; empty_in_a_row < kLanes;
       lane = (lane + 1) % kLanes) {
    if (lanes[lane].empty()) {
      ++empty_in_a_row;
      continue;
    }
    empty_in_a_row = 0;
    if (budget == 0) return false;
    --budget;
    TimerHook& hook = lanes[lane].first();
    hook.unlink();
    --counts_[index];
    // Its turn comes when the other lanes have had theirs.
    if (!lanes[lane].empty()) __builtin_prefetch(&lanes[lane].first().place_, 1);
    visit(hook, out);
  }
  return true;
}

void TimeWheel::visit(TimerHook& hook, HookList& out) noexcept {
  if (hook.deadline() <= now_) {
    out.push_back(hook, TimerHook::kExpired);
  } else {
    file(hook);
  }
}

std::optional<Tick> TimeWheel::next_wakeup() const noexcept {
  std::optional<Tick> next;
  for (std::size_t level = 0; level < kLevels; ++level) {
    const std::optional<std::size_t> ahead = first_occupied(level);
    if (!ahead) continue;
    const std::uint64_t unit = kTicksPerSlot[level];
    const Tick first{(slot_number(level, now_) + *ahead) * unit};
    // Before now_ only for the slot that an unfinished advance is at.
    const Tick visit = std::max(first, now_);
    next = next ? std::min(*next, visit) : visit;
  }
  return next;
}

std::optional<std::size_t> TimeWheel::first_occupied(std::size_t level) const noexcept {
  while (occupied_[level] != 0) {
    const auto ahead =
        static_cast<std::size_t>(std::countr_zero(seen_from(hand(level), occupied_[level])));
    const std::size_t slot = (hand(level) + ahead) % kSlots;
    if (!empty(slots_[level * kSlots + slot])) return ahead;
    occupied_[level] &= ~(std::uint32_t{1} << slot);
    counts_[level * kSlots + slot] = 0;
  }
  return std::nullopt;
}

std::optional<TimeWheel::Place> TimeWheel::place_of(const TimerHook& hook) noexcept {
  if (!hook.filed()) return std::nullopt;
  const std::size_t index = hook.place_ - std::size_t{TimerHook::kFirstSlot};
  return Place{index / kSlots, index % kSlots};
}

}  // namespace pulsewheel

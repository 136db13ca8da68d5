// Timing wheel for one shard's deadlines. Pure data: no clock, no callbacks, no allocation.
// TimerHook is intrusive and pinned: embed one per deadline; it unlinks itself on destruction.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <type_traits>

#include "daemon/base/check.h"
#include "daemon/core/tick.h"

namespace pulsewheel {

class HookList;
class TimeWheel;

/// What a hook belongs to: whoever takes expired hooks off a list dispatches by it.
enum class HookKind : std::uint8_t { kSession, kLinger, kHold, kTimer, kTest };

/// One place in a circular list: of a hook, or the sentinel that stands for the list. Because of
/// the sentinels a hook can leave whatever list it is in without knowing which one that is.
struct HookLink {
  HookLink* prev;
  HookLink* next;
};

/// One deadline, a base of what waits for it (see owner_of()). Intrusive and pinned: never copied
/// or moved; it unlinks itself on destruction. Confined to the thread of the wheel that it is
/// armed on; one wheel at a time.
class TimerHook : private HookLink {
 public:
  explicit TimerHook(HookKind kind) noexcept : HookLink{nullptr, nullptr}, kind_(kind) {}
  ~TimerHook() {
    if (linked()) unlink();
  }
  TimerHook(const TimerHook&) = delete;
  TimerHook& operator=(const TimerHook&) = delete;

  /// True from arm() until cancel() or until it is taken off the list of expired hooks.
  [[nodiscard]] bool linked() const noexcept { return place_ != kIdle; }
  /// As last set; a deadline that had passed when the hook was armed reads as the wheel's now()
  /// of that moment.
  [[nodiscard]] Tick deadline() const noexcept {
    return {std::uint64_t{deadline_high_} << 16 | deadline_low_};
  }
  [[nodiscard]] HookKind kind() const noexcept { return kind_; }

 private:
  friend class HookList;
  friend class TimeWheel;

  // Values of place_: idle, on a list of expired hooks, or (from kFirstSlot on) in that slot.
  static constexpr std::uint8_t kIdle = 0;
  static constexpr std::uint8_t kExpired = 1;
  static constexpr std::uint8_t kFirstSlot = 2;

  [[nodiscard]] bool filed() const noexcept { return place_ >= kFirstSlot; }

  /// Requires deadline <= TimeWheel::kLastTick.
  void set_deadline(Tick deadline) noexcept {
    deadline_low_ = static_cast<std::uint16_t>(deadline.count);
    deadline_high_ = static_cast<std::uint32_t>(deadline.count >> 16);
  }

  /// Leaves the list that it is in. Requires linked().
  void unlink() noexcept {
    prev->next = next;
    next->prev = prev;
    place_ = kIdle;
  }

  std::uint8_t place_ = kIdle;
  HookKind kind_;
  // 48 bits in two parts, so that they can be stored without reading what stands beside them.
  std::uint16_t deadline_low_ = 0;
  std::uint32_t deadline_high_ = 0;
};
static_assert(sizeof(TimerHook) == 24, "a million sessions carry one each");

/// The object that `hook` is a base of. `Owner` names its kind in `kHookKind`, which must be
/// `hook`'s: a hook of another kind aborts instead of becoming a wild pointer.
///
///   class Session : public TimerHook {
///    public:
///     static constexpr HookKind kHookKind = HookKind::kSession;
///     Session() noexcept : TimerHook(kHookKind) {}
///   };
template <class Owner>
[[nodiscard]] Owner& owner_of(TimerHook& hook) noexcept {
  static_assert(std::is_base_of_v<TimerHook, Owner>);
  PULSEWHEEL_CHECK(hook.kind() == Owner::kHookKind);
  return static_cast<Owner&>(hook);
}

/// Hooks in the order in which they were handed out. Owns nothing: a hook leaves the list when it
/// is popped, cancelled, armed again or destroyed, also while somebody works the list off with
/// pop_front(). Pinned. What is left in a list that ends becomes idle.
class HookList {
 public:
  HookList() noexcept : head_{&head_, &head_} {}
  ~HookList() {
    while (pop_front() != nullptr) {
    }
  }
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  [[nodiscard]] bool empty() const noexcept { return head_.next == &head_; }

  /// Takes the first hook off, which is idle from then on; nullptr when empty. O(1).
  TimerHook* pop_front() noexcept {
    if (empty()) return nullptr;
    TimerHook& hook = first();
    hook.unlink();
    return &hook;
  }

  /// Puts an idle hook at the end, where it counts as expired: for whoever works expired hooks off
  /// in stages. O(1).
  void push_back(TimerHook& hook) noexcept {
    PULSEWHEEL_CHECK(!hook.linked());
    push_back(hook, TimerHook::kExpired);
  }

  /// Moves all hooks of `other` behind those of this list, in their order. O(1).
  void splice(HookList& other) noexcept {
    if (other.empty() || &other == this) return;
    other.head_.next->prev = head_.prev;
    head_.prev->next = other.head_.next;
    other.head_.prev->next = &head_;
    head_.prev = other.head_.prev;
    other.head_ = {&other.head_, &other.head_};
  }

 private:
  friend class TimeWheel;

  /// Requires !empty(): else the sentinel would be taken for a hook.
  [[nodiscard]] TimerHook& first() const noexcept { return static_cast<TimerHook&>(*head_.next); }

  /// Links an unlinked hook in at the end.
  void push_back(TimerHook& hook, std::uint8_t place) noexcept {
    hook.prev = head_.prev;
    hook.next = &head_;
    head_.prev->next = &hook;
    head_.prev = &hook;
    hook.place_ = place;
  }

  HookLink head_;  // the sentinel
};

/// Confined to the owning shard's thread. Wheel and hooks may end in any order: a hook that is
/// armed when the wheel ends becomes idle.
///
/// Four levels of 30 slots. A slot of level 0 stands for one tick, of the levels above for 30,
/// 900 and 27,000. A hook is filed in the slot in which its deadline lies, seen from now(): in
/// level 0 when it is near, in a coarser one when it is far. When the hand reaches the first tick
/// of a slot, the wheel visits the hooks in it and either hands them out, when their deadline is
/// this very tick, or files them again, nearer. A deadline past the last slot of a level but less
/// than two laps away is filed in that last slot, early, and not one level up; beyond the top
/// level everything is filed (parked) in the top level's last slot.
///
/// Invariants:
/// - A hook is filed no later than its deadline. So a keepalive only moves the deadline, and the
///   wheel looks at it when the slot comes round: filed early, never expired early.
/// - The deadline of a filed hook is not before now(). So what expires at one position of the hand
///   has exactly that deadline, and hooks come out by deadline without being sorted.
class TimeWheel {
 public:
  static constexpr std::size_t kLevels = 4;
  static constexpr std::size_t kSlots = 30;
  /// The last tick that there is: later ones count as this one. At 10 ms it is 89,000 years away.
  static constexpr Tick kLastTick{(std::uint64_t{1} << 48) - 1};

  /// `now` is where the hand stands; the length of a tick is the caller's.
  explicit TimeWheel(Tick now) noexcept;
  ~TimeWheel() = default;
  TimeWheel(const TimeWheel&) = delete;
  TimeWheel& operator=(const TimeWheel&) = delete;

  /// Sets `hook`'s deadline, arming it if idle, and taking it off a list of expired hooks. A
  /// deadline that is not after now() counts as now(): the hook comes out of the next advance(),
  /// even one to the same tick. O(1); touches no list when an armed hook's deadline moves later.
  void arm(TimerHook& hook, Tick deadline) noexcept {
    if (hook.filed() && deadline >= hook.deadline()) [[likely]] {
      postpone(hook, deadline);
    } else {
      file_anew(hook, deadline);
    }
  }

  /// What arm() does for a hook that is armed and gets a later deadline, for callers who know that
  /// this is so, as a session does on each keepalive: reads nothing, so that it costs what a
  /// plain store to the hook costs. Where the caller is wrong, nothing breaks: an idle hook stays
  /// idle, one on a list of expired hooks stays there (who takes it off sees a deadline() that is
  /// still to come), and a deadline moved earlier is seen when the hook's slot comes round; until
  /// then arm() takes the hook for filed early enough, too.
  static void postpone(TimerHook& hook, Tick deadline) noexcept {
    hook.set_deadline(std::min(deadline, kLastTick));
  }

  /// Disarms `hook`, or takes it off a list of expired hooks not yet handled; else no effect.
  /// O(1). Destroying the hook does the same, but see slot_count().
  void cancel(TimerHook& hook) noexcept;

  /// Moves the hand to `now`, visits at most `budget` hooks (those filed again included) and
  /// appends the expired ones to `out`, by deadline (ties in any order). False while work is left:
  /// call again, with the same `now` or a later one; hooks may be armed and cancelled in between.
  /// A `now` before now() counts as now(): time never goes back. The hand skips what is empty:
  /// O(occupied slots passed + visits), however many ticks that is. A hook parked beyond the top
  /// level costs one visit per lap of it (783,000 ticks).
  [[nodiscard]] bool advance(Tick now, std::size_t budget, HookList& out) noexcept;

  /// The next tick at which advance() has something to visit: no deadline lies before it, and it
  /// is not after now() while an advance is unfinished. A hook with a far deadline is visited a
  /// few times per level (and once per lap of the top level) on its way. nullopt exactly when
  /// nothing is armed. O(slots).
  [[nodiscard]] std::optional<Tick> next_wakeup() const noexcept;

  /// Where the hand stands: all earlier deadlines have been handed out. It lags behind the tick
  /// asked for while advance() returns false.
  [[nodiscard]] Tick now() const noexcept { return now_; }

  /// How many ticks a slot of `level` stands for. Requires level < kLevels.
  [[nodiscard]] static constexpr std::uint64_t ticks_per_slot(std::size_t level) noexcept {
    return kTicksPerSlot[level];
  }
  /// The slot of `level` at which the hand stands. Requires level < kLevels.
  [[nodiscard]] std::size_t hand(std::size_t level) const noexcept {
    return slot_number(level, now_) % kSlots;
  }
  /// How many hooks are filed in a slot. Hooks that were destroyed while armed, and not cancelled
  /// before, stay counted until their slot comes round. Requires level < kLevels, slot < kSlots.
  [[nodiscard]] std::size_t slot_count(std::size_t level, std::size_t slot) const noexcept {
    return counts_[level * kSlots + slot];
  }

  /// How many hooks are filed, with what slot_count() says of destroyed ones: none of those are
  /// left behind a next_wakeup() that returned nullopt. O(slots), a hundred additions.
  [[nodiscard]] std::size_t armed_count() const noexcept {
    return std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
  }

  /// A slot of the wheel.
  struct Place {
    std::size_t level = 0;
    std::size_t slot = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// Where `hook` is filed; nullopt for one that is idle or expired. O(1).
  [[nodiscard]] static std::optional<Place> place_of(const TimerHook& hook) noexcept;

 private:
  static constexpr std::array<std::uint64_t, kLevels> kTicksPerSlot{1, 30, 900, 27'000};
  static constexpr std::size_t kLanes = 8;

  /// The hooks of a slot, spread over several lists. To walk a list is to wait for memory at each
  /// hook, as the next one's address stands in it; walking the lanes in turn waits for several
  /// hooks at once.
  using Slot = std::array<HookList, kLanes>;
  [[nodiscard]] static bool empty(const Slot& slot) noexcept {
    return std::all_of(slot.begin(), slot.end(), [](const HookList& l) { return l.empty(); });
  }

  /// How many slots of `level` lie before the one that `tick` is in. By constants, because the
  /// compiler turns these divisions into multiplications.
  [[nodiscard]] static constexpr std::uint64_t slot_number(std::size_t level, Tick tick) noexcept {
    switch (level) {
      case 0:
        return tick.count / kTicksPerSlot[0];
      case 1:
        return tick.count / kTicksPerSlot[1];
      case 2:
        return tick.count / kTicksPerSlot[2];
      default:
        return tick.count / kTicksPerSlot[3];
    }
  }

  /// Unlinks `hook` from wherever it is and files it for `deadline`.
  void file_anew(TimerHook& hook, Tick deadline) noexcept;
  /// Files an unlinked hook by its deadline, which is not before now().
  void file(TimerHook& hook) noexcept;
  /// Visits the hooks in the slots whose first tick the hand has reached, at most `budget`, which
  /// it lessens. False when the budget did not suffice.
  [[nodiscard]] bool visit_current(std::size_t& budget, HookList& out) noexcept;
  [[nodiscard]] bool visit_slot(std::size_t index, std::size_t& budget, HookList& out) noexcept;
  void visit(TimerHook& hook, HookList& out) noexcept;
  /// The distance in slots from the hand to the first slot of `level` that holds something.
  [[nodiscard]] std::optional<std::size_t> first_occupied(std::size_t level) const noexcept;

  Tick now_;
  // One bit per slot, clear only if the slot is empty. Hooks leave without telling, so a set bit
  // may be stale; whoever finds out clears it.
  mutable std::array<std::uint32_t, kLevels> occupied_{};
  mutable std::array<std::uint32_t, kLevels * kSlots> counts_{};
  std::array<Slot, kLevels * kSlots> slots_;
  std::uint8_t next_lane_ = 0;

  static_assert(TimerHook::kFirstSlot + kLevels * kSlots <= 256, "a place is one byte");
};

}  // namespace pulsewheel

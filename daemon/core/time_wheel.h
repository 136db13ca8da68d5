// Timing wheel for one shard's deadlines. Pure data: no clock, no callbacks, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/core/tick.h"

namespace pulsewheel {

/// What a hook is embedded in: whoever takes expired hooks off a list dispatches by it.
enum class HookKind : std::uint8_t { kSession, kLinger, kTimer, kTest };

/// One deadline, embedded in what waits for it. Intrusive and pinned: never copied or moved; it
/// unlinks itself on destruction. Confined to the thread of the wheel that it is armed on.
class TimerHook {
 public:
  explicit TimerHook(HookKind kind) noexcept;
  ~TimerHook();
  TimerHook(const TimerHook&) = delete;
  TimerHook& operator=(const TimerHook&) = delete;

  /// True from arm() until cancel() or until it is taken off the list of expired hooks.
  [[nodiscard]] bool linked() const noexcept;
  [[nodiscard]] Tick deadline() const noexcept;
  [[nodiscard]] HookKind kind() const noexcept;
  // private: links, 48 bits of deadline, kind. static_assert(sizeof(TimerHook) == 24)
};

}  // namespace pulsewheel

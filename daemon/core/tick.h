// Tick: the wheel's unit of time, and the clock that turns MonoTime into it.
#pragma once

#include <compare>
#include <cstdint>

#include "daemon/base/time.h"

namespace pulsewheel {

/// A point on the wheel's axis: the number of ticks since the clock's origin.
struct Tick {
  std::uint64_t count = 0;

  friend auto operator<=>(const Tick&, const Tick&) = default;
  friend constexpr Tick operator+(Tick t, std::uint64_t ticks) noexcept {
    return {t.count + ticks};
  }
  friend constexpr std::uint64_t operator-(Tick a, Tick b) noexcept { return a.count - b.count; }
};

/// The axis: tick k begins at origin + k * length. All shards of a node share one, so that a
/// second ends for everybody at once. Immutable; any thread.
class TickClock {
 public:
  TickClock(MonoTime origin, Duration length) noexcept : origin_(origin), length_(length) {}

  /// The last tick that has begun at `t`; tick 0 for any time before the origin.
  [[nodiscard]] Tick floor(MonoTime t) const noexcept {
    if (t <= origin_) return {0};
    return {static_cast<std::uint64_t>((t - origin_).count()) /
            static_cast<std::uint64_t>(length_.count())};
  }
  /// The first tick that begins at `t` or later: a deadline rounded up is never early.
  [[nodiscard]] Tick ceil(MonoTime t) const noexcept {
    if (t <= origin_) return {0};
    const auto length = static_cast<std::uint64_t>(length_.count());
    return {(static_cast<std::uint64_t>((t - origin_).count()) + length - 1) / length};
  }
  [[nodiscard]] MonoTime begin_of(Tick t) const noexcept {
    return origin_ + length_ * static_cast<Duration::rep>(t.count);
  }
  [[nodiscard]] Duration length() const noexcept { return length_; }

 private:
  MonoTime origin_;
  Duration length_;
};

}  // namespace pulsewheel

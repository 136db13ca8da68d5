// How long a node was away: the time between two moments of different runs, whatever clocks did.
#pragma once

#include <array>
#include <cstddef>

#include "daemon/base/time.h"

namespace pulsewheel {

/// Names a boot of the host, by the kernel's word; all zeros where that is not to be had (a sandbox
/// without /proc/sys).
using BootId = std::array<std::byte, 16>;

/// One moment on all clocks.
struct ClockSample {
  MonoTime mono;     // of this process: means nothing to the next boot
  Duration boot{0};  // CLOCK_BOOTTIME: since the boot, suspended time included
  WallTime wall;     // may have been set meanwhile
  BootId boot_id{};

  /// Reads a file. Any thread.
  [[nodiscard]] static ClockSample take();
};

/// The real time from `earlier` to `now`, where `earlier.mono` is not looked at. In the same boot
/// that is CLOCK_BOOTTIME's: nobody can set it, and it counts a suspended host's time, in which a
/// last_seen grows old like in any other. Across boots only the wall clock is left: its difference,
/// but never less than the time since the boot (the earlier moment was before that), never negative
/// and at most kAwayMax. Where a boot is not known the wall clock decides, too. Pure.
[[nodiscard]] Duration time_between(const ClockSample& earlier, const ClockSample& now) noexcept;

/// Longer than anybody remembers a user; short enough to calculate with.
inline constexpr Duration kAwayMax = std::chrono::hours{24 * 365 * 50};

}  // namespace pulsewheel

// Clock types. Everything inside the daemon is MonoTime; wall time exists only in output.
#pragma once

#include <chrono>
#include <type_traits>

namespace pulsewheel {

/// CLOCK_MONOTONIC, nanoseconds (libstdc++'s steady_clock). Not CLOCK_BOOTTIME: while a host is
/// suspended no packet can arrive, and time in which nobody could speak must not expire anybody.
using MonoClock = std::chrono::steady_clock;
using MonoTime = MonoClock::time_point;
using Duration = MonoClock::duration;
static_assert(std::is_same_v<Duration, std::chrono::nanoseconds>);

using WallTime = std::chrono::system_clock::time_point;

/// For output: everything inside counts in Duration.
[[nodiscard]] constexpr double to_seconds(Duration duration) noexcept {
  return std::chrono::duration<double>(duration).count();
}

/// Turns MonoTime into wall time for output. Sampled once when made; make a new one where a
/// clock step should show.
class WallClockMapping {
 public:
  /// Takes both clocks' time at one moment: the wall clock is read between two readings of the
  /// other, and of a few attempts the tightest counts. So a thread that loses its CPU in between
  /// does not shift what it writes.
  WallClockMapping() noexcept {
    Duration tightest = Duration::max();
    for (int attempt = 0; attempt < kAttempts && tightest > kTightEnough; ++attempt) {
      const MonoTime before = MonoClock::now();
      const WallTime wall = std::chrono::system_clock::now();
      const Duration width = MonoClock::now() - before;
      if (width >= tightest) continue;
      tightest = width;
      wall_ = wall;
      mono_ = before + width / 2;
    }
  }
  [[nodiscard]] WallTime to_wall(MonoTime t) const noexcept {
    return wall_ + std::chrono::duration_cast<WallTime::duration>(t - mono_);
  }
  /// How much later the wall time is that this one makes of a MonoTime than that of `other`.
  [[nodiscard]] Duration ahead_of(const WallClockMapping& other) const noexcept {
    return (wall_ - other.wall_) - (mono_ - other.mono_);
  }

 private:
  static constexpr int kAttempts = 4;
  static constexpr Duration kTightEnough = std::chrono::microseconds{1};

  WallTime wall_;
  MonoTime mono_;
};

}  // namespace pulsewheel

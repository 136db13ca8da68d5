// Random: a small seeded generator, the same on every machine and library.
#pragma once

#include <cstdint>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

/// SplitMix64. Cheap to make, so that each client can have one from the run's seed and its own
/// number, whatever thread it lives on.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) noexcept
      : state_(seed + stream * kGolden) {
    next();  // neighbouring streams share their first bits otherwise
  }

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += kGolden);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// In [0, 1).
  double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, n). Requires n > 0.
  std::uint32_t below(std::uint32_t n) noexcept {
    return static_cast<std::uint32_t>(unit() * static_cast<double>(n));
  }
  /// In [low, high).
  Duration between(Duration low, Duration high) noexcept {
    return low +
           Duration{static_cast<Duration::rep>(static_cast<double>((high - low).count()) * unit())};
  }
  bool happens(double percent) noexcept { return unit() * 100 < percent; }

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
  std::uint64_t state_;
};

}  // namespace pulsewheel::sim

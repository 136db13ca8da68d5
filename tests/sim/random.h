// The only source of chance in a simulation: the same seed gives the same run on every machine.
#pragma once

#include <cstdint>

#include "daemon/base/time.h"

namespace pulsewheel::nodesim {

/// From min to max, both included.
struct Span {
  Duration min{0};
  Duration max{0};
};

/// SplitMix64. Distributions of our own, since those of the standard differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31);
  }
  std::uint32_t bits() noexcept { return static_cast<std::uint32_t>(next() >> 32); }
  /// Below `bound`, which is 1 at least.
  std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  /// True `per_mille` times in a thousand.
  bool chance(unsigned per_mille) noexcept { return per_mille != 0 && below(1'000) < per_mille; }
  Duration in(Span span) noexcept {
    const auto width = static_cast<std::uint64_t>((span.max - span.min).count());
    if (width == 0) return span.min;
    return span.min + Duration{static_cast<Duration::rep>(below(width + 1))};
  }
  Duration in(Duration min, Duration max) noexcept { return in(Span{min, max}); }

 private:
  std::uint64_t state_;
};

}  // namespace pulsewheel::nodesim

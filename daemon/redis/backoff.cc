#include "daemon/redis/backoff.h"

#include <algorithm>

namespace pulsewheel {
namespace {

/// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Backoff::Backoff(Options options, std::uint64_t seed) noexcept
    : options_{std::max(options.first, Millis{1}), {}}, ceiling_(options_.first), random_(seed) {
  options_.cap = std::max(options.cap, options_.first);
}

Backoff::Millis Backoff::next() noexcept {
  const Millis delay = draw(Millis{0}, ceiling_);
  ceiling_ = std::min(ceiling_ * 2, options_.cap);
  return delay;
}

Backoff::Millis Backoff::next_slow() noexcept {
  return draw(options_.cap / 2, options_.cap);
}

Backoff::Millis Backoff::draw(Millis above, Millis up_to) noexcept {
  // The range is far below 2^64, so the remainder is as good as even.
  const auto width = static_cast<std::uint64_t>((up_to - above).count());
  return above + Millis{1 + static_cast<Millis::rep>(next_random(random_) % width)};
}

}  // namespace pulsewheel

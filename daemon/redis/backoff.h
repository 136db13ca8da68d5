// Backoff: how long to wait before the next attempt to reach a server.
#pragma once

#include <chrono>
#include <cstdint>

namespace pulsewheel {

/// Exponential with full jitter: each delay is drawn evenly from (0, ceiling], and the ceiling
/// doubles up to a cap. So many nodes that lost the same server do not come back in one herd. Pure:
/// the same seed gives the same delays.
class Backoff {
 public:
  using Millis = std::chrono::milliseconds;

  struct Options {
    Millis first{100};  // the first ceiling; at least 1 ms
    Millis cap{5'000};  // the last one; at least `first`
  };

  Backoff(Options options, std::uint64_t seed) noexcept;

  /// The delay before the next attempt; at least 1 ms.
  [[nodiscard]] Millis next() noexcept;

  /// The delay before an attempt that will fail until somebody has changed something (a password):
  /// drawn from the upper half below the cap.
  [[nodiscard]] Millis next_slow() noexcept;

  /// Starts again from the first ceiling. For a connection that has stood for a while: one that is
  /// closed as soon as it stands is no success.
  void reset() noexcept { ceiling_ = options_.first; }

 private:
  [[nodiscard]] Millis draw(Millis above, Millis up_to) noexcept;

  Options options_;
  Millis ceiling_;
  std::uint64_t random_;
};

}  // namespace pulsewheel

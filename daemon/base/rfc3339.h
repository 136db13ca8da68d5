// Rfc3339Writer: wall time as text, fast when many times fall into the same second.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

#include "daemon/base/time.h"

namespace pulsewheel {

/// "2026-01-02T03:04:05.678901Z": UTC, microseconds, cut off and not rounded, so that a time never
/// appears later than it was. Remembers the text of the last second. One thread.
class Rfc3339Writer {
 public:
  static constexpr std::size_t kSize = 27;

  /// Writes kSize characters and returns their end. Any WallTime is fine: 64 bits of nanoseconds
  /// reach from 1677 to 2262.
  char* write(WallTime time, char* out) noexcept;

 private:
  static constexpr std::size_t kSecondSize = 19;  // up to the seconds

  void render_second(std::chrono::sys_seconds second) noexcept;

  std::chrono::sys_seconds second_ = std::chrono::sys_seconds::min();
  std::array<char, kSecondSize> text_{};
};

[[nodiscard]] std::string to_rfc3339(WallTime time);

}  // namespace pulsewheel

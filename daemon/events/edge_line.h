// EdgeLineWriter: edges as lines of JSON, formatted by hand into a buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/percent.h"
#include "daemon/base/rfc3339.h"
#include "daemon/base/time.h"
#include "daemon/core/edge.h"

namespace pulsewheel {

/// No allocation; about 50 ns a line. Needs no JSON escaping: everything variable is a number, a
/// fixed name or percent-encoded. One thread.
class EdgeLineWriter {
 public:
  /// Room that one line needs at most: an EdgeBatch's longest uid, encoded, and the rest.
  static constexpr std::size_t kLineBytesMax = 255 * kPercentExpansion + 259;

  /// Writes `{"seq":..,"epoch":..,"uid":"..",...}` and a newline; returns the end. `out` has room
  /// for kLineBytesMax characters.
  char* write_edge(const Edge& edge, std::uint64_t epoch, std::uint64_t seq,
                   const WallClockMapping& clock, char* out) noexcept;

  /// Writes `{"gap":true,"dropped":..,"first_seq":..,"last_seq":..}` and a newline.
  char* write_gap(std::uint64_t dropped, std::uint64_t first_seq, std::uint64_t last_seq,
                  char* out) noexcept;

 private:
  // Two, since edges that expire together have one `at` and one `last_seen` second, half a minute
  // apart.
  Rfc3339Writer at_;
  Rfc3339Writer last_seen_;
};

}  // namespace pulsewheel

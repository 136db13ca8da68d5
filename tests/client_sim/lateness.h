// Lateness: all samples of one quantity, and the figures that a report shows of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

/// Keeps every sample: a run's quantiles are exact. 4 B a sample, to the microsecond.
class Lateness {
 public:
  /// Up to 35 minutes either way; what is beyond counts as that.
  void add(Duration lateness);
  void merge(const Lateness& other);

  [[nodiscard]] std::size_t count() const noexcept { return samples_us_.size(); }

  /// In seconds; all 0 without samples.
  struct Summary {
    double min = 0, p50 = 0, p99 = 0, p999 = 0, max = 0;
  };
  /// O(n log n).
  [[nodiscard]] Summary summary() const;

 private:
  std::vector<std::int32_t> samples_us_;
};

}  // namespace pulsewheel::sim

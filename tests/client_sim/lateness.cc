#include "tests/client_sim/lateness.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pulsewheel::sim {
namespace {

/// The smallest sample that at least `share` of all do not exceed. Requires a sorted, non-empty
/// range.
double quantile(const std::vector<std::int32_t>& sorted_us, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted_us.size()));
  const auto index = std::clamp<std::size_t>(static_cast<std::size_t>(rank), 1, sorted_us.size());
  return sorted_us[index - 1] / 1e6;
}

}  // namespace

void Lateness::add(Duration lateness) {
  using Limits = std::numeric_limits<std::int32_t>;
  const auto us = std::chrono::floor<std::chrono::microseconds>(lateness).count();
  samples_us_.push_back(
      static_cast<std::int32_t>(std::clamp<std::int64_t>(us, Limits::min(), Limits::max())));
}

void Lateness::merge(const Lateness& other) {
  samples_us_.insert(samples_us_.end(), other.samples_us_.begin(), other.samples_us_.end());
}

Lateness::Summary Lateness::summary() const {
  if (samples_us_.empty()) return {};
  std::vector<std::int32_t> sorted = samples_us_;
  std::sort(sorted.begin(), sorted.end());
  return {sorted.front() / 1e6, quantile(sorted, 0.5), quantile(sorted, 0.99),
          quantile(sorted, 0.999), sorted.back() / 1e6};
}

}  // namespace pulsewheel::sim

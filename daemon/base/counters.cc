#include "daemon/base/counters.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace pulsewheel {

DurationHistogram::DurationHistogram(std::span<const std::chrono::nanoseconds> bounds) noexcept
    : bounds_(bounds) {
  PULSEWHEEL_CHECK(bounds.size() <= kBucketsMax);
  PULSEWHEEL_CHECK(std::is_sorted(bounds.begin(), bounds.end()));
}

void DurationHistogram::observe(std::chrono::nanoseconds value) noexcept {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)].add();
  const std::int64_t ns = value.count();
  constexpr auto relaxed = std::memory_order_relaxed;
  sum_ns_.store(sum_ns_.load(relaxed) + ns, relaxed);
  const bool first = count_.value() == 0;
  if (first || ns < min_ns_.load(relaxed)) min_ns_.store(ns, relaxed);
  if (first || ns > max_ns_.load(relaxed)) max_ns_.store(ns, relaxed);
  count_.add();
}

DurationHistogram::Snapshot DurationHistogram::snapshot() const noexcept {
  Snapshot out;
  out.bounds = bounds_;
  for (std::size_t i = 0; i <= bounds_.size(); ++i)
    out.counts[i] = counts_[i].value();
  out.count = count_.value();
  out.sum = std::chrono::nanoseconds{sum_ns_.load(std::memory_order_relaxed)};
  out.min = std::chrono::nanoseconds{min_ns_.load(std::memory_order_relaxed)};
  out.max = std::chrono::nanoseconds{max_ns_.load(std::memory_order_relaxed)};
  return out;
}

void DurationHistogram::Snapshot::merge(const Snapshot& other) noexcept {
  if (bounds.empty()) bounds = other.bounds;
  if (other.count == 0) return;
  PULSEWHEEL_CHECK(bounds.size() == other.bounds.size());
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i] += other.counts[i];
  min = count == 0 ? other.min : std::min(min, other.min);
  max = count == 0 ? other.max : std::max(max, other.max);
  count += other.count;
  sum += other.sum;
}

}  // namespace pulsewheel

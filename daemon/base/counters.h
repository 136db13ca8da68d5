// Counters that one thread writes and any thread reads, without locks or locked instructions.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pulsewheel {

/// A count that only grows. One writer; readers on any thread see a recent value.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A level that goes up and down. One writer.
class Gauge {
 public:
  void add(std::int64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::int64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// Durations in fixed buckets, with sum and exact extremes. One writer; observe() is
/// O(log buckets) and allocates nothing. Bucket i counts durations <= bounds[i]; one more bucket
/// counts the rest.
class DurationHistogram {
 public:
  static constexpr std::size_t kBucketsMax = 32;

  /// `bounds` ascend, at most kBucketsMax, and must outlive the histogram (they are static
  /// tables).
  explicit DurationHistogram(std::span<const std::chrono::nanoseconds> bounds) noexcept;

  void observe(std::chrono::nanoseconds value) noexcept;

  /// A copy for readers; the fields may be a few observations apart.
  struct Snapshot {
    std::span<const std::chrono::nanoseconds> bounds;
    std::array<std::uint64_t, kBucketsMax + 1> counts{};  // not cumulative; bounds.size() + 1 used
    std::uint64_t count = 0;
    std::chrono::nanoseconds sum{0};
    std::chrono::nanoseconds min{0};  // 0 when count is 0
    std::chrono::nanoseconds max{0};

    /// Adds another shard's numbers. Requires the same bounds.
    void merge(const Snapshot& other) noexcept;
  };
  [[nodiscard]] Snapshot snapshot() const noexcept;

 private:
  std::span<const std::chrono::nanoseconds> bounds_;
  std::array<Counter, kBucketsMax + 1> counts_{};
  std::atomic<std::int64_t> sum_ns_{0};
  std::atomic<std::int64_t> min_ns_{0};
  std::atomic<std::int64_t> max_ns_{0};
  Counter count_;
};

}  // namespace pulsewheel

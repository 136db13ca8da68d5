#include "daemon/base/counters.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::array<nanoseconds, 3> kBounds{milliseconds{1}, milliseconds{10}, milliseconds{100}};

TEST(CounterTest, StartsAtZeroAndAddsUp) {
  Counter counter;
  EXPECT_EQ(counter.value(), 0U);
  counter.add();
  counter.add(41);
  EXPECT_EQ(counter.value(), 42U);
}

TEST(CounterTest, ReaderOnAnotherThreadSeesItGrowOnly) {
  constexpr std::uint64_t kAdds = 100'000;
  Counter counter;
  std::atomic<bool> started{false};
  std::thread writer([&] {
    while (!started)
      std::this_thread::yield();
    for (std::uint64_t i = 0; i < kAdds; ++i)
      counter.add();
  });
  started = true;
  std::uint64_t last = 0;
  bool grew_only = true;
  while (last < kAdds) {
    const std::uint64_t value = counter.value();
    grew_only = grew_only && value >= last;
    last = value;
  }
  writer.join();
  EXPECT_TRUE(grew_only);
}

TEST(GaugeTest, GoesUpAndDownAndBelowZero) {
  Gauge gauge;
  gauge.add(2);
  gauge.add(-5);
  EXPECT_EQ(gauge.value(), -3);
  gauge.set(7);
  EXPECT_EQ(gauge.value(), 7);
}

TEST(DurationHistogramTest, CountsABoundInItsOwnBucketAndTheRestInTheLast) {
  DurationHistogram histogram(kBounds);
  histogram.observe(nanoseconds{0});
  histogram.observe(milliseconds{1});
  histogram.observe(milliseconds{1} + nanoseconds{1});
  histogram.observe(milliseconds{100});
  histogram.observe(milliseconds{100} + nanoseconds{1});
  const auto snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.counts[0], 2U);
  EXPECT_EQ(snapshot.counts[1], 1U);
  EXPECT_EQ(snapshot.counts[2], 1U);
  EXPECT_EQ(snapshot.counts[3], 1U);
  EXPECT_EQ(snapshot.count, 5U);
}

TEST(DurationHistogramTest, KeepsTheSumAndTheExactExtremes) {
  DurationHistogram histogram(kBounds);
  histogram.observe(nanoseconds{7'000'003});
  histogram.observe(nanoseconds{-5});
  histogram.observe(nanoseconds{200'000'001});
  const auto snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.sum, nanoseconds{7'000'003 - 5 + 200'000'001});
  EXPECT_EQ(snapshot.min, nanoseconds{-5});
  EXPECT_EQ(snapshot.max, nanoseconds{200'000'001});
}

TEST(DurationHistogramTest, FirstObservationIsBothExtremes) {
  DurationHistogram histogram(kBounds);
  histogram.observe(milliseconds{3});
  EXPECT_EQ(histogram.snapshot().min, milliseconds{3});
  EXPECT_EQ(histogram.snapshot().max, milliseconds{3});
}

TEST(DurationHistogramTest, WithoutObservationsExtremesAreZero) {
  const DurationHistogram histogram(kBounds);
  EXPECT_EQ(histogram.snapshot().count, 0U);
  EXPECT_EQ(histogram.snapshot().min, nanoseconds{0});
  EXPECT_EQ(histogram.snapshot().max, nanoseconds{0});
}

TEST(DurationHistogramTest, MergingAddsCountsAndWidensExtremes) {
  DurationHistogram a(kBounds);
  DurationHistogram b(kBounds);
  a.observe(milliseconds{5});
  b.observe(milliseconds{1});
  b.observe(milliseconds{500});
  auto merged = a.snapshot();
  merged.merge(b.snapshot());
  EXPECT_EQ(merged.count, 3U);
  EXPECT_EQ(merged.counts[0], 1U);
  EXPECT_EQ(merged.counts[1], 1U);
  EXPECT_EQ(merged.counts[3], 1U);
  EXPECT_EQ(merged.sum, milliseconds{506});
  EXPECT_EQ(merged.min, milliseconds{1});
  EXPECT_EQ(merged.max, milliseconds{500});
}

TEST(DurationHistogramTest, MergingAnEmptyOneLeavesExtremesAlone) {
  DurationHistogram a(kBounds);
  a.observe(milliseconds{5});
  auto merged = a.snapshot();
  merged.merge(DurationHistogram(kBounds).snapshot());
  EXPECT_EQ(merged.min, milliseconds{5});
  EXPECT_EQ(merged.count, 1U);
}

TEST(DurationHistogramTest, MergingIntoADefaultSnapshotTakesTheOther) {
  DurationHistogram a(kBounds);
  a.observe(milliseconds{5});
  DurationHistogram::Snapshot total;
  total.merge(a.snapshot());
  EXPECT_EQ(total.bounds.size(), kBounds.size());
  EXPECT_EQ(total.min, milliseconds{5});
  EXPECT_EQ(total.counts[1], 1U);
}

TEST(DurationHistogramDeathTest, RefusesBoundsThatDoNotAscend) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  static constexpr std::array<nanoseconds, 2> kFalling{milliseconds{2}, milliseconds{1}};
  EXPECT_DEATH(DurationHistogram{kFalling}, "is_sorted");
}

}  // namespace
}  // namespace pulsewheel

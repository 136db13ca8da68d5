#include "tests/client_sim/lateness.h"

#include <gtest/gtest.h>

#include <chrono>

namespace pulsewheel::sim {
namespace {

TEST(LatenessTest, QuantilesAreSamples) {
  Lateness lateness;
  for (int i = 1000; i >= 1; --i)
    lateness.add(std::chrono::milliseconds{i});
  const Lateness::Summary summary = lateness.summary();
  EXPECT_DOUBLE_EQ(summary.min, 0.001);
  EXPECT_DOUBLE_EQ(summary.p50, 0.5);
  EXPECT_DOUBLE_EQ(summary.p99, 0.99);
  EXPECT_DOUBLE_EQ(summary.p999, 0.999);
  EXPECT_DOUBLE_EQ(summary.max, 1.0);
}

TEST(LatenessTest, WithoutSamplesAllIsZero) {
  EXPECT_EQ(Lateness{}.summary().max, 0.0);
  EXPECT_EQ(Lateness{}.count(), 0U);
}

}  // namespace
}  // namespace pulsewheel::sim

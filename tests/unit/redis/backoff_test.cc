#include "daemon/redis/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;

std::vector<Backoff::Millis> draw(Backoff backoff, int count) {
  std::vector<Backoff::Millis> delays;
  for (int i = 0; i < count; ++i)
    delays.push_back(backoff.next());
  return delays;
}

TEST(BackoffTest, DoublesTheCeilingUpToTheCap) {
  constexpr Backoff::Millis kCeilings[] = {100ms,  200ms,  400ms,  800ms,  1600ms,
                                           3200ms, 5000ms, 5000ms, 5000ms, 5000ms};
  std::vector<Backoff::Millis> longest(std::size(kCeilings), 0ms);
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    const auto delays = draw(Backoff({}, seed), static_cast<int>(longest.size()));
    for (std::size_t i = 0; i < longest.size(); ++i) {
      EXPECT_GE(delays[i], 1ms);
      EXPECT_LE(delays[i], kCeilings[i]);
      longest[i] = std::max(longest[i], delays[i]);
    }
  }
  for (std::size_t i = 0; i < longest.size(); ++i)
    EXPECT_GT(longest[i], kCeilings[i] * 9 / 10) << i;
}

TEST(BackoffTest, SpreadsDelaysOverTheWholeRange) {
  constexpr int kSeeds = 4'000;
  std::vector<int> quarters(4, 0);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto delay = Backoff({.first = 1000ms, .cap = 1000ms}, seed).next();
    ++quarters[static_cast<std::size_t>((delay.count() - 1) / 250)];
  }
  for (const int quarter : quarters)
    EXPECT_NEAR(quarter, kSeeds / 4, kSeeds / 20);
}

TEST(BackoffTest, GivesTheSameDelaysForTheSameSeed) {
  EXPECT_EQ(draw(Backoff({}, 7), 20), draw(Backoff({}, 7), 20));
  EXPECT_NE(draw(Backoff({}, 7), 20), draw(Backoff({}, 8), 20));
}

TEST(BackoffTest, StartsAgainAfterReset) {
  Backoff backoff({}, 1);
  for (int i = 0; i < 20; ++i)
    static_cast<void>(backoff.next());
  for (int i = 0; i < 200; ++i) {
    backoff.reset();
    EXPECT_LE(backoff.next(), 100ms);
  }
}

TEST(BackoffTest, WaitsAtLeastHalfTheCapWhenItIsToBeSlow) {
  Backoff backoff({}, 1);
  for (int i = 0; i < 1'000; ++i) {
    const auto delay = backoff.next_slow();
    EXPECT_GT(delay, 2500ms);
    EXPECT_LE(delay, 5000ms);
  }
}

TEST(BackoffTest, TakesSenselessOptionsForTheNearestSensibleOnes) {
  Backoff backoff({.first = 0ms, .cap = -1ms}, 1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(backoff.next(), 1ms);
    EXPECT_EQ(backoff.next_slow(), 1ms);
  }
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/core/tick.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr MonoTime kOrigin{std::chrono::seconds{100}};
constexpr milliseconds kLength{250};

struct Case {
  nanoseconds after_origin;
  std::uint64_t floor;
  std::uint64_t ceil;
};

constexpr Case kCases[] = {
    {nanoseconds{-1}, 0, 0},
    {nanoseconds{0}, 0, 0},
    {nanoseconds{1}, 0, 1},
    {kLength - nanoseconds{1}, 0, 1},
    {kLength, 1, 1},
    {kLength + nanoseconds{1}, 1, 2},
    {kLength * 1000, 1000, 1000},
    {kLength * 1000 + nanoseconds{1}, 1000, 1001},
};

TEST(TickClockTest, FloorIsTheLastTickThatHasBegun) {
  const TickClock clock(kOrigin, kLength);
  for (const Case& c : kCases) {
    EXPECT_EQ(clock.floor(kOrigin + c.after_origin).count, c.floor) << c.after_origin.count();
  }
}

TEST(TickClockTest, CeilIsTheFirstTickThatIsNotEarly) {
  const TickClock clock(kOrigin, kLength);
  for (const Case& c : kCases) {
    EXPECT_EQ(clock.ceil(kOrigin + c.after_origin).count, c.ceil) << c.after_origin.count();
  }
}

TEST(TickClockTest, TimeLongBeforeTheOriginIsTickZero) {
  const TickClock clock(kOrigin, kLength);
  EXPECT_EQ(clock.floor(MonoTime{}).count, 0U);
  EXPECT_EQ(clock.ceil(MonoTime{}).count, 0U);
}

TEST(TickClockTest, BeginOfTheCeilIsNeverBeforeTheTimeNorATickAfter) {
  for (const nanoseconds length :
       {nanoseconds{1}, nanoseconds{10'000'000}, nanoseconds{333'333'333}}) {
    const TickClock clock(kOrigin, length);
    for (std::int64_t ns = 0; ns < 1'000'000'000; ns += 7'654'321) {
      const MonoTime t = kOrigin + nanoseconds{ns};
      const MonoTime begin = clock.begin_of(clock.ceil(t));
      EXPECT_GE(begin, t);
      EXPECT_LT(begin - t, length);
    }
  }
}

TEST(TickClockTest, YearsFromTheOriginAreExact) {
  const TickClock clock(kOrigin, milliseconds{10});
  const MonoTime t = kOrigin + std::chrono::hours{24 * 365 * 100};
  EXPECT_EQ(clock.floor(t).count, 100ULL * 365 * 24 * 3600 * 100);
  EXPECT_EQ(clock.begin_of(clock.floor(t)), t);
}

TEST(TickTest, ComparesAndCounts) {
  EXPECT_LT(Tick{1}, Tick{2});
  EXPECT_EQ(Tick{1} + 2, Tick{3});
  EXPECT_EQ(Tick{7} - Tick{3}, 4U);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/base/check.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

TEST(CheckTest, HoldsItsPeaceWhileTheInvariantHolds) {
  PULSEWHEEL_CHECK(1 + 1 == 2);
}

TEST(CheckTest, EvaluatesItsExpressionOnce) {
  int evaluations = 0;
  PULSEWHEEL_CHECK(++evaluations > 0);
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckTest, TakesWhatConvertsToBoolOnlyExplicitly) {
  struct Explicit {
    explicit operator bool() const { return true; }
  };
  PULSEWHEEL_CHECK(Explicit{});
}

TEST(CheckDeathTest, AbortsAndNamesTheExpressionAndThePlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int users = -1;
  EXPECT_EXIT(PULSEWHEEL_CHECK(users >= 0), ::testing::KilledBySignal(SIGABRT),
              "pulsewheel: broken invariant: users >= 0 \\(.*check_test\\.cc:[0-9]+\\)");
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/core/close_reason.h"

#include <cstddef>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

TEST(CloseReasonTest, EveryReasonHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kCloseReasonCount; ++i) {
    names.insert(to_string(static_cast<CloseReason>(i)));
  }
  EXPECT_EQ(names.size(), kCloseReasonCount);
  EXPECT_EQ(names.count("?"), 0U);
}

TEST(CloseReasonTest, CountCoversTheLastReason) {
  EXPECT_EQ(static_cast<std::size_t>(CloseReason::kDrained) + 1, kCloseReasonCount);
}

TEST(CloseReasonTest, NamesAreThoseOfTheMetrics) {
  EXPECT_EQ(to_string(CloseReason::kLogout), "logout");
  EXPECT_EQ(to_string(CloseReason::kTimeout), "timeout");
  EXPECT_EQ(to_string(CloseReason::kLoginTimeout), "login_timeout");
  EXPECT_EQ(to_string(CloseReason::kTakenOver), "taken_over");
}

TEST(CloseReasonTest, AllLingerButLogoutTimeoutTakeoverAndKick) {
  const std::set<CloseReason> final_ones{CloseReason::kLogout, CloseReason::kTimeout,
                                         CloseReason::kTakenOver, CloseReason::kKicked};
  for (std::size_t i = 0; i < kCloseReasonCount; ++i) {
    const auto reason = static_cast<CloseReason>(i);
    EXPECT_EQ(lingers(reason), final_ones.count(reason) == 0) << to_string(reason);
  }
}

}  // namespace
}  // namespace pulsewheel

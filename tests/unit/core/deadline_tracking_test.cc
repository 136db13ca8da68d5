#include "daemon/core/deadline_tracking.h"

#include <chrono>
#include <cstdint>
#include <new>

#include <gtest/gtest.h>

#include "tests/support/allocation_counter.h"

namespace pulsewheel {
namespace {

constexpr MonoTime kDeadline{std::chrono::seconds{30}};

/// Room for users 0 to 9, and nothing to tell.
class DeadlineTrackingTest : public ::testing::Test {
 protected:
  DeadlineTrackingTest() { tracking_.reserve(10); }

  void change(UserIndex user) {
    tracking_.reserve(10);
    tracking_.mark_changed(user);
  }

  DeadlineTracking tracking_{true};
};

TEST_F(DeadlineTrackingTest, ChangesComeInTheirOrderAndEachOnce) {
  for (const UserIndex user : {7U, 3U, 7U, 3U, 5U})
    change(user);
  for (const UserIndex user : {7U, 3U, 5U}) {
    ASSERT_TRUE(tracking_.any_changed());
    EXPECT_EQ(tracking_.oldest(), user);
    tracking_.pop();
  }
  EXPECT_FALSE(tracking_.any_changed());
}

TEST_F(DeadlineTrackingTest, WhoChangesAgainBehindHisTurnStandsInLineAgain) {
  change(1);
  change(2);
  tracking_.pop();
  change(1);
  EXPECT_EQ(tracking_.oldest(), 2U);
  tracking_.pop();
  EXPECT_EQ(tracking_.oldest(), 1U);
}

TEST_F(DeadlineTrackingTest, NewsIsWhatDiffersFromWhatWasTold) {
  tracking_.begin(4);
  EXPECT_TRUE(tracking_.is_news(4, kDeadline));
  tracking_.note_told(4, kDeadline);
  EXPECT_FALSE(tracking_.is_news(4, kDeadline));
  EXPECT_TRUE(tracking_.is_news(4, kDeadline + Duration{1}));
}

TEST_F(DeadlineTrackingTest, TheNextLifeOfASlotHasBeenToldNothing) {
  tracking_.note_told(4, kDeadline);
  tracking_.begin(4);
  EXPECT_TRUE(tracking_.is_news(4, kDeadline));
}

TEST_F(DeadlineTrackingTest, APlainDeadlineIsKeptForItsUserOnly) {
  tracking_.set_plain_deadline(4, kDeadline);
  EXPECT_EQ(tracking_.plain_deadline(4), kDeadline);
  EXPECT_EQ(tracking_.plain_deadline(5), MonoTime{});
}

TEST_F(DeadlineTrackingTest, RoomMadeBeforeIsAllThatAChangeNeeds) {
  for (UserIndex user = 0; user < 1'000; ++user) {
    tracking_.reserve(user + 1);
    const auto before = support::allocations();
    tracking_.begin(user);
    tracking_.set_plain_deadline(user, kDeadline);
    tracking_.mark_changed(user);
    ASSERT_EQ(support::allocations(), before);
  }
  EXPECT_TRUE(tracking_.any_changed());
}

TEST_F(DeadlineTrackingTest, WithoutMemoryForRoomEverythingStaysAndTheNextTryMakesIt) {
  change(1);
  std::uint64_t successes = 0;
  for (bool failed = true; failed; ++successes) {
    const support::FailingAllocations failing(successes, 1);
    try {
      tracking_.reserve(100'000);
      failed = false;
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(tracking_.oldest(), 1U);
    }
  }
  EXPECT_GT(successes, 1U) << "no allocation has failed";
  tracking_.set_plain_deadline(99'999, kDeadline);
  EXPECT_EQ(tracking_.plain_deadline(99'999), kDeadline);
}

TEST(DeadlineTrackingOffTest, KeepsNothingAndAllocatesNothing) {
  DeadlineTracking off(false);
  const auto before = support::allocations();
  off.reserve(1'000'000);
  off.begin(5);
  off.set_plain_deadline(5, kDeadline);
  off.mark_changed(5);
  EXPECT_EQ(support::allocations(), before);
  EXPECT_EQ(off.plain_deadline(5), MonoTime{});
  EXPECT_FALSE(off.any_changed());
}

}  // namespace
}  // namespace pulsewheel

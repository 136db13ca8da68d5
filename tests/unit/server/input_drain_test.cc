#include "daemon/server/input_drain.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

constexpr std::size_t kAcceptsMax = 10;
constexpr std::size_t kHandlersMax = 100;

class InputDrainTest : public testing::Test {
 protected:
  void start() { drain_.start(kAcceptsMax, kHandlersMax); }
  void start_and_accept_all() {
    start();
    drain_.on_accepts(0, true);
  }

  InputDrain drain_;
};

TEST_F(InputDrainTest, RunsFromStartOn) {
  EXPECT_FALSE(drain_.running());
  EXPECT_FALSE(drain_.accepting());
  start();
  EXPECT_TRUE(drain_.running());
  EXPECT_TRUE(drain_.accepting());
}

TEST_F(InputDrainTest, AcceptsUntilTheQueuesAreEmpty) {
  start();
  drain_.on_accepts(3, false);
  EXPECT_TRUE(drain_.accepting());
  drain_.on_accepts(1, true);
  EXPECT_FALSE(drain_.accepting());
  EXPECT_TRUE(drain_.running());
}

TEST_F(InputDrainTest, AcceptsNoMoreThanTheQueuesHeldAtTheStart) {
  start();
  drain_.on_accepts(kAcceptsMax - 1, false);
  EXPECT_TRUE(drain_.accepting());
  drain_.on_accepts(1, false);
  EXPECT_FALSE(drain_.accepting());
}

TEST_F(InputDrainTest, BurstBeyondTheBoundEndsTheAccepting) {
  start();
  drain_.on_accepts(kAcceptsMax + 5, false);
  EXPECT_FALSE(drain_.accepting());
}

TEST_F(InputDrainTest, EndsWhenNothingIsReadyAnyMore) {
  start_and_accept_all();
  drain_.on_poll(10, false);
  EXPECT_TRUE(drain_.running());
  drain_.on_poll(3, true);
  EXPECT_FALSE(drain_.running());
}

TEST_F(InputDrainTest, EndsInTheRoundThatEmptiesBoth) {
  start();
  drain_.on_accepts(2, true);
  drain_.on_poll(2, true);
  EXPECT_FALSE(drain_.running());
}

TEST_F(InputDrainTest, PollBeforeAllAreAcceptedDoesNotCount) {
  start();
  drain_.on_accepts(2, false);
  drain_.on_poll(kHandlersMax, true);
  EXPECT_TRUE(drain_.running());
  drain_.on_accepts(0, true);
  drain_.on_poll(kHandlersMax - 1, false);
  EXPECT_TRUE(drain_.running());
}

TEST_F(InputDrainTest, EndsAfterAsManyHandlersAsWereReadyAtTheStart) {
  start_and_accept_all();
  drain_.on_poll(kHandlersMax - 1, false);
  EXPECT_TRUE(drain_.running());
  drain_.on_poll(1, false);
  EXPECT_FALSE(drain_.running());
}

TEST_F(InputDrainTest, PollBeyondTheBoundEndsIt) {
  start_and_accept_all();
  drain_.on_poll(kHandlersMax + 7, false);
  EXPECT_FALSE(drain_.running());
}

TEST_F(InputDrainTest, StartAnewForgetsWhatWasDone) {
  start_and_accept_all();
  drain_.on_poll(0, true);
  start();
  EXPECT_TRUE(drain_.accepting());
  drain_.on_accepts(kAcceptsMax - 1, false);
  EXPECT_TRUE(drain_.accepting());
}

TEST_F(InputDrainTest, ReportsWhileIdleChangeNothing) {
  drain_.on_accepts(1, true);
  drain_.on_poll(1, true);
  EXPECT_FALSE(drain_.running());
  start();
  EXPECT_TRUE(drain_.accepting());
}

}  // namespace
}  // namespace pulsewheel

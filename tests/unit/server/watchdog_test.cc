#include "daemon/server/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// Workers that run their tasks when the test says so.
class WatchdogTest : public ::testing::Test {
 protected:
  void start(std::size_t workers) {
    tasks_.resize(workers);
    std::vector<Watchdog::Worker> all;
    for (std::size_t i = 0; i < workers; ++i) {
      all.emplace_back(
          [this, i](std::function<void()> task) { tasks_[i].push_back(std::move(task)); });
    }
    watchdog_.start(kInterval, std::move(all));
  }

  void run(std::size_t worker) {
    for (auto& task : std::exchange(tasks_[worker], {}))
      task();
  }

  /// Until the watchdog's timer has run out once.
  void let_an_interval_pass() {
    io_.restart();
    while (io_.poll() > 0) {  // answers
    }
    io_.run_one();
  }
  void handle_answers() {
    io_.restart();
    io_.poll();
  }

  // Long enough for what poll() runs not to reach it.
  static constexpr Duration kInterval = 200ms;

  boost::asio::io_context io_;
  int fed_ = 0;
  std::vector<std::size_t> late_;
  std::vector<std::vector<std::function<void()>>> tasks_;
  Watchdog watchdog_{io_, [this] { ++fed_; }, [this](std::size_t i) { late_.push_back(i); }};
};

TEST_F(WatchdogTest, RunsNoTimerUntilItIsStarted) {
  EXPECT_EQ(io_.run(), 0U);
}

TEST_F(WatchdogTest, FeedsOnlyWhenTheLastWorkerHasAnswered) {
  start(2);
  run(0);
  handle_answers();
  EXPECT_EQ(fed_, 0);
  run(1);
  handle_answers();
  EXPECT_EQ(fed_, 1);
}

TEST_F(WatchdogTest, AsksAgainAfterAnInterval) {
  start(1);
  run(0);
  let_an_interval_pass();
  run(0);
  handle_answers();
  EXPECT_EQ(fed_, 2);
}

TEST_F(WatchdogTest, AWorkerThatHangsHasOneTaskWaiting) {
  start(2);
  run(1);
  for (int i = 0; i < 3; ++i)
    let_an_interval_pass();
  EXPECT_EQ(tasks_[0].size(), 1U);
  EXPECT_EQ(tasks_[1].size(), 0U);
  EXPECT_EQ(fed_, 0);
}

TEST_F(WatchdogTest, NamesWhoIsLateOncePerInterval) {
  start(3);
  run(0);
  run(2);
  let_an_interval_pass();
  let_an_interval_pass();
  EXPECT_THAT(late_, ElementsAre(1, 1));
}

TEST_F(WatchdogTest, ALateAnswerFeedsAtOnce) {
  start(1);
  let_an_interval_pass();
  run(0);
  handle_answers();
  EXPECT_EQ(fed_, 1);
}

TEST_F(WatchdogTest, FeedsNoMoreOnceItIsStopped) {
  start(1);
  watchdog_.stop();
  run(0);
  io_.restart();
  io_.run();  // returns: no timer is left
  EXPECT_EQ(fed_, 0);
}

}  // namespace
}  // namespace pulsewheel

#include "tests/integration/redis_outage.h"

#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <set>

#include "tests/integration/mirrored_crowd.h"
#include "tests/integration/ring_reader.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using Clock = MirroredCrowd::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kEqualWithin{10};
/// How long the crowd is watched before Redis goes away.
constexpr seconds kBefore{2};
/// A tick, and whatever comes behind it.
constexpr seconds kTick{1};

/// Brings the outage about, lets it last, and ends it. When it ended.
class Scenario {
 public:
  Scenario(RedisServer& redis, MirroredCrowd& crowd, const OutageScale& scale)
      : redis_(redis), crowd_(crowd), scale_(scale) {}

  Clock::time_point play(Outage outage) {
    switch (outage) {
      case Outage::kKilled:
        return kill();
      case Outage::kPaused:
        return pause();
      case Outage::kFlushed:
        return flush();
      case Outage::kPasswordChanged:
        return change_password();
    }
    return {};
  }

 private:
  /// Life goes on meanwhile.
  void stay_away_until(Clock::time_point end) {
    crowd_.change(scale_.changing);
    crowd_.run(end - Clock::now());
  }

  Clock::time_point kill() {
    redis_.kill();
    stay_away_until(Clock::now() + scale_.away);
    const auto end = Clock::now();
    redis_.start();
    return end;
  }

  Clock::time_point pause() {
    const auto end = Clock::now() + scale_.away;
    redis_.command({"CLIENT", "PAUSE", std::to_string(milliseconds(scale_.away).count())});
    stay_away_until(end);
    return end;
  }

  Clock::time_point flush() {
    redis_.command({"FLUSHALL"});
    const auto end = Clock::now();
    crowd_.change(scale_.changing);
    return end;
  }

  Clock::time_point change_password() {
    RedisConsole console(redis_);
    console.command({"CONFIG", "SET", "requirepass", "second"});
    console.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    stay_away_until(Clock::now() + scale_.away);
    EXPECT_EQ(crowd_.daemon().metric("pulsewheel_redis_up"), 0);
    crowd_.write_password("second");
    const auto end = Clock::now();
    crowd_.reload();
    return end;
  }

  RedisServer& redis_;
  MirroredCrowd& crowd_;
  const OutageScale& scale_;
};

bool loses_data(Outage outage) {
  return outage == Outage::kKilled || outage == Outage::kFlushed;
}

/// Each edge that there had to be, and none beside them, is in the daemon's log; and in the stream,
/// where that has not lost any.
void expect_no_edge_of_it(const MirroredCrowd& crowd, const RedisServer& redis, Outage outage) {
  EXPECT_TRUE(crowd.edges_in_log() == crowd.edges()) << "edges that nobody caused, or none";
  const std::vector<std::string> stream = read_edges(redis);
  const std::multiset<std::string> in_stream(stream.begin(), stream.end());
  EXPECT_TRUE(
      std::includes(crowd.edges().begin(), crowd.edges().end(), in_stream.begin(), in_stream.end()))
      << "edges in the stream that nobody caused";
  if (!loses_data(outage)) {
    EXPECT_EQ(in_stream.size(), crowd.edges().size());
  }
}

}  // namespace

void check_outage(Outage outage, const OutageScale& scale) {
  RedisServer redis({.arguments = {"--requirepass", "first"}});
  MirroredCrowd crowd(redis, {.users = scale.users,
                              .timeout = scale.timeout,
                              .password = "first",
                              .settings = scale.settings});
  crowd.run(kBefore);
  ASSERT_TRUE(crowd.equal_within(kEqualWithin, Clock::now()))
      << testing::PrintToString(crowd.differences());

  const auto end = Scenario(redis, crowd, scale).play(outage);

  const auto took = crowd.equal_within(kEqualWithin, end);
  ASSERT_TRUE(took) << crowd.differences().size()
                    << " differences, such as: " << crowd.differences().front();
  std::cout << "equal to memory again " << std::chrono::duration_cast<milliseconds>(*took).count()
            << " ms later\n";
  EXPECT_TRUE(crowd.run_until(
      [&] { return crowd.daemon().metric("pulsewheel_redis_differences") == 0; }, kEqualWithin));
  crowd.run(scale.timeout + kTick);  // who was kept alive in vain is offline by then
  EXPECT_TRUE(crowd.equal_within(kEqualWithin, Clock::now()))
      << testing::PrintToString(crowd.differences());
  expect_no_edge_of_it(crowd, redis, outage);
}

}  // namespace pulsewheel::test

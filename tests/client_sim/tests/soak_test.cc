// The soak's parts: the plan of faults, the footprint, the options, the report.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "tests/client_sim/soak/fault_driver.h"
#include "tests/client_sim/soak/faults.h"
#include "tests/client_sim/soak/footprint.h"
#include "tests/client_sim/soak/soak_options.h"
#include "tests/client_sim/soak/soak_report.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kConnections = 3'000;

std::set<FaultKind> kinds_of(const std::vector<Fault>& plan) {
  std::set<FaultKind> kinds;
  for (const Fault& fault : plan)
    kinds.insert(fault.kind);
  return kinds;
}

TEST(FaultPlanTest, TheSeedDecidesEverything) {
  EXPECT_EQ(plan_faults(1, 10min, kConnections), plan_faults(1, 10min, kConnections));
  EXPECT_NE(plan_faults(1, 10min, kConnections), plan_faults(2, 10min, kConnections));
}

TEST(FaultPlanTest, TenMinutesHaveEveryKindOften) {
  const std::vector<Fault> plan = plan_faults(1, 10min, kConnections);
  EXPECT_GT(plan.size(), 200U);
  EXPECT_EQ(kinds_of(plan).size(), kFaultKinds);
}

TEST(FaultPlanTest, TheRehearsalHasEachKindOnce) {
  const std::vector<Fault> plan = plan_rehearsal(kConnections);
  EXPECT_EQ(plan.size(), kFaultKinds);
  EXPECT_EQ(kinds_of(plan).size(), kFaultKinds);
}

TEST(FaultPlanTest, IsOverBeforeTheRunIs) {
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_LE(end_of(plan_faults(seed, 1min, kConnections)), 1min) << seed;
  EXPECT_TRUE(plan_faults(1, 0s, kConnections).empty());
}

TEST(FaultPlanTest, FaultsThatNeedTheDaemonForThemselvesDoNotOverlap) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Duration free_at{0};
    for (const Fault& fault : plan_faults(seed, 5min, kConnections)) {
      if (exclusive_time(fault) == Duration::zero()) continue;
      EXPECT_GE(fault.at, free_at) << seed;
      free_at = fault.at + exclusive_time(fault);
    }
  }
}

TEST(FaultPlanTest, AStarvedDaemonIsTrustedAgainBeforeTheNextFault) {
  const Fault fault{.at = 0s, .kind = FaultKind::kStarve, .length = 1s, .amount = 0};
  EXPECT_GT(exclusive_time(fault), kStarveNotice + fault.length + kStarveRecovery);
}

TEST(FootprintTest, SumsTheSamplesOfAMetric) {
  constexpr std::string_view kText =
      "# HELP a_total x\n"
      "a{shard=\"0\"} 1\n"
      "a{shard=\"1\",state=\"on\"} 2\n"
      "ab 100\n"
      "a_total 200\n";
  EXPECT_EQ(metric_sum(kText, "a"), 3.0);
  EXPECT_EQ(metric_sum(kText, "a", "state=\"on\""), 2.0);
  EXPECT_EQ(metric_sum(kText, "ab"), 100.0);
  EXPECT_EQ(metric_sum(kText, "c"), std::nullopt);
  EXPECT_EQ(metric_sum("", "a"), std::nullopt);
}

TEST(FootprintTest, NobodyWhoHasGoneMayLeaveAnythingBehind) {
  EXPECT_TRUE(leftovers(Footprint{}).empty());
  for (double Footprint::*left :
       {&Footprint::connections, &Footprint::users_online, &Footprint::users_remembered,
        &Footprint::partial_frame_bytes, &Footprint::backlog_bytes, &Footprint::edges_queued}) {
    Footprint now;
    now.*left = 1;
    EXPECT_EQ(leftovers(now).size(), 1U);
  }
}

TEST(FootprintTest, NothingMayGrow) {
  const Footprint base{.rss_bytes = 9'000'000, .descriptors = 30, .threads = 7};
  EXPECT_TRUE(growth(base, base).empty());
  for (std::uint64_t Footprint::*grown : {&Footprint::descriptors, &Footprint::threads}) {
    Footprint now = base;
    ++(now.*grown);
    EXPECT_EQ(growth(base, now).size(), 1U);
  }
  for (double Footprint::*grown : {&Footprint::timers_armed, &Footprint::service_timers_armed}) {
    Footprint now = base;
    now.*grown += 1;
    EXPECT_EQ(growth(base, now).size(), 1U);
  }
}

TEST(FootprintTest, MemoryHasALittleSlack) {
  Footprint base;
  base.rss_bytes = 9'000'000;
  Footprint now = base;
  now.rss_bytes += kRssSlackBytes;
  EXPECT_TRUE(growth(base, now).empty());
  ++now.rss_bytes;
  EXPECT_EQ(growth(base, now).size(), 1U);
}

TEST(SoakReportTest, EachKindOfFailureIsOneSentence) {
  CycleFigures cycle;
  FaultDriver::Counts faults;
  std::vector<std::string> failures;
  judge_cycle("soak", cycle, faults, failures);
  EXPECT_TRUE(failures.empty());
  cycle.skipped_edges = 1;         // a violation
  cycle.verdict.online_edges = 1;  // somebody is still there
  faults.kicks = 1;                // an edge that is missing
  faults.unclosed = 1;
  judge_cycle("soak", cycle, faults, failures);
  EXPECT_EQ(failures.size(), 4U);
}

TEST(SoakOptionsTest, TakesEveryFlag) {
  const std::vector<const char*> argv{
      "pulsewheel-soak", "--minutes", "30",       "--seed", "7",      "--connections", "500",
      "--daemon",        "d",         "--report", "r",      "--keep", "--verbose"};
  const auto options = parse_soak_options(static_cast<int>(argv.size()), argv.data()).value();
  EXPECT_EQ(options.length, 30min);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_EQ(options.connections, 500U);
  EXPECT_EQ(options.daemon, "d");
  EXPECT_EQ(options.report, "r");
  EXPECT_TRUE(options.keep);
  EXPECT_TRUE(options.verbose);
}

TEST(SoakOptionsTest, RefusesValuesOutOfRange) {
  for (const char* flag : {"--minutes=0", "--minutes=10001", "--connections=99", "--seed=x"}) {
    const std::vector<const char*> argv{"pulsewheel-soak", flag};
    EXPECT_THROW(static_cast<void>(parse_soak_options(2, argv.data())), UsageError) << flag;
  }
}

TEST(HandlesSignalTest, KnowsWhatWouldKillAProcess) {
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(handles_signal(::getpid(), SIGUSR2));
  ::signal(SIGUSR2, SIG_IGN);
  EXPECT_TRUE(handles_signal(::getpid(), SIGUSR2));
  EXPECT_FALSE(handles_signal(-1, SIGUSR2));
}

}  // namespace
}  // namespace pulsewheel::sim

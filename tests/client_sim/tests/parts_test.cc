// The simulator's small parts: habits, calendar, names, addresses, figures.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/client_sim/calendar.h"
#include "tests/client_sim/connection.h"
#include "tests/client_sim/daemon_usage.h"
#include "tests/client_sim/habits.h"
#include "tests/client_sim/random.h"
#include "tests/client_sim/report.h"
#include "tests/client_sim/run_control.h"
#include "tests/client_sim/uid_names.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

TEST(HabitsTest, SharesAreAsAskedFor) {
  Options options;
  options.silent_percent = 5;
  options.disconnect_percent = 10;
  options.logout_percent = 20;
  std::map<Habit, int> counts;
  for (std::uint32_t user = 0; user < 100'000; ++user)
    ++counts[habit_of(options, user)];
  EXPECT_NEAR(counts[Habit::kFallSilent], 5'000, 300);
  EXPECT_NEAR(counts[Habit::kDisconnectBriefly], 5'000, 300);
  EXPECT_NEAR(counts[Habit::kDisconnectLong], 5'000, 300);
  EXPECT_NEAR(counts[Habit::kLogOut], 20'000, 600);
  EXPECT_NEAR(counts[Habit::kSteady], 65'000, 800);
}

TEST(HabitsTest, TheSeedDecidesEverything) {
  Options one;
  one.silent_percent = 50;
  Options two = one;
  two.seed = 2;
  int differ = 0;
  for (std::uint32_t user = 0; user < 1'000; ++user) {
    EXPECT_EQ(habit_of(one, user), habit_of(one, user));
    differ += habit_of(one, user) != habit_of(two, user) ? 1 : 0;
  }
  EXPECT_GT(differ, 300);
}

TEST(HabitsTest, MomentsAreSpreadOverTheWindow) {
  double sum = 0;
  for (std::uint32_t session = 0; session < 10'000; ++session) {
    const double moment = moment_of(1, session);
    ASSERT_GE(moment, 0.0);
    ASSERT_LT(moment, 1.0);
    sum += moment;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(HabitsTest, TheWindowLeavesRoomForTheLastEdge) {
  const JudgeRules rules;
  EXPECT_EQ(habit_window(120s, 30s, rules), 120s - 33'250ms);
  EXPECT_EQ(habit_window(60s, 30s, rules), 30s);
  EXPECT_EQ(habit_window(0s, 30s, rules), 0s);
}

TEST(HabitsTest, ABriefAbsenceEndsWellBeforeTheDeadline) {
  const JudgeRules rules;
  EXPECT_LE(away_for(Habit::kDisconnectBriefly, 30s, 20s, rules, 0.999), 8s);
  EXPECT_EQ(away_for(Habit::kDisconnectBriefly, 30s, 40s, rules, 0.5), 0s);
}

TEST(HabitsTest, ALongAbsenceEndsAfterTheEdgeMustHaveCome) {
  const JudgeRules rules;
  EXPECT_GT(away_for(Habit::kDisconnectLong, 30s, 0s, rules, 0),
            30s + rules.tick + rules.slack + rules.grace);
  EXPECT_GT(away_for(Habit::kLogOut, 30s, 0s, rules, 0), rules.tick + rules.slack + rules.grace);
}

TEST(HabitsTest, ActsOfChurnAreEquallyLikely) {
  std::array<int, kChurnActs> counts{};
  Random random(1);
  for (int i = 0; i < 50'000; ++i)
    ++counts[static_cast<std::size_t>(churn_act(random.unit()))];
  for (const int count : counts)
    EXPECT_NEAR(count, 10'000, 500);
}

TEST(HabitsTest, WhoFallsSilentBeforeAFreezeIsDueInIt) {
  const SilenceWindow window = silence_before_freeze(30s, 30s, 20s);
  EXPECT_EQ(window.begin, 20s);
  EXPECT_EQ(window.begin + window.length, 30s);
  EXPECT_EQ(silence_before_freeze(4s, 30s, 20s).begin, 0s);
  EXPECT_EQ(silence_before_freeze(0s, 30s, 20s).length, 0s);
}

TEST(CalendarTest, GivesAppointmentsInTheirOrderWhenTheyAreDue) {
  Calendar<int> calendar;
  const MonoTime t{1000s};
  EXPECT_EQ(calendar.next_due(), MonoTime::max());
  calendar.add(t + 2s, 2);
  calendar.add(t + 1s, 1);
  calendar.add(t + 3s, 3);
  EXPECT_EQ(calendar.next_due(), t + 1s);
  EXPECT_EQ(calendar.take_due(t + 1s - 1ns), std::nullopt);
  EXPECT_EQ(calendar.take_due(t + 2s), 1);
  EXPECT_EQ(calendar.take_due(t + 2s), 2);
  EXPECT_EQ(calendar.take_due(t + 2s), std::nullopt);
}

TEST(UidNamesTest, ComeBackAsTheirNumbers) {
  const UidNames names(0x12ab);
  UidNames::Buffer buffer;
  EXPECT_EQ(names.write(42, buffer), "s0012ab-00000042");
  for (const std::uint32_t user : {0U, 1U, 999'999U, 99'999'999U}) {
    EXPECT_EQ(names.number(names.write(user, buffer)), user);
  }
}

TEST(UidNamesTest, OtherNamesAreNotOfThisRun) {
  const UidNames names(1);
  UidNames::Buffer buffer;
  EXPECT_EQ(names.number(UidNames(2).write(42, buffer)), std::nullopt);
  for (const char* other : {"", "s000001-", "s000001-0000004", "s000001-000000042",
                            "s000001-0000004x", "s000001--0000004"}) {
    EXPECT_EQ(names.number(other), std::nullopt) << other;
  }
}

TEST(RandomTest, StreamsDiffer) {
  EXPECT_NE(Random(1, 0).next(), Random(1, 1).next());
  EXPECT_EQ(Random(1, 7).next(), Random(1, 7).next());
  Random random(3);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_LT(random.below(10), 10U);
    const Duration between = random.between(1s, 2s);
    EXPECT_GE(between, 1s);
    EXPECT_LT(between, 2s);
  }
}

TEST(ResolveTest, TakesHostAndPort) {
  EXPECT_EQ(resolve("127.0.0.1:7600").address.ss_family, AF_INET);
  EXPECT_EQ(resolve("[::1]:7600").address.ss_family, AF_INET6);
  for (const char* wrong : {"", "7600", ":7600", "127.0.0.1", "127.0.0.1:", "::1:7600"}) {
    EXPECT_THROW(static_cast<void>(resolve(wrong)), UsageError) << wrong;
  }
  EXPECT_THROW(static_cast<void>(resolve("127.0.0.1:http")), Unavailable);
}

TEST(RunControlTest, TheFirstFailureStays) {
  RunControl control;
  EXPECT_FALSE(control.failure());
  control.fail(64, "first");
  control.fail(69, "second");
  EXPECT_EQ(control.failure()->why, "first");
}

TEST(RunControlTest, RemembersTheLatestDebt) {
  RunControl control;
  control.owe_until(MonoTime{5s});
  control.owe_until(MonoTime{3s});
  EXPECT_EQ(control.owed_until(), MonoTime{5s});
}

TEST(RunControlTest, KeepsABoundedNumberOfTroubles) {
  RunControl control;
  for (int i = 0; i < 100; ++i)
    control.note_trouble("trouble " + std::to_string(i));
  control.note_trouble("trouble 0");
  EXPECT_EQ(control.troubles().size(), 16U);
  EXPECT_EQ(control.troubles().at("trouble 0"), 2U);
}

TEST(DaemonUsageTest, ReadsThisProcess) {
  const auto usage = read_usage(::getpid());
  ASSERT_TRUE(usage);
  EXPECT_GT(usage->rss_bytes, 1'000'000U);
  EXPECT_GE(usage->cpu_seconds, 0.0);
  EXPECT_FALSE(read_usage(-1));
}

TEST(DaemonUsageTest, ReadsQuantilesAndExtremesFromMetrics) {
  const DaemonMetrics metrics = parse_metrics(
      "# HELP pulsewheel_expiry_lateness_seconds x\n"
      "# TYPE pulsewheel_expiry_lateness_seconds histogram\n"
      "pulsewheel_expiry_lateness_seconds_count 100\n"
      "pulsewheel_expiry_lateness_seconds_sum 50\n"
      "pulsewheel_expiry_lateness_seconds_bucket{le=\"0.1\"} 10\n"
      "pulsewheel_expiry_lateness_seconds_bucket{le=\"1\"} 99\n"
      "pulsewheel_expiry_lateness_seconds_bucket{le=\"+Inf\"} 100\n"
      "pulsewheel_expiry_lateness_max_seconds 1.25\n"
      "pulsewheel_expiry_lateness_min_seconds 0.003\n"
      "pulsewheel_loop_delay_seconds_bucket{shard=\"0\",le=\"0.001\"} 5\n"
      "pulsewheel_loop_delay_seconds_bucket{shard=\"0\",le=\"+Inf\"} 5\n"
      "pulsewheel_loop_delay_seconds_bucket{shard=\"1\",le=\"0.001\"} 5\n"
      "pulsewheel_loop_delay_seconds_bucket{shard=\"1\",le=\"+Inf\"} 5\n"
      "pulsewheel_loop_delay_max_seconds{shard=\"0\"} 0.0005\n"
      "pulsewheel_loop_delay_max_seconds{shard=\"1\"} 0.0009\n"
      "pulsewheel_wakeup_delay_seconds_bucket{le=\"+Inf\"} 3\n"
      "pulsewheel_wakeup_delay_max_seconds 0.02\n");
  EXPECT_DOUBLE_EQ(metrics.lateness_s.min, 0.003);
  EXPECT_DOUBLE_EQ(metrics.lateness_s.max, 1.25);
  EXPECT_NEAR(metrics.lateness_s.p50, 0.1 + 0.9 * 40 / 89, 1e-9);
  EXPECT_NEAR(metrics.lateness_s.p999, 1.0, 1e-9);
  EXPECT_DOUBLE_EQ(metrics.loop_delay_s.max, 0.0009);
  EXPECT_NEAR(metrics.loop_delay_s.p50, 0.0005, 1e-9);
  EXPECT_DOUBLE_EQ(metrics.wakeup_delay_s.max, 0.02);
}

TEST(DaemonUsageTest, MetricsWithoutTheFamiliesAreZero) {
  EXPECT_EQ(parse_metrics("").lateness_s.max, 0.0);
  EXPECT_EQ(parse_metrics("{\n}\nx\nx{\nx 1\n").loop_delay_s.max, 0.0);
}

TEST(ReportTest, HasThePromisedKeys) {
  Figures figures;
  figures.connections = 7;
  figures.reordered_edges = 2;
  figures.verdict.duplicate_edges = 3;
  figures.daemon.emplace();
  figures.metrics.emplace();
  const auto report = nlohmann::json::parse(to_json(figures));
  for (const char* key : {"connections", "logins", "keepalives", "messages", "false_offline",
                          "missed_offline", "duplicate_edges", "lateness_s", "connect_rate",
                          "daemon", "wrong_reasons", "untold_takeovers", "skipped_edges", "stalls",
                          "offline_after_stall", "lateness_after_stall_s", "churn"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  for (const char* key : {"min", "p50", "p99", "p999", "max"}) {
    EXPECT_TRUE(report["lateness_s"].contains(key)) << key;
  }
  for (const char* key : {"rss_bytes", "rss_per_connection", "cpu_seconds", "cpu_us_per_keepalive",
                          "lateness_s", "loop_delay_s", "wakeup_delay_s"}) {
    EXPECT_TRUE(report["daemon"].contains(key)) << key;
  }
  EXPECT_EQ(report["connections"], 7);
  EXPECT_EQ(report["duplicate_edges"], 5) << "an edge out of order counts as one";
}

TEST(ReportTest, AReorderedOrUnreadableLineIsABrokenPromise) {
  Figures figures;
  EXPECT_TRUE(figures.clean());
  figures.reordered_edges = 1;
  EXPECT_FALSE(figures.clean());
  figures.reordered_edges = 0;
  figures.unreadable_lines = 1;
  EXPECT_FALSE(figures.clean());
}

TEST(ReportTest, ANumberLeftOutAndAClientBackTooLateAreBrokenPromises) {
  Figures figures;
  figures.skipped_edges = 1;
  EXPECT_FALSE(figures.clean());
  figures.skipped_edges = 0;
  figures.cut = CutFigures{.connections = 5, .back = 5, .late = 0, .slowest_seconds = 1};
  EXPECT_TRUE(figures.clean());
  figures.cut->late = 1;
  EXPECT_FALSE(figures.clean());
  EXPECT_EQ(nlohmann::json::parse(to_json(figures))["cut"]["late"], 1);
}

TEST(RunControlTest, HandsOutEachWishAndEachOfferOnce) {
  RunControl control;
  EXPECT_FALSE(control.take_kick_wish());
  control.want_kick();
  EXPECT_TRUE(control.take_kick_wish());
  EXPECT_FALSE(control.take_kick_wish());
  control.offer_kick("alice");
  EXPECT_EQ(control.take_kick_offer(), "alice");
  EXPECT_EQ(control.take_kick_offer(), std::nullopt);
}

TEST(RunControlTest, RemembersEachStopAndContinuation) {
  RunControl control;
  control.daemon_stops(MonoTime{1s});
  control.daemon_continues(MonoTime{2s});
  EXPECT_EQ(control.stall_steps(), 2U);
  EXPECT_EQ(control.stall_step(0), MonoTime{1s});
  EXPECT_EQ(control.stall_step(1), MonoTime{2s});
}

TEST(ReportTest, TheTableSaysWhenNothingWasJudged) {
  std::ostringstream out;
  print_table(out, Figures{});
  EXPECT_NE(out.str().find("not judged"), std::string::npos);
}

}  // namespace
}  // namespace pulsewheel::sim

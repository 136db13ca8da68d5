#include "daemon/admin/metrics.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <prometheus/text_serializer.h>

#include "daemon/base/build_info.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::chrono::nanoseconds kBounds[] = {1ms, 50ms, 1s};

std::string text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

TEST(MetricsTest, CounterHasTypeHelpAndValue) {
  EXPECT_EQ(text({counter_family("pulsewheel_edges_total", "Edges.", 1'000'000)}),
            "# HELP pulsewheel_edges_total Edges.\n"
            "# TYPE pulsewheel_edges_total counter\n"
            "pulsewheel_edges_total 1000000\n");
}

TEST(MetricsTest, GaugeMayBeNegative) {
  EXPECT_THAT(text({gauge_family("pulsewheel_offset", "Offset.", -1.5)}),
              HasSubstr("\npulsewheel_offset -1.5\n"));
}

TEST(MetricsTest, SeriesHaveEscapedLabels) {
  auto family = counter_family("pulsewheel_closes_total", "Closes.");
  add_series(family, 2, {{"reason", "a\"b\\c\nd"}});
  EXPECT_THAT(text({family}), HasSubstr("{reason=\"a\\\"b\\\\c\\nd\"} 2\n"));
}

TEST(MetricsTest, HistogramIsCumulativeInSeconds) {
  DurationHistogram histogram(kBounds);
  for (const auto value : {1ms, 2ms, 50ms, 900ms, 3000ms})
    histogram.observe(value);
  EXPECT_EQ(text({histogram_family("pulsewheel_lateness_seconds", "Late.", histogram.snapshot())}),
            "# HELP pulsewheel_lateness_seconds Late.\n"
            "# TYPE pulsewheel_lateness_seconds histogram\n"
            "pulsewheel_lateness_seconds_count 5\n"
            "pulsewheel_lateness_seconds_sum 3.953\n"
            "pulsewheel_lateness_seconds_bucket{le=\"0.001\"} 1\n"
            "pulsewheel_lateness_seconds_bucket{le=\"0.05\"} 3\n"
            "pulsewheel_lateness_seconds_bucket{le=\"1\"} 4\n"
            "pulsewheel_lateness_seconds_bucket{le=\"+Inf\"} 5\n");
}

TEST(MetricsTest, HistogramCountNeverContradictsItsBuckets) {
  DurationHistogram histogram(kBounds);
  histogram.observe(2ms);
  auto snapshot = histogram.snapshot();
  snapshot.count = 0;  // read before the observation, the buckets after it
  const auto family = histogram_family("pulsewheel_lateness_seconds", "Late.", snapshot);
  EXPECT_EQ(family.metric[0].histogram.sample_count, 1u);
}

TEST(MetricsTest, BuildInfoNamesTheVersion) {
  EXPECT_THAT(text({build_info_family()}),
              HasSubstr("version=\"" + std::string(build_info().version) + "\""));
}

// Every kind of family that we make, as /metrics shows it, under promtool's rules.
TEST(MetricsTest, PromtoolFindsNoFault) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool here";
  DurationHistogram histogram(kBounds);
  histogram.observe(20ms);
  std::vector<prometheus::MetricFamily> families;
  families.push_back(build_info_family());
  append_http_families(HttpCounters{}, families);
  families.push_back(
      histogram_family("pulsewheel_lateness_seconds", "Late.", histogram.snapshot()));

  std::FILE* promtool = ::popen("promtool check metrics 2>&1", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string metrics = text(families);
  EXPECT_EQ(std::fwrite(metrics.data(), 1, metrics.size(), promtool), metrics.size());
  EXPECT_EQ(::pclose(promtool), 0) << metrics;
}

TEST(MetricsDeathTest, RefusesNamesAgainstTheConventions) {
  EXPECT_DEATH((void)counter_family("pulsewheel_edges", "No unit."), "broken invariant");
  EXPECT_DEATH((void)gauge_family("pulsewheel_users_total", "Not a count."), "broken invariant");
  EXPECT_DEATH((void)gauge_family("users", "No prefix."), "broken invariant");
  EXPECT_DEATH((void)gauge_family("pulsewheel_Users", "Upper case."), "broken invariant");
  EXPECT_DEATH((void)gauge_family("pulsewheel_users", "Two\nlines."), "broken invariant");
}

}  // namespace
}  // namespace pulsewheel

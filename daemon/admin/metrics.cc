#include "daemon/admin/metrics.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "daemon/base/build_info.h"
#include "daemon/base/check.h"

namespace pulsewheel {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

MetricFamily make_family(std::string_view name, std::string_view help, MetricType type) {
  PULSEWHEEL_CHECK(name.starts_with("pulsewheel_") || name.starts_with("process_"));
  PULSEWHEEL_CHECK(std::all_of(name.begin(), name.end(), is_name_character));
  PULSEWHEEL_CHECK(name.ends_with("_total") == (type == MetricType::Counter));
  PULSEWHEEL_CHECK(name.ends_with("_seconds") || type != MetricType::Histogram);
  PULSEWHEEL_CHECK(!help.empty() && help.find_first_of("\n\\") == help.npos);
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

double to_seconds(std::chrono::nanoseconds duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

}  // namespace

MetricFamily counter_family(std::string_view name, std::string_view help) {
  return make_family(name, help, MetricType::Counter);
}

MetricFamily counter_family(std::string_view name, std::string_view help, std::uint64_t value) {
  MetricFamily family = counter_family(name, help);
  add_series(family, static_cast<double>(value), {});
  return family;
}

MetricFamily gauge_family(std::string_view name, std::string_view help) {
  return make_family(name, help, MetricType::Gauge);
}

MetricFamily gauge_family(std::string_view name, std::string_view help, double value) {
  MetricFamily family = gauge_family(name, help);
  add_series(family, value, {});
  return family;
}

MetricFamily histogram_family(std::string_view name, std::string_view help) {
  return make_family(name, help, MetricType::Histogram);
}

MetricFamily histogram_family(std::string_view name, std::string_view help,
                              const DurationHistogram::Snapshot& snapshot) {
  MetricFamily family = histogram_family(name, help);
  add_series(family, snapshot, {});
  return family;
}

void add_series(MetricFamily& family, double value, MetricLabels labels) {
  PULSEWHEEL_CHECK(family.type != MetricType::Histogram);
  ClientMetric& series = family.metric.emplace_back();
  series.label = std::move(labels);
  if (family.type == MetricType::Counter) {
    series.counter.value = value;
  } else {
    series.gauge.value = value;
  }
}

void add_series(MetricFamily& family, const DurationHistogram::Snapshot& snapshot,
                MetricLabels labels) {
  PULSEWHEEL_CHECK(family.type == MetricType::Histogram);
  ClientMetric& series = family.metric.emplace_back();
  series.label = std::move(labels);
  // The count is the sum of the buckets and not the snapshot's own, which may be a few
  // observations apart: a scraper takes a bucket above the count for corruption.
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < snapshot.bounds.size(); ++i) {
    cumulative += snapshot.counts[i];
    series.histogram.bucket.push_back({cumulative, to_seconds(snapshot.bounds[i])});
  }
  series.histogram.sample_count = cumulative + snapshot.counts[snapshot.bounds.size()];
  series.histogram.sample_sum = to_seconds(snapshot.sum);
}

MetricFamily build_info_family() {
  const BuildInfo& build = build_info();
  MetricFamily family =
      gauge_family("pulsewheel_build_info", "What is running, in the labels; always 1.");
  add_series(family, 1,
             {{"version", std::string(build.version)},
              {"commit", std::string(build.commit)},
              {"compiler", std::string(build.compiler)}});
  return family;
}

void append_http_families(const HttpCounters& counters, std::vector<MetricFamily>& families) {
  families.push_back(gauge_family("pulsewheel_http_connections",
                                  "Connections to the HTTP port that are open.",
                                  static_cast<double>(counters.connections.value())));
  families.push_back(counter_family("pulsewheel_http_connections_accepted_total",
                                    "Connections to the HTTP port that were accepted.",
                                    counters.connections_accepted.value()));
  families.push_back(counter_family(
      "pulsewheel_http_connections_refused_total",
      "Accepted connections to the HTTP port that were closed because too many were open.",
      counters.connections_refused.value()));
  families.push_back(counter_family(
      "pulsewheel_http_accept_errors_total",
      "Times that the HTTP port could not accept, for want of descriptors or memory.",
      counters.accept_errors.value()));

  MetricFamily answers = counter_family("pulsewheel_http_answers_total",
                                        "Answers of the HTTP port, by class of their status.");
  const std::pair<const char*, const Counter*> classes[] = {{"2xx", &counters.answers_2xx},
                                                            {"4xx", &counters.answers_4xx},
                                                            {"5xx", &counters.answers_5xx}};
  for (const auto& [name, counter] : classes) {
    add_series(answers, static_cast<double>(counter->value()), {{"status", name}});
  }
  families.push_back(std::move(answers));
  families.push_back(counter_family("pulsewheel_http_unauthorized_total",
                                    "Requests to the HTTP port that lacked the token.",
                                    counters.unauthorized.value()));

  families.push_back(gauge_family("pulsewheel_http_streams",
                                  "Connections that follow a stream; among those that are open.",
                                  static_cast<double>(counters.streams.value())));
  families.push_back(counter_family("pulsewheel_http_streams_begun_total",
                                    "Streams that were begun.", counters.streams_begun.value()));
  families.push_back(counter_family("pulsewheel_http_streams_refused_total",
                                    "Streams that were refused because too many were open.",
                                    counters.streams_refused.value()));
  families.push_back(counter_family("pulsewheel_http_streams_stuck_total",
                                    "Streams that were closed because their clients did not read.",
                                    counters.streams_stuck.value()));
}

}  // namespace pulsewheel

// Prometheus metric families out of our counters, made anew for each scrape.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "daemon/admin/http_connection.h"
#include "daemon/base/counters.h"

namespace pulsewheel {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

/// A family with one series, or none yet: add more with add_series(). The functions require names
/// of [a-z0-9_] that start with "pulsewheel_", or "process_" for what every process has (counters
/// end in "_total", histograms in "_seconds", gauges not in "_total") and help in one line; these
/// are literals of ours. Series of one family have the same label names and different label values.
[[nodiscard]] prometheus::MetricFamily counter_family(std::string_view name, std::string_view help);
[[nodiscard]] prometheus::MetricFamily counter_family(std::string_view name, std::string_view help,
                                                      std::uint64_t value);
[[nodiscard]] prometheus::MetricFamily gauge_family(std::string_view name, std::string_view help);
[[nodiscard]] prometheus::MetricFamily gauge_family(std::string_view name, std::string_view help,
                                                    double value);
[[nodiscard]] prometheus::MetricFamily histogram_family(std::string_view name,
                                                        std::string_view help);
[[nodiscard]] prometheus::MetricFamily histogram_family(
    std::string_view name, std::string_view help, const DurationHistogram::Snapshot& snapshot);

void add_series(prometheus::MetricFamily& family, double value, MetricLabels labels);
void add_series(prometheus::MetricFamily& family, const DurationHistogram::Snapshot& snapshot,
                MetricLabels labels);

/// pulsewheel_build_info: always 1, the labels say what is running.
[[nodiscard]] prometheus::MetricFamily build_info_family();

/// pulsewheel_http_*.
void append_http_families(const HttpCounters& counters,
                          std::vector<prometheus::MetricFamily>& families);

}  // namespace pulsewheel

#include "tests/client_sim/daemon_usage.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "tests/client_sim/http_request.h"

namespace pulsewheel::sim {
namespace {

/// A gauge over all its label sets.
struct Range {
  double min = 0;
  double max = 0;
};

/// The numbers of one histogram family, summed over all its label sets.
struct Histogram {
  std::map<double, double> cumulative;  // upper bound -> count
  double count = 0;
};

double number(std::string_view text) {
  double value = 0;
  if (text.starts_with("+Inf")) return std::numeric_limits<double>::infinity();
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The value of label "le" in a sample's `labels`.
double upper_bound_of(std::string_view labels) {
  constexpr std::string_view kLabel = "le=\"";
  const std::size_t at = labels.find(kLabel);
  return at == std::string_view::npos ? 0 : number(labels.substr(at + kLabel.size()));
}

double quantile(const Histogram& histogram, double share) {
  const double rank = share * histogram.count;
  double below = 0;
  double lower = 0;
  for (const auto& [upper, cumulative] : histogram.cumulative) {
    if (cumulative >= rank && cumulative > below) {
      if (std::isinf(upper)) return lower;
      return lower + (upper - lower) * (rank - below) / (cumulative - below);
    }
    below = cumulative;
    lower = upper;
  }
  return lower;
}

class MetricsText {
 public:
  explicit MetricsText(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      add(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  [[nodiscard]] Lateness::Summary summary(const std::string& family,
                                          const std::string& gauge_stem) const {
    Lateness::Summary out;
    const auto found = histograms_.find(family);
    if (found == histograms_.end() || found->second.count == 0) return out;
    const Histogram& histogram = found->second;
    out.p50 = quantile(histogram, 0.5);
    out.p99 = quantile(histogram, 0.99);
    out.p999 = quantile(histogram, 0.999);
    out.max = gauge(gauge_stem + "_max_seconds", quantile(histogram, 1)).max;
    out.min = gauge(gauge_stem + "_min_seconds", 0).min;
    // Interpolation knows no more than the bucket's bounds; the extremes are exact.
    for (double* value : {&out.p50, &out.p99, &out.p999})
      *value = std::min(*value, out.max);
    return out;
  }

 private:
  void add(std::string_view line) {
    if (line.empty() || line.front() == '#') return;
    const std::size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) return;
    std::string name(line.substr(0, name_end));
    std::string_view labels;
    std::size_t value_at = name_end;
    if (line[name_end] == '{') {
      const std::size_t close = line.rfind('}');
      if (close == std::string_view::npos || close < name_end) return;
      labels = line.substr(name_end, close - name_end);
      value_at = close + 1;
    }
    value_at = line.find_first_not_of(' ', value_at);
    if (value_at == std::string_view::npos) return;
    const double value = number(line.substr(value_at));
    constexpr std::string_view kBucket = "_bucket";
    if (name.ends_with(kBucket)) {
      name.resize(name.size() - kBucket.size());
      Histogram& histogram = histograms_[name];
      const double bound = upper_bound_of(labels);
      histogram.cumulative[bound] += value;
      if (std::isinf(bound)) histogram.count += value;
    } else {
      const auto known = gauges_.try_emplace(std::move(name), Range{value, value}).first;
      known->second = {std::min(known->second.min, value), std::max(known->second.max, value)};
    }
  }

  [[nodiscard]] Range gauge(const std::string& name, double otherwise) const {
    const auto found = gauges_.find(name);
    return found == gauges_.end() ? Range{otherwise, otherwise} : found->second;
  }

  std::map<std::string, Histogram> histograms_;
  std::map<std::string, Range> gauges_;
};

}  // namespace

std::optional<ProcessUsage> read_usage(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream status(folder + "/status");
  std::ifstream stat(folder + "/stat");
  if (!status || !stat) return std::nullopt;
  ProcessUsage usage;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmRSS:")) continue;
    std::istringstream(line.substr(6)) >> usage.rss_bytes;
    usage.rss_bytes *= 1024;
  }
  std::string text;
  std::getline(stat, text);
  // The second field, the name, may contain anything; utime and stime are the 14th and 15th.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field)
    fields >> skipped;
  double user_ticks = 0;
  double system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  usage.cpu_seconds = (user_ticks + system_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return usage;
}

std::optional<DaemonMetrics> fetch_metrics(const std::string& http) {
  const std::optional<HttpAnswer> answer = http_request(http, "GET", "/metrics");
  if (!answer || answer->status != 200) return std::nullopt;
  return parse_metrics(answer->body);
}

DaemonMetrics parse_metrics(std::string_view text) {
  const MetricsText metrics(text);
  return {metrics.summary("pulsewheel_expiry_lateness_seconds", "pulsewheel_expiry_lateness"),
          metrics.summary("pulsewheel_loop_delay_seconds", "pulsewheel_loop_delay"),
          metrics.summary("pulsewheel_wakeup_delay_seconds", "pulsewheel_wakeup_delay")};
}

}  // namespace pulsewheel::sim

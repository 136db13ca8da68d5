#include "daemon/admin/process_metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace pulsewheel {
namespace {

/// The values by name; each family has one series.
std::map<std::string, double> read(std::size_t descriptor_tables = 1) {
  std::vector<prometheus::MetricFamily> families;
  append_process_families(descriptor_tables, families);
  std::map<std::string, double> values;
  for (const auto& family : families) {
    EXPECT_EQ(family.metric.size(), 1U) << family.name;
    const auto& series = family.metric.front();
    const bool counts = family.type == prometheus::MetricType::Counter;
    values[family.name] = counts ? series.counter.value : series.gauge.value;
  }
  return values;
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TEST(ProcessMetricsTest, StartedBeforeNowAndNotLongAgo) {
  const double age = unix_now() - read().at("process_start_time_seconds");
  EXPECT_GT(age, -0.1);
  EXPECT_LT(age, 3600);
}

TEST(ProcessMetricsTest, ProcessorTimeGrowsWithWork) {
  const double before = read().at("process_cpu_seconds_total");
  double after = before;
  while (after < before + 0.05)
    after = read().at("process_cpu_seconds_total");
  EXPECT_LT(after, before + 10);
}

TEST(ProcessMetricsTest, MemoryInUseCountsAsResident) {
  constexpr double kBlock = 64.0 * 1024 * 1024;
  const double before = read().at("process_resident_memory_bytes");
  const std::vector<char> block(static_cast<std::size_t>(kBlock), 'x');
  const auto with_block = read();
  EXPECT_GT(with_block.at("process_resident_memory_bytes"), before + kBlock * 0.9);
  EXPECT_GE(with_block.at("process_virtual_memory_bytes"),
            with_block.at("process_resident_memory_bytes"));
}

TEST(ProcessMetricsTest, EachOpenDescriptorCounts) {
  const double before = read().at("process_open_fds");
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(read().at("process_open_fds"), before + 1);
  ::close(fd);
}

TEST(ProcessMetricsTest, EachTableHasTheLimitOfItsOwn) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(read(1).at("process_max_fds"), static_cast<double>(limit.rlim_cur));
  EXPECT_EQ(read(3).at("process_max_fds"), 3.0 * static_cast<double>(limit.rlim_cur));
}

}  // namespace
}  // namespace pulsewheel

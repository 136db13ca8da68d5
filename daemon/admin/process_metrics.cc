#include "daemon/admin/process_metrics.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "daemon/admin/metrics.h"
#include "daemon/base/descriptor_tables.h"

namespace pulsewheel {

namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double now_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct Memory {
  double virtual_bytes = 0;
  double resident_bytes = 0;
};

std::optional<Memory> read_memory() {
  std::ifstream statm("/proc/self/statm");
  double virtual_pages = 0;
  double resident_pages = 0;
  if (!(statm >> virtual_pages >> resident_pages)) return std::nullopt;
  const auto page_bytes = static_cast<double>(::sysconf(_SC_PAGESIZE));
  return Memory{virtual_pages * page_bytes, resident_pages * page_bytes};
}

/// When the process was started, in Unix time.
std::optional<double> read_start_time() {
  static constexpr int kFieldsBetween = 19;  // from the name in parentheses to the start time
  std::ifstream file("/proc/self/stat");
  std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == stat.npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i)
    fields >> skipped;
  double ticks_since_boot = 0;
  if (!(fields >> ticks_since_boot)) return std::nullopt;
  // /proc/stat, which has the time of the boot, is hidden in a sandbox with ProcSubset=pid.
  const double age =
      now_of(CLOCK_BOOTTIME) - ticks_since_boot / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return now_of(CLOCK_REALTIME) - age;
}

}  // namespace

void append_process_families(std::size_t descriptor_tables,
                             std::vector<prometheus::MetricFamily>& families) {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    auto cpu = counter_family("process_cpu_seconds_total",
                              "User and system time that the process has taken.");
    add_series(cpu, seconds(usage.ru_utime) + seconds(usage.ru_stime), {});
    families.push_back(std::move(cpu));
  }
  if (const auto memory = read_memory()) {
    families.push_back(gauge_family("process_resident_memory_bytes",
                                    "Memory of the process that is in RAM.",
                                    memory->resident_bytes));
    families.push_back(gauge_family("process_virtual_memory_bytes", "Address space of the process.",
                                    memory->virtual_bytes));
  }
  // Read once: it must not move when somebody sets the clock.
  static const std::optional<double> start_time = read_start_time();
  if (start_time) {
    families.push_back(gauge_family("process_start_time_seconds",
                                    "Unix time at which the process was started.", *start_time));
  }
  if (const std::size_t open = count_descriptors(); open > 0) {
    families.push_back(gauge_family("process_open_fds", "Open descriptors, over all tables.",
                                    static_cast<double>(open)));
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(
        gauge_family("process_max_fds", "Descriptors that all tables together may hold.",
                     static_cast<double>(limit.rlim_cur) * static_cast<double>(descriptor_tables)));
  }
}

}  // namespace pulsewheel

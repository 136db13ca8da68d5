// Metrics about the process, under the names that all programs have them under.
#pragma once

#include <cstddef>
#include <vector>

#include <prometheus/metric_family.h>

namespace pulsewheel {

/// Appends process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
/// process_start_time_seconds, process_open_fds and process_max_fds. The last two are of all
/// descriptor tables together: the process has `descriptor_tables` of them, each with the limit of
/// its own. What cannot be read (no /proc) is left out. Any thread; O(tables x threads).
void append_process_families(std::size_t descriptor_tables,
                             std::vector<prometheus::MetricFamily>& families);

}  // namespace pulsewheel

// Descriptor tables: how many descriptors this process may have, and how to have more.
//
// The limit on open descriptors (RLIMIT_NOFILE) holds per descriptor table, and a thread may have
// a table of its own. A descriptor is then used and closed only by threads of the table that
// opened it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

namespace pulsewheel {

/// Raises the soft limit on descriptors to the hard one. Returns the soft limit that holds now; a
/// limit that cannot be raised stays as it was.
std::uint64_t raise_descriptor_limit() noexcept;

/// The highest descriptor open in the calling thread's table. Throws std::system_error when
/// /proc/thread-self/fd cannot be read. O(descriptors).
[[nodiscard]] int highest_open_descriptor();

/// Makes room for `descriptors` in the calling thread's table, 8 bytes each, at once and for good.
/// A table that threads share grows by doubling when it is full, and whoever opens the descriptor
/// that does not fit sleeps meanwhile until every processor has passed through the scheduler
/// (expand_fdtable() in the kernel's fs/file.c): 50 to 200 ms were measured. So call it before
/// there are other threads. Where the limit or memory does not allow it, nothing has changed.
void reserve_descriptor_table(std::uint64_t descriptors) noexcept;

/// Gives the calling thread a descriptor table of its own: a copy of the one that it shared,
/// without the descriptors from `first_private` on. They stay open for the threads left behind.
/// On failure (seccomp, an old kernel) nothing has changed.
[[nodiscard]] std::error_code separate_descriptor_table(int first_private) noexcept;

/// The descriptors open in all tables of this process; one that was inherited by several tables
/// counts once in each. Where the kernel may not be asked whether two threads share a table
/// (seccomp without kcmp), tables of the same size are taken for one. Threads and descriptors that
/// come or go meanwhile may or may not be counted. 0 when /proc cannot be read.
/// O(threads x tables), and O(descriptors) on kernels before 6.2.
[[nodiscard]] std::size_t count_descriptors() noexcept;

enum class DescriptorTables : std::uint8_t {
  kAuto,      // per shard only when the connections do not fit one table
  kShared,    // one table, fewer connections when they do not fit
  kPerShard,  // always one for each shard
};

/// More shards than this are never opened, however many connections are wanted.
inline constexpr std::uint32_t kShardsMax = 256;

struct DescriptorRequest {
  DescriptorTables mode = DescriptorTables::kAuto;
  std::uint64_t max_connections = 0;  // wanted, of the whole process
  std::uint64_t limit = 0;            // descriptors that one table may hold
  std::uint64_t reserve = 0;          // descriptors of one table that are no connections
  std::uint32_t shards_wanted = 1;    // 1 .. kShardsMax; others are clamped
};

struct DescriptorPlan {
  bool per_shard = false;  // each shard calls separate_descriptor_table()
  std::uint32_t shards = 1;
  /// What one shard may hold: its even part of max_connections and room for the kernel's uneven
  /// spread, as far as the tables allow.
  std::uint64_t connections_per_shard = 0;
  std::uint64_t max_connections =
      0;               // as asked for, or what fits; 0: the limit is too low to serve
  std::string reason;  // one sentence for the log
};

/// Decides how the connections are spread over shards and tables. Pure.
[[nodiscard]] DescriptorPlan plan_descriptor_tables(const DescriptorRequest& request);

/// `mean` connections a shard, and room for the kernel's spread by hash: 10 % for hashes that are
/// not quite even, and four standard deviations of an even one.
[[nodiscard]] std::uint64_t with_spread_headroom(std::uint64_t mean) noexcept;

}  // namespace pulsewheel

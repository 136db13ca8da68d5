#include "daemon/base/descriptor_tables.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/kcmp.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

namespace pulsewheel {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

/// Calls `visit` with each entry of `directory` that is a number; all entries of the folders read
/// here are, but for "." and "..".
template <class Visit>
void for_each_number(DIR* directory, Visit visit) {
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size()) visit(number);
  }
}

/// The descriptors in the table of thread `tid`; nullopt when it is gone.
std::optional<std::size_t> table_size(int tid) {
  const std::string path = "/proc/self/task/" + std::to_string(tid) + "/fd";
  struct stat folder {};
  if (::stat(path.c_str(), &folder) != 0) return std::nullopt;
  if (folder.st_size > 0) return static_cast<std::size_t>(folder.st_size);  // Linux 6.2 and later
  const Directory directory(::opendir(path.c_str()));
  if (!directory) return std::nullopt;
  std::size_t count = 0;
  for_each_number(directory.get(), [&](int) { ++count; });
  return count;
}

struct Table {
  int tid;
  std::size_t size;
};

bool same_table(const Table& a, const Table& b) noexcept {
  const long order = ::syscall(SYS_kcmp, a.tid, b.tid, KCMP_FILES, 0UL, 0UL);
  return order == 0 || (order < 0 && a.size == b.size);
}

std::size_t count_in_all_tables() {
  const Directory tasks(::opendir("/proc/self/task"));
  if (!tasks) return 0;
  std::vector<Table> tables;
  for_each_number(tasks.get(), [&](int tid) {
    const std::optional<std::size_t> size = table_size(tid);
    if (!size) return;
    const Table table{tid, *size};
    const bool known = std::any_of(tables.begin(), tables.end(),
                                   [&](const Table& other) { return same_table(table, other); });
    if (!known) tables.push_back(table);
  });
  std::size_t total = 0;
  for (const Table& table : tables)
    total += table.size;
  return total - 1;  // `tasks` itself
}

std::uint64_t divide_up(std::uint64_t n, std::uint64_t parts) noexcept {
  return n / parts + (n % parts != 0 ? 1 : 0);
}

/// What a shard has to be able to hold so that `shards` of them take `connections`.
std::uint64_t shard_capacity(std::uint64_t connections, std::uint32_t shards) noexcept {
  if (shards == 1) return connections;
  return std::min(connections, with_spread_headroom(divide_up(connections, shards)));
}

/// The fewest shards, from `at_least` on, whose own tables of `usable` descriptors take
/// `connections`; nullopt when kShardsMax are too few.
std::optional<std::uint32_t> shards_needed(std::uint64_t connections, std::uint64_t usable,
                                           std::uint32_t at_least) noexcept {
  for (std::uint32_t shards = at_least; shards <= kShardsMax; ++shards) {
    if (shard_capacity(connections, shards) <= usable) return shards;
  }
  return std::nullopt;
}

/// The most connections that kShardsMax shards with `usable` descriptors each can take.
std::uint64_t most_connections(std::uint64_t usable) noexcept {
  std::uint64_t fits = 0;
  std::uint64_t too_many = usable * kShardsMax + 1;
  while (too_many - fits > 1) {
    const std::uint64_t middle = fits + (too_many - fits) / 2;
    (shard_capacity(middle, kShardsMax) <= usable ? fits : too_many) = middle;
  }
  return fits;
}

std::string limit_text(const DescriptorRequest& request) {
  return "one table holds " + std::to_string(request.limit) + " descriptors, " +
         std::to_string(request.reserve) + " of them reserved";
}

DescriptorPlan plan_shared(const DescriptorRequest& request, std::uint64_t usable,
                           std::uint32_t shards) {
  DescriptorPlan plan;
  plan.shards = shards;
  plan.max_connections = std::min(request.max_connections, usable);
  // All shards together should not be able to ask the table for more than it has; where the fit
  // is tight, an even part must do.
  plan.connections_per_shard = std::clamp(usable / shards, divide_up(plan.max_connections, shards),
                                          shard_capacity(plan.max_connections, shards));
  plan.reason = plan.max_connections == request.max_connections
                    ? std::to_string(plan.max_connections) + " connections fit one descriptor table"
                    : limit_text(request) + ": max_connections is lowered from " +
                          std::to_string(request.max_connections) + " to " +
                          std::to_string(plan.max_connections);
  return plan;
}

DescriptorPlan plan_per_shard(const DescriptorRequest& request, std::uint64_t usable,
                              std::uint32_t shards_wanted) {
  DescriptorPlan plan;
  plan.per_shard = true;
  plan.max_connections = request.max_connections;
  if (const auto needed = shards_needed(request.max_connections, usable, shards_wanted)) {
    plan.shards = *needed;
    plan.reason = limit_text(request) + ": " + std::to_string(plan.max_connections) +
                  " connections take " + std::to_string(plan.shards) + " shards with a table each";
  } else {
    plan.shards = kShardsMax;
    plan.max_connections = most_connections(usable);
    plan.reason = limit_text(request) + ": " + std::to_string(kShardsMax) +
                  " shards with a table each take " + std::to_string(plan.max_connections) +
                  " connections, not " + std::to_string(request.max_connections);
  }
  plan.connections_per_shard = shard_capacity(plan.max_connections, plan.shards);
  return plan;
}

}  // namespace

std::uint64_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur == limit.rlim_max || ::setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    return limit.rlim_max;
  }
  return limit.rlim_cur;
}

int highest_open_descriptor() {
  // The thread's own entry: /proc/self/fd shows the table of the process's first thread.
  const Directory directory(::opendir("/proc/thread-self/fd"));
  if (!directory) throw std::system_error(errno, std::system_category(), "/proc/thread-self/fd");
  const int own = ::dirfd(directory.get());
  int highest = -1;
  for_each_number(directory.get(), [&](int number) {
    if (number != own) highest = std::max(highest, number);
  });
  return highest;
}

void reserve_descriptor_table(std::uint64_t descriptors) noexcept {
  if (descriptors == 0 || descriptors > INT_MAX) return;
  const int any = ::eventfd(0, EFD_CLOEXEC);
  if (any == -1) return;
  // The table takes the room that the highest number needs, and never shrinks.
  const int highest = ::fcntl(any, F_DUPFD_CLOEXEC, static_cast<int>(descriptors - 1));
  if (highest != -1) ::close(highest);
  ::close(any);
}

std::error_code separate_descriptor_table(int first_private) noexcept {
  // close_range and not unshare: Docker's default profile denies the latter.
  if (::close_range(static_cast<unsigned>(first_private), ~0U, CLOSE_RANGE_UNSHARE) == 0) return {};
  return {errno, std::system_category()};
}

std::size_t count_descriptors() noexcept {
  try {
    return count_in_all_tables();
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

std::uint64_t with_spread_headroom(std::uint64_t mean) noexcept {
  const double sigma = std::sqrt(static_cast<double>(mean));
  return mean + divide_up(mean, 10) + static_cast<std::uint64_t>(std::ceil(4 * sigma));
}

DescriptorPlan plan_descriptor_tables(const DescriptorRequest& request) {
  // A descriptor is an int, whatever the limit says; no sum below can overflow then.
  const std::uint64_t limit = std::min<std::uint64_t>(request.limit, INT_MAX);
  const std::uint64_t usable = limit > request.reserve ? limit - request.reserve : 0;
  const std::uint32_t shards = std::clamp<std::uint32_t>(request.shards_wanted, 1, kShardsMax);
  const bool fits = request.max_connections <= usable;
  const bool shared = request.mode == DescriptorTables::kShared ||
                      (request.mode == DescriptorTables::kAuto && fits) || usable == 0;
  return shared ? plan_shared(request, usable, shards) : plan_per_shard(request, usable, shards);
}

}  // namespace pulsewheel

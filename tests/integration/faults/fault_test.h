// What the fault tests share: the daemon's options, and its edges, descriptors and memory.
//
// The suite asserts counts, order and lower bounds of times, so that it also holds on a loaded
// machine and under a sanitizer. Upper bounds of times and of CPU have label slow.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/base/time.h"
#include "tests/integration/daemon.h"
#include "tests/integration/swarm.h"

namespace pulsewheel::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = false;
#endif
#else
inline constexpr bool kUnderSanitizer = false;
#endif

/// Whether this is a build whose speed means something.
#ifdef NDEBUG
inline constexpr bool kReleaseBuild = true;
#else
inline constexpr bool kReleaseBuild = false;
#endif

/// T and d of the timed faults. A sanitizer slows both sides down, so that T is longer there.
inline constexpr std::chrono::seconds kTimeout{kUnderSanitizer ? 4 : 2};
inline constexpr std::chrono::milliseconds kTick{50};

/// Keeps a user online over a test that is not about time.
inline const std::string kLongTimeout = "presence.timeout=60s";

/// Sets of a daemon with T = kTimeout, d = kTick and room for thousands of connections; those in
/// `more` come behind and win.
std::vector<std::string> fault_sets(std::vector<std::string> more = {});

struct EdgeCount {
  std::size_t online = 0;
  std::size_t offline = 0;
  bool operator==(const EdgeCount&) const = default;
};

/// Edges in the event log by uid (percent-encoded, as there).
std::map<std::string, EdgeCount> count_edges(const Daemon& daemon);
/// All edges in the event log.
EdgeCount count_all_edges(const Daemon& daemon);
/// Waits until the event log has `expected`, and says what it has then.
EdgeCount wait_for_edge_count(const Daemon& daemon, EdgeCount expected);

/// What /v1/users says of a uid.
nlohmann::json user(const Daemon& daemon, const std::string& uid);
std::string state_of(const Daemon& daemon, const std::string& uid);

/// Seconds since 1970 of an edge's "at" or "last_seen".
double wall_seconds(const nlohmann::json& edge, const char* field);
/// How long the user of an offline edge was silent, by the edge's own times.
double silence_of(const nlohmann::json& edge);

/// Lets all peers of `swarm` be heard of for the last time in one and the same tick, or two: their
/// packets wait in the sockets of a stopped daemon.
void send_last_packets_together(const Daemon& daemon, Swarm& swarm);

/// Resets all connections at once, and has the users of Swarm::add_users() connect and log in
/// again, without waiting for the answers. False when somebody cannot connect.
[[nodiscard]] bool reset_and_log_in_again(Swarm& swarm, const std::string& prefix,
                                          std::size_t users);

/// Open descriptors of a process whose threads share one table.
std::size_t descriptors_of(pid_t pid);
/// A line such as "VmRSS" of /proc/PID/status, in KiB.
std::size_t memory_kib(pid_t pid, const std::string& line);
/// Whether a process is resident with at most `room_kib` more than `before_kib`. Under a sanitizer
/// always: it keeps for a while what is freed.
bool grew_at_most(pid_t pid, std::size_t before_kib, std::size_t room_kib);

/// Processor time that a process has used, user and system.
std::chrono::milliseconds cpu_time(pid_t pid);

/// The limit of `resource` of a running process, soft and hard.
void limit_running(pid_t pid, int resource, std::uint64_t limit);

}  // namespace pulsewheel::test

// What a soak does to the daemon, and when. Pure: the same seed, the same plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

enum class FaultKind : std::uint8_t {
  kFreeze,      // SIGSTOP, and SIGCONT after `length`
  kResets,      // `amount` percent of the clients are reset at once, and back at once
  kFlood,       // `amount` connections that never log in
  kSlowLogins,  // `amount` connections that send their LOGIN byte by byte
  kGarbage,     // `amount` connections that speak something else
  kOversize,    // `amount` connections that announce more than they may send
  kDeaf,        // `amount` clients that send and never read
  kReload,      // SIGHUP; every second time the file is broken
  kReopen,      // SIGUSR1
  kRotate,      // the event log is renamed, then SIGUSR1
  kStarve,      // no new descriptors for `length`
  kKicks,       // `amount` users are kicked by HTTP
};
inline constexpr std::size_t kFaultKinds = 12;

[[nodiscard]] std::string_view to_string(FaultKind kind) noexcept;

struct Fault {
  Duration at{0};  // from the start of the faults
  FaultKind kind = FaultKind::kFreeze;
  Duration length{0};
  std::uint32_t amount = 0;

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Some faults need the daemon for themselves, since each would take another's excuse for its own:
/// how long `fault` does. 0 for one that may come with any other.
[[nodiscard]] Duration exclusive_time(const Fault& fault) noexcept;

/// Faults of all kinds at random times, over before `run` is. In order of time.
[[nodiscard]] std::vector<Fault> plan_faults(std::uint64_t seed, Duration run,
                                             std::uint32_t connections);

/// One fault of each kind, as large as they come: what the daemon will ever need at once. In order
/// of time.
[[nodiscard]] std::vector<Fault> plan_rehearsal(std::uint32_t connections);

/// When the last of `faults` is over.
[[nodiscard]] Duration end_of(const std::vector<Fault>& faults) noexcept;

// A starved daemon, step by step from the fault's start: first the judges learn that a LOGIN may
// lie unread, then the limit is lowered, for Fault::length; then the daemon has this long to come
// out of its longest pause and accept everybody before the judges rely on it again.
inline constexpr Duration kStarveNotice = std::chrono::milliseconds{200};
inline constexpr Duration kStarveRecovery = std::chrono::milliseconds{2'500};

}  // namespace pulsewheel::sim

// The ring in Redis held against the simulator's record. Pure: no Redis, no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"
#include "tests/client_sim/ring_record.h"

namespace pulsewheel::sim {

/// The largest ring that is read: a user's SETs are a set of bits.
inline constexpr std::size_t kRingSlotsMax = 64;

/// A user as Redis has them.
struct RingEntry {
  static constexpr std::int8_t kNotIndexed = -1;
  static constexpr std::int8_t kUnknownSlot = -2;  // the index names none of the list
  static constexpr std::int64_t kNoDeadline = -1;

  std::int8_t slot = kNotIndexed;          // position in the list of the slot that the index names
  std::uint64_t sets = 0;                  // bit n: in the SET of slot n
  std::int64_t deadline_ms = kNoDeadline;  // unix time; what is no number counts as none

  friend bool operator==(const RingEntry&, const RingEntry&) = default;
};

/// The ring as it was read.
struct RingSnapshot {
  std::size_t slots = 0;         // of the list
  std::vector<RingEntry> users;  // by number
  /// uids with the tag of this run, and of none of its users.
  std::set<std::string> strangers;
};

/// Redis' clock: `unix_ms` was read between two moments of ours.
struct RingClock {
  std::int64_t unix_ms = 0;
  MonoTime before;
  MonoTime after;
};

/// How much later than the simulator Redis may know something. The daemon hands over what changed
/// once per tick.
struct RingRules {
  Duration tick = std::chrono::seconds{1};
  /// What the mirror may take: the 99th percentile that is promised, doubled.
  Duration lag = std::chrono::seconds{2};
  /// For clocks and milliseconds that were rounded.
  Duration slack = std::chrono::milliseconds{250};

  /// A record that is older than this must be in Redis.
  [[nodiscard]] Duration allowance() const noexcept { return tick + lag + slack; }
};

/// One user counts once, by the first that fits.
enum class RingFault : std::uint8_t {
  kUnknownUser,    // the tag of this run, and none of its users
  kLeftBehind,     // certainly offline, and in the index, a SET or the deadlines
  kMissing,        // certainly online, and nowhere
  kNotIndexed,     // in a SET or the deadlines, but not in the index
  kNotInSlot,      // not in the SET that the index names
  kSeveralSlots,   // in more than one SET
  kNoDeadline,     // certainly online, without a deadline
  kWrongSlot,      // in the slot of another deadline than the one in Redis
  kDeadlineEarly,  // ends before T has passed since the last packet
  kDeadlineLate,   // ends later than the last packet allows
};
inline constexpr std::size_t kRingFaults = 10;

/// "left_behind", the key in the report.
[[nodiscard]] std::string_view to_string(RingFault fault) noexcept;

struct DifferentUser {
  std::uint32_t user = 0;
  RingFault fault = RingFault::kMissing;

  friend bool operator==(const DifferentUser&, const DifferentUser&) = default;
};

/// What one comparison found.
struct RingDifferences {
  std::array<std::uint64_t, kRingFaults> by_fault{};
  std::uint64_t online = 0;   // users who were certainly online, and judged
  std::uint64_t offline = 0;  // certainly offline
  std::uint64_t unclear = 0;  // of whom nothing but their slots was judged
  /// Who of the run's users differs, in order: not the strangers.
  std::vector<DifferentUser> users;

  [[nodiscard]] std::uint64_t of(RingFault fault) const noexcept {
    return by_fault[static_cast<std::size_t>(fault)];
  }
  [[nodiscard]] std::uint64_t total() const noexcept;
};

/// Compares what was read from Redis between two records. `before` is older than the reading by
/// RingRules::allowance() at least, `after` is not older than it, and both have all users.
///
/// A user is judged who was certainly online, or certainly offline, in both records without a
/// change between them. The deadline must not be earlier than `before` says, nor later than `after`
/// does, but for the end of the ring: R slots hold deadlines up to R - 2 s ahead. O(users).
[[nodiscard]] RingDifferences compare(const RingRules& rules, const RingSnapshot& ring,
                                      const RingClock& clock, const RingRecord& before,
                                      const RingRecord& after);

}  // namespace pulsewheel::sim

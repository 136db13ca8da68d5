#include "tests/client_sim/ring_check.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "daemon/base/check.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
using Presence = RecordedUser::Presence;

constexpr std::array<std::string_view, kRingFaults> kFaultNames = {
    "unknown_user",  "left_behind", "missing",    "not_indexed",    "not_in_slot",
    "several_slots", "no_deadline", "wrong_slot", "deadline_early", "deadline_late"};

/// One reading of the ring between two records.
class Comparison {
 public:
  Comparison(const RingRules& rules, const RingSnapshot& ring, const RingClock& clock,
             const RingRecord& before, const RingRecord& after)
      : rules_(rules), ring_(ring), clock_(clock), before_(before), after_(after) {}

  /// What is certain of a user from one record to the other.
  [[nodiscard]] Presence presence_of(std::uint32_t user) const noexcept {
    const RecordedUser& then = before_.users[user];
    const RecordedUser& now = after_.users[user];
    const bool changed = then.presence != now.presence || now.since != then.since;
    return changed ? Presence::kUnclear : now.presence;
  }

  [[nodiscard]] std::optional<RingFault> fault_of(std::uint32_t user, Presence presence) const {
    const RingEntry& entry = ring_.users[user];
    const bool in_sets = entry.sets != 0;
    const bool indexed = entry.slot != RingEntry::kNotIndexed;
    if (!indexed && !in_sets && entry.deadline_ms == RingEntry::kNoDeadline) {
      return presence == Presence::kOnline ? std::optional(RingFault::kMissing) : std::nullopt;
    }
    if (presence == Presence::kOffline) return RingFault::kLeftBehind;
    // Each move is atomic: whoever is there at all is there in order.
    if (!indexed) return RingFault::kNotIndexed;
    if (entry.slot < 0 || (entry.sets >> entry.slot & 1) == 0) return RingFault::kNotInSlot;
    if (std::popcount(entry.sets) > 1) return RingFault::kSeveralSlots;
    if (entry.deadline_ms == RingEntry::kNoDeadline) return RingFault::kNoDeadline;
    if (entry.slot != slot_of(entry.deadline_ms)) return RingFault::kWrongSlot;
    return presence == Presence::kOnline ? deadline_fault(user) : std::nullopt;
  }

 private:
  [[nodiscard]] std::int64_t slot_of(std::int64_t deadline_ms) const noexcept {
    return (deadline_ms / 1000 + 1) % static_cast<std::int64_t>(ring_.slots);
  }

  [[nodiscard]] std::optional<RingFault> deadline_fault(std::uint32_t user) const noexcept {
    const RecordedUser& then = before_.users[user];
    const RecordedUser& now = after_.users[user];
    const Duration span = std::chrono::seconds{ring_.slots - 2};
    const Duration ahead =
        std::chrono::milliseconds{ring_.users[user].deadline_ms - clock_.unix_ms};
    // Filed when the packet was read, or later, and at most a span from there. And whoever is
    // online has a deadline ahead.
    const Duration beyond_ring = std::max(then.timeout - span, Duration::zero());
    const MonoTime earliest = std::max(then.deadline_min - beyond_ring, clock_.before);
    if (clock_.after + ahead < earliest - rules_.slack) return RingFault::kDeadlineEarly;
    const MonoTime latest =
        std::min(now.deadline_max + rules_.tick + rules_.lag, after_.taken + span);
    if (clock_.before + ahead > latest + rules_.slack) return RingFault::kDeadlineLate;
    return std::nullopt;
  }

  const RingRules& rules_;
  const RingSnapshot& ring_;
  const RingClock& clock_;
  const RingRecord& before_;
  const RingRecord& after_;
};

}  // namespace

std::string_view to_string(RingFault fault) noexcept {
  return kFaultNames[static_cast<std::size_t>(fault)];
}

std::uint64_t RingDifferences::total() const noexcept {
  return std::accumulate(by_fault.begin(), by_fault.end(), std::uint64_t{0});
}

RingDifferences compare(const RingRules& rules, const RingSnapshot& ring, const RingClock& clock,
                        const RingRecord& before, const RingRecord& after) {
  PULSEWHEEL_CHECK(ring.users.size() == before.users.size() &&
                   ring.users.size() == after.users.size());
  PULSEWHEEL_CHECK(ring.slots > 2 && ring.slots <= kRingSlotsMax);
  const Comparison comparison(rules, ring, clock, before, after);
  RingDifferences found;
  found.by_fault[static_cast<std::size_t>(RingFault::kUnknownUser)] = ring.strangers.size();
  for (std::uint32_t user = 0; user < ring.users.size(); ++user) {
    const Presence presence = comparison.presence_of(user);
    ++(presence == Presence::kOnline    ? found.online
       : presence == Presence::kOffline ? found.offline
                                        : found.unclear);
    const std::optional<RingFault> fault = comparison.fault_of(user, presence);
    if (!fault) continue;
    ++found.by_fault[static_cast<std::size_t>(*fault)];
    found.users.push_back({user, *fault});
  }
  return found;
}

}  // namespace pulsewheel::sim

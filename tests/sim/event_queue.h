// The virtual clock: everything that happens in a simulation, ordered by its time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/base/check.h"
#include "daemon/base/ids.h"
#include "daemon/base/time.h"

namespace pulsewheel::nodesim {

enum class EventKind : std::uint8_t {
  kClientTimer,  // a client does what it had in mind
  kClientHears,  // something from the server reaches a client
  kArrival,      // something from a client reaches the server's machine
  kMail,         // a batch of mail reaches a shard's loop
  kWake,         // a shard's OS timer
  kRound,        // a shard gets a processor: a round of its loop
  kRestOfRound,  // the shard lost it in the middle of the round and has it again
  kCloseSome,    // a shard's pacing of closes
  kRenegotiate,  // a shard's next portion of sessions that get other timeouts
  kDepart,       // a step of a clean stop
  kStart,        // the node starts again
  kStall,        // from here on: what befalls the whole node from outside
  kKick,
  kHold,
  kStorm,
  kReload,
  kRestart,
};

struct Event {
  MonoTime at{};
  std::uint64_t order = 0;  // among those of one moment
  std::uint32_t index = 0;  // of the client, the connection or the shard
  std::uint32_t generation = 0;
  EventKind kind = EventKind::kWake;
  std::uint8_t detail = 0;
  ShardIndex shard = 0;
};

/// A heap of events; time goes on by taking them off. O(log events); no allocation once grown.
class EventQueue {
 public:
  /// What happens at one moment happens in an order that `tie_break`, a random number, decides.
  void push(Event event, std::uint32_t tie_break) {
    event.at = std::max(event.at, now_);
    event.order = std::uint64_t{tie_break} << 32 | ++count_;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  /// Moves the clock to the next event. Requires one.
  Event pop() {
    PULSEWHEEL_CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    now_ = event.at;
    return event;
  }

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] MonoTime now() const noexcept { return now_; }
  /// Requires an event.
  [[nodiscard]] MonoTime next_at() const noexcept { return heap_.front().at; }

  /// When every simulation begins.
  static constexpr MonoTime kStart{std::chrono::hours{1}};

 private:
  static bool later(const Event& a, const Event& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  std::vector<Event> heap_;
  std::uint32_t count_ =
      0;  // wraps: only events of one moment with one tie-break are compared by it
  MonoTime now_ = kStart;
};

}  // namespace pulsewheel::nodesim

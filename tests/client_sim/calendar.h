// Calendar: what a worker's clients have to do next, by time.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

/// A binary heap, on purpose nothing like the daemon's wheel: what one does wrong the other must
/// not repeat. Appointments are never cancelled; the owner ignores those that no longer hold.
template <class Appointment>
class Calendar {
 public:
  /// O(log n).
  void add(MonoTime due, const Appointment& appointment) { heap_.push({due, appointment}); }

  /// Takes the earliest appointment that is due at `now`. O(log n).
  [[nodiscard]] std::optional<Appointment> take_due(MonoTime now) {
    if (heap_.empty() || heap_.top().due > now) return std::nullopt;
    const Appointment appointment = heap_.top().appointment;
    heap_.pop();
    return appointment;
  }

  /// When the earliest appointment is due; MonoTime::max() when there is none.
  [[nodiscard]] MonoTime next_due() const noexcept {
    return heap_.empty() ? MonoTime::max() : heap_.top().due;
  }

 private:
  struct Entry {
    MonoTime due;
    Appointment appointment;
    friend bool operator<(const Entry& a, const Entry& b) noexcept { return a.due > b.due; }
  };
  std::priority_queue<Entry> heap_;
};

}  // namespace pulsewheel::sim

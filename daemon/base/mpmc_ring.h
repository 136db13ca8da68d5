// MpmcRing: a bounded queue between any number of threads, without locks.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "daemon/base/spsc_ring.h"

namespace pulsewheel {

/// Any thread pushes, any thread pops; neither ever waits. Dmitry Vyukov's design: each cell has a
/// sequence number that says whose turn it is. A cell at position p is free for the push number p
/// when its sequence is p, and full for the pop number p when it is p + 1; the pop sets it to
/// p + capacity, the number of the push that uses the cell next.
///
/// A thread that is suspended between taking a position and finishing with the cell makes the ring
/// look empty (or full) at that cell until it goes on: calls then fail, they do not wait. Whoever
/// pushes and then wakes a consumer loses nothing.
template <class T>
class MpmcRing {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  /// Holds at least `capacity_min` elements: rounded up to a power of two, 2 or more.
  explicit MpmcRing(std::size_t capacity_min)
      : mask_(std::bit_ceil(capacity_min < 2 ? std::size_t{2} : capacity_min) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (std::size_t i = 0; i <= mask_; ++i) {
      cells_[i].sequence.store(i, std::memory_order_relaxed);
    }
  }
  /// Destroys what is left. No thread may be in a call.
  ~MpmcRing() {
    while (try_pop()) {
    }
  }
  MpmcRing(const MpmcRing&) = delete;
  MpmcRing& operator=(const MpmcRing&) = delete;

  /// Moves from `value` only on success; false when full. No allocation.
  [[nodiscard]] bool try_push(T& value) noexcept {
    std::size_t position = 0;
    Cell* const cell = take_turn(tail_, 0, position);
    if (cell == nullptr) return false;
    std::construct_at(cell->value(), std::move(value));
    cell->sequence.store(position + 1, std::memory_order_release);
    return true;
  }

  /// nullopt when empty.
  [[nodiscard]] std::optional<T> try_pop() noexcept {
    std::size_t position = 0;
    Cell* const cell = take_turn(head_, 1, position);
    if (cell == nullptr) return std::nullopt;
    std::optional<T> value(std::move(*cell->value()));
    std::destroy_at(cell->value());
    cell->sequence.store(position + mask_ + 1, std::memory_order_release);
    return value;
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

 private:
  struct Cell {
    std::atomic<std::size_t> sequence;
    alignas(T) std::byte storage[sizeof(T)];

    T* value() noexcept { return std::launder(reinterpret_cast<T*>(storage)); }
  };

  /// Takes the next position of `counter` whose cell has the sequence position + `offset`; nullptr
  /// when the cell is not there yet.
  Cell* take_turn(std::atomic<std::size_t>& counter, std::size_t offset,
                  std::size_t& position) noexcept {
    position = counter.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const std::size_t sequence = cell.sequence.load(std::memory_order_acquire);
      const auto ahead = static_cast<std::ptrdiff_t>(sequence - (position + offset));
      if (ahead < 0) return nullptr;
      if (ahead > 0) {  // somebody else took this position
        position = counter.load(std::memory_order_relaxed);
      } else if (counter.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        return &cell;
      }
    }
  }

  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kCacheLineBytes) std::atomic<std::size_t> tail_{0};  // number of the next push
  alignas(kCacheLineBytes) std::atomic<std::size_t> head_{0};  // number of the next pop
};

}  // namespace pulsewheel

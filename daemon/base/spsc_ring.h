// SpscRing: a bounded queue from one thread to another, without locks.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace pulsewheel {

/// Size of what two cores fight over. A constant, not std::hardware_destructive_interference_size:
/// that one changes with compiler flags.
inline constexpr std::size_t kCacheLineBytes = 64;

/// One producer thread, one consumer thread, which may change over time only with a happens-before
/// edge in between. Neither side ever waits. What the producer wrote before try_push() is seen by
/// the consumer after the try_pop() that returns the element.
///
/// Each side owns one index and remembers the last value that it saw of the other's, so that it
/// reads the other's cache line only when the ring looks full (or empty). The indices only grow
/// and wrap with std::size_t; the slot is the index modulo the capacity, a power of two.
///
/// The storage is touched slot by slot: a ring that is never filled costs little resident memory
/// until the indices have gone round once.
template <class T>
class SpscRing {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  /// Holds at least `capacity_min` (>= 1) elements: rounded up to a power of two.
  explicit SpscRing(std::size_t capacity_min)
      : mask_(std::bit_ceil(capacity_min) - 1), slots_(Allocator{}.allocate(mask_ + 1)) {}
  /// Destroys what is left. Neither side may be in a call.
  ~SpscRing() {
    while (try_pop()) {
    }
    Allocator{}.deallocate(slots_, mask_ + 1);
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  /// Producer. Moves from `value` only on success; false when full. O(1), no allocation.
  [[nodiscard]] bool try_push(T& value) noexcept {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ > mask_) return false;
    }
    std::construct_at(slots_ + (tail & mask_), std::move(value));
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Consumer. nullopt when empty. O(1).
  [[nodiscard]] std::optional<T> try_pop() noexcept {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head == tail_seen_) return std::nullopt;
    }
    T* slot = slots_ + (head & mask_);
    std::optional<T> value(std::move(*slot));
    std::destroy_at(slot);
    head_.store(head + 1, std::memory_order_release);
    return value;
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }
  /// Any thread; exact only on a thread for which both sides stand still.
  [[nodiscard]] std::size_t size() const noexcept {
    const std::size_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }

 private:
  using Allocator = std::allocator<T>;

  const std::size_t mask_;
  T* const slots_;

  alignas(kCacheLineBytes) std::atomic<std::size_t> tail_{0};  // written by the producer
  std::size_t head_seen_ = 0;                                  // the producer's
  alignas(kCacheLineBytes) std::atomic<std::size_t> head_{0};  // written by the consumer
  std::size_t tail_seen_ = 0;                                  // the consumer's
};

}  // namespace pulsewheel

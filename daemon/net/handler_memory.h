// HandlerMemory: room for one pending Asio operation inside the object that waits for it.
#pragma once

#include <cstddef>
#include <new>

namespace pulsewheel {

/// Holds one operation at a time; a second one at the same time, or a larger one, goes to the
/// heap. Asio's own recycling keeps two blocks a thread, so a hundred thousand pending reads
/// would be as many mallocs. Not thread-safe: confined like its owner.
template <std::size_t kSize>
class HandlerMemory {
 public:
  HandlerMemory() = default;
  HandlerMemory(const HandlerMemory&) = delete;
  HandlerMemory& operator=(const HandlerMemory&) = delete;

  [[nodiscard]] void* allocate(std::size_t size) {
    if (used_ || size > kSize) return ::operator new(size);
    used_ = true;
    return storage_;
  }
  void deallocate(void* block) noexcept {
    if (block == storage_) {
      used_ = false;
    } else {
      ::operator delete(block);
    }
  }

 private:
  alignas(void*) std::byte storage_[kSize];
  bool used_ = false;
};

/// The allocator by which a handler brings its HandlerMemory along.
template <class T, class Memory>
class HandlerAllocator {
 public:
  using value_type = T;

  explicit HandlerAllocator(Memory& memory) noexcept : memory_(&memory) {}
  template <class U>
  HandlerAllocator(const HandlerAllocator<U, Memory>& other) noexcept  // NOLINT: rebinding
      : memory_(&other.memory()) {}

  [[nodiscard]] T* allocate(std::size_t n) {
    return static_cast<T*>(memory_->allocate(sizeof(T) * n));
  }
  void deallocate(T* block, std::size_t /*n*/) noexcept { memory_->deallocate(block); }
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }

  template <class U>
  struct rebind {
    using other = HandlerAllocator<U, Memory>;
  };
  friend bool operator==(const HandlerAllocator& a, const HandlerAllocator& b) noexcept {
    return a.memory_ == b.memory_;
  }

 private:
  Memory* memory_;
};

}  // namespace pulsewheel

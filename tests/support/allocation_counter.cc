#include "tests/support/allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocation_count = 0;

void* counted(std::size_t size) {
  ++allocation_count;
  if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc{};
}

void* counted(std::size_t size, std::align_val_t alignment) {
  ++allocation_count;
  const auto align = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(align, (size + align - 1) / align * align)) {
    return memory;
  }
  throw std::bad_alloc{};
}

}  // namespace

std::uint64_t pulsewheel::support::allocations() noexcept {
  return allocation_count;
}

// The array and nothrow forms of the standard library call these.
void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, alignment);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

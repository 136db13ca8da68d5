#include "tests/support/allocation_counter.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {

constexpr std::int64_t kBlockHeader = 8;

thread_local std::uint64_t allocation_count = 0;
thread_local std::int64_t bytes_in_use = 0;
thread_local std::uint64_t successes_left = 0;  // before the failures
thread_local std::uint64_t failures_left = 0;
thread_local bool has_failed = false;

void count_attempt() {
  ++allocation_count;
  if (failures_left == 0) return;
  if (successes_left > 0) {
    --successes_left;
    return;
  }
  --failures_left;
  has_failed = true;
  throw std::bad_alloc{};
}

void* count_block(void* memory) {
  if (memory == nullptr) throw std::bad_alloc{};
  bytes_in_use += static_cast<std::int64_t>(malloc_usable_size(memory)) + kBlockHeader;
  return memory;
}

void* counted(std::size_t size) {
  count_attempt();
  return count_block(std::malloc(size != 0 ? size : 1));
}

void* counted(std::size_t size, std::align_val_t alignment) {
  count_attempt();
  const auto align = static_cast<std::size_t>(alignment);
  return count_block(std::aligned_alloc(align, (size + align - 1) / align * align));
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  bytes_in_use -= static_cast<std::int64_t>(malloc_usable_size(memory)) + kBlockHeader;
  std::free(memory);
}

}  // namespace

namespace pulsewheel::support {

std::uint64_t allocations() noexcept {
  return allocation_count;
}

std::int64_t heap_bytes() noexcept {
  return bytes_in_use;
}

FailingAllocations::FailingAllocations(std::uint64_t successes, std::uint64_t failures) noexcept {
  successes_left = successes;
  failures_left = failures;
  has_failed = false;
}

FailingAllocations::~FailingAllocations() {
  failures_left = 0;
}

bool FailingAllocations::has_failed_any() const noexcept {
  return has_failed;
}

}  // namespace pulsewheel::support

// The nothrow forms of the standard library call these. Its array forms do, too, but not those of a
// sanitizer.
void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, alignment);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, alignment);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}

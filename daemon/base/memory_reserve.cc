#include "daemon/base/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace pulsewheel::memory_reserve {
namespace {

/// From malloc, like everything else: what was freed serves a later retake().
std::atomic<void*> reserve{nullptr};
std::atomic<std::size_t> reserve_bytes{0};  // 0: none is held back at all

/// What operator new calls, on any thread, before it would fail.
void give_up() {
  void* const block = reserve.exchange(nullptr);
  if (block == nullptr) throw std::bad_alloc();
  std::free(block);
}

}  // namespace

void hold(std::size_t bytes) {
  void* const block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  reserve_bytes.store(bytes);
  std::free(reserve.exchange(block));
  std::set_new_handler(give_up);
}

bool spent() noexcept {
  return reserve.load(std::memory_order_relaxed) == nullptr &&
         reserve_bytes.load(std::memory_order_relaxed) != 0;
}

bool retake() noexcept {
  if (!spent()) return true;
  void* const block = std::malloc(reserve_bytes.load());
  if (block == nullptr) return false;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, block)) std::free(block);  // another thread was first
  return true;
}

}  // namespace pulsewheel::memory_reserve

#include "daemon/base/wake_flag.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace pulsewheel {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// An absolute deadline on CLOCK_MONOTONIC, which is what FUTEX_WAIT_BITSET takes.
timespec to_timespec(MonoTime deadline) noexcept {
  const auto since_boot = deadline.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((since_boot - seconds).count())};
}

}  // namespace

void WakeFlag::wait() noexcept {
  static_cast<void>(sleep(nullptr));
}

bool WakeFlag::wait_until(MonoTime deadline) noexcept {
  return sleep(&deadline);
}

bool WakeFlag::sleep(const MonoTime* deadline) noexcept {
  constexpr auto acq_rel = std::memory_order_acq_rel;
  std::uint32_t expected = kIdle;
  if (state_.compare_exchange_strong(expected, kAsleep, acq_rel)) {
    timespec until{};
    if (deadline != nullptr) until = to_timespec(*deadline);
    while (state_.load(std::memory_order_relaxed) == kAsleep) {
      const long result =
          ::syscall(SYS_futex, &state_, FUTEX_WAIT_BITSET_PRIVATE, kAsleep,
                    deadline != nullptr ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
      if (result != 0 && errno == ETIMEDOUT) break;
    }
  }
  return state_.exchange(kIdle, acq_rel) == kRaised;
}

void WakeFlag::wake_owner() noexcept {
  ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace pulsewheel

// WakeFlag: one thread sleeps until another has news for it. A futex; no lock, no polling.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/base/time.h"

namespace pulsewheel {

/// One owner waits, any thread raises. Raising twice before the owner looks counts once: the flag
/// says "look again", not how often.
///
/// Why no wake-up is lost and none is needed twice: every step is a read-modify-write of the one
/// word, so all steps have one order. The owner, having found nothing to do, goes kIdle -> kAsleep
/// and sleeps only while the word still says kAsleep (the kernel compares again under its lock).
/// A raise() before that step makes it fail, so the owner does not sleep; a raise() after it finds
/// kAsleep and wakes. And since wait() consumes the flag with an acquiring exchange of what
/// raise() released, everything written before any raise() so consumed is visible to the owner's
/// next look. A raiser calls the kernel only when the owner sleeps.
class WakeFlag {
 public:
  WakeFlag() = default;
  WakeFlag(const WakeFlag&) = delete;
  WakeFlag& operator=(const WakeFlag&) = delete;

  /// Any thread. The flag must outlive the call: a flag that ends with its owner's last wait()
  /// needs shared ownership.
  void raise() noexcept {
    if (state_.exchange(kRaised, std::memory_order_acq_rel) == kAsleep) wake_owner();
  }

  /// Owner. Returns once the flag was raised, and lowers it.
  void wait() noexcept;
  /// Owner. As wait(), but false when `deadline` came first.
  [[nodiscard]] bool wait_until(MonoTime deadline) noexcept;

 private:
  static constexpr std::uint32_t kIdle = 0;    // the owner is awake, no news
  static constexpr std::uint32_t kRaised = 1;  // news
  static constexpr std::uint32_t kAsleep = 2;  // the owner sleeps, or is about to

  bool sleep(const MonoTime* deadline) noexcept;
  void wake_owner() noexcept;

  std::atomic<std::uint32_t> state_{kIdle};
};

}  // namespace pulsewheel

#include "tests/client_sim/run_control.h"

#include <utility>

namespace pulsewheel::sim {

void RunControl::owe_until(MonoTime t) noexcept {
  const std::int64_t ns = t.time_since_epoch().count();
  std::int64_t known = owed_ns_.load(std::memory_order_relaxed);
  while (known < ns && !owed_ns_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
}

void RunControl::fail(int exit_code, std::string why) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = Failure{exit_code, std::move(why)};
}

std::optional<RunControl::Failure> RunControl::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

void RunControl::note_trouble(const std::string& text) {
  const MutexLock lock(mutex_);
  const auto known = troubles_.find(text);
  if (known != troubles_.end()) {
    ++known->second;
  } else if (troubles_.size() < kTroublesMax) {
    troubles_.emplace(text, 1);
  }
}

std::map<std::string, std::uint64_t> RunControl::troubles() const {
  const MutexLock lock(mutex_);
  return troubles_;
}

}  // namespace pulsewheel::sim

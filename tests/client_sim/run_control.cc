#include "tests/client_sim/run_control.h"

#include <utility>

namespace pulsewheel::sim {

void RunControl::owe_until(MonoTime t) noexcept {
  const std::int64_t ns = t.time_since_epoch().count();
  std::int64_t known = owed_ns_.load(std::memory_order_relaxed);
  while (known < ns && !owed_ns_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
}

void RunControl::note_stall_step(MonoTime at) {
  const MutexLock lock(mutex_);
  stall_steps_.push_back(at);
  stall_step_count_.store(stall_steps_.size(), std::memory_order_release);
}

MonoTime RunControl::stall_step(std::size_t number) const {
  const MutexLock lock(mutex_);
  return stall_steps_.at(number);
}

void RunControl::daemon_leaves(MonoTime at) {
  daemon_is_away_.store(true, std::memory_order_release);
  daemon_stops(at);
}

void RunControl::daemon_is_back(const DaemonRestart& restart) {
  daemon_continues(restart.back);
  const MutexLock lock(mutex_);
  restarts_.push_back(restart);
  restart_count_.store(restarts_.size(), std::memory_order_release);
  daemon_is_away_.store(false, std::memory_order_release);
}

DaemonRestart RunControl::restart(std::size_t number) const {
  const MutexLock lock(mutex_);
  return restarts_.at(number);
}

bool RunControl::take_kick_wish() noexcept {
  std::uint32_t wanted = kicks_wanted_.load(std::memory_order_relaxed);
  while (wanted > 0) {
    if (kicks_wanted_.compare_exchange_weak(wanted, wanted - 1, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void RunControl::offer_kick(std::string_view uid) {
  const MutexLock lock(mutex_);
  kick_offers_.emplace_back(uid);
}

std::optional<std::string> RunControl::take_kick_offer() {
  const MutexLock lock(mutex_);
  if (kick_offers_.empty()) return std::nullopt;
  std::string uid = std::move(kick_offers_.back());
  kick_offers_.pop_back();
  return uid;
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

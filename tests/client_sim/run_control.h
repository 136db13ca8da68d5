// RunControl: what the main thread tells the workers, and what they tell it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/base/mutex.h"
#include "daemon/base/time.h"

namespace pulsewheel::sim {

enum class Phase : std::uint8_t {
  kRamp,     // clients connect
  kSteady,   // all are logged in: habits and churn begin
  kSilence,  // one last keepalive from everybody, then nothing more
  kEnd,      // nothing more is judged; threads finish
};

/// Shared by all threads of the simulator; every member function may be called on any.
class RunControl {
 public:
  [[nodiscard]] Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  /// Main thread. `at` is when the phase began: for kEnd, until when is judged.
  void enter(Phase phase, MonoTime at) noexcept {
    began_ns_.store(at.time_since_epoch().count(), std::memory_order_relaxed);
    phase_.store(phase, std::memory_order_release);
  }
  /// When the current phase began. Call after phase().
  [[nodiscard]] MonoTime phase_began() const noexcept {
    return MonoTime{Duration{began_ns_.load(std::memory_order_relaxed)}};
  }

  /// An edge may be seen until `t`: the run should not end earlier.
  void owe_until(MonoTime t) noexcept;
  [[nodiscard]] MonoTime owed_until() const noexcept {
    return MonoTime{Duration{owed_ns_.load(std::memory_order_relaxed)}};
  }

  struct Failure {
    int exit_code = 0;
    std::string why;
  };
  /// The run cannot go on. The first failure stays.
  void fail(int exit_code, std::string why);
  [[nodiscard]] std::optional<Failure> failure() const;

  /// Something that should not happen but does not end the run: counted by its text, of which at
  /// most kTroublesMax different ones are kept.
  void note_trouble(const std::string& text);
  [[nodiscard]] std::map<std::string, std::uint64_t> troubles() const;

 private:
  static constexpr std::size_t kTroublesMax = 16;

  std::atomic<Phase> phase_{Phase::kRamp};
  std::atomic<std::int64_t> began_ns_{0};
  std::atomic<std::int64_t> owed_ns_{0};
  mutable Mutex mutex_;
  std::optional<Failure> failure_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> troubles_ PULSEWHEEL_GUARDED_BY(mutex_);
};

}  // namespace pulsewheel::sim

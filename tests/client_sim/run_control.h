// RunControl: what the main thread tells the workers, and what they tell it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/mutex.h"
#include "daemon/base/time.h"
#include "tests/client_sim/daemon_restart.h"

namespace pulsewheel::sim {

enum class Phase : std::uint8_t {
  kRamp,     // clients connect
  kSteady,   // all are logged in: habits and churn begin
  kSilence,  // one last keepalive from everybody, then nothing more
  kLeave,    // everybody leaves for good: by logout, by closing, by silence
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

  /// The daemon is about to be stopped, or to run again: call before the signal.
  void daemon_stops(MonoTime at) { note_stall_step(at); }
  void daemon_continues(MonoTime at) { note_stall_step(at); }
  /// All stops and continuations, in turns.
  [[nodiscard]] std::size_t stall_steps() const noexcept {
    return stall_step_count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] MonoTime stall_step(std::size_t number) const;

  /// The daemon is about to be ended, to be started again: call before the signal. Until it is back
  /// it counts as stopped.
  void daemon_leaves(MonoTime at);
  void daemon_is_back(const DaemonRestart& restart);
  [[nodiscard]] bool daemon_is_away() const noexcept {
    return daemon_is_away_.load(std::memory_order_acquire);
  }
  /// All restarts that are over.
  [[nodiscard]] std::size_t restarts() const noexcept {
    return restart_count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] DaemonRestart restart(std::size_t number) const;

  /// Each worker cuts this share of its connections, which come back at once. A worker that has not
  /// heard of one cut yet when the next is asked for makes that one only.
  void cut(double percent) noexcept {
    cut_percent_.store(percent, std::memory_order_relaxed);
    cuts_.fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t cuts() const noexcept {
    return cuts_.load(std::memory_order_acquire);
  }
  [[nodiscard]] double cut_percent() const noexcept {
    return cut_percent_.load(std::memory_order_relaxed);
  }

  /// Whether logins may be left unread: see Judge::doubt_logins().
  void doubt_logins(bool doubted) noexcept {
    logins_doubted_.store(doubted, std::memory_order_release);
  }
  [[nodiscard]] bool logins_doubted() const noexcept {
    return logins_doubted_.load(std::memory_order_acquire);
  }

  /// Asks for a user to kick. Some worker finds one who can be, and offers the uid.
  void want_kick() noexcept { kicks_wanted_.fetch_add(1, std::memory_order_relaxed); }
  /// A worker takes one wish; false when there is none.
  [[nodiscard]] bool take_kick_wish() noexcept;
  void offer_kick(std::string_view uid);
  [[nodiscard]] std::optional<std::string> take_kick_offer();

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

  void note_stall_step(MonoTime at);

  std::atomic<Phase> phase_{Phase::kRamp};
  std::atomic<std::int64_t> began_ns_{0};
  std::atomic<std::int64_t> owed_ns_{0};
  std::atomic<std::size_t> stall_step_count_{0};
  std::atomic<bool> daemon_is_away_{false};
  std::atomic<std::size_t> restart_count_{0};
  std::atomic<std::uint32_t> cuts_{0};
  std::atomic<double> cut_percent_{0};
  std::atomic<bool> logins_doubted_{false};
  std::atomic<std::uint32_t> kicks_wanted_{0};
  mutable Mutex mutex_;
  std::vector<MonoTime> stall_steps_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::vector<DaemonRestart> restarts_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::vector<std::string> kick_offers_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> troubles_ PULSEWHEEL_GUARDED_BY(mutex_);
};

}  // namespace pulsewheel::sim

// FaultDriver: carries a plan of faults out, and undoes what it did.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/client_sim/calendar.h"
#include "tests/client_sim/connection.h"
#include "tests/client_sim/daemon_freeze.h"
#include "tests/client_sim/run_control.h"
#include "tests/client_sim/soak/faults.h"
#include "tests/client_sim/soak/strangers.h"

namespace pulsewheel::sim {

/// Belongs to one thread. Everything passed in outlives it.
class FaultDriver {
 public:
  struct Setup {
    pid_t daemon = -1;
    const Endpoint* target = nullptr;
    std::string http;                   // HOST:PORT
    std::filesystem::path config_file;  // for reloads; the daemon runs with an empty one
    std::filesystem::path event_log;    // for rotation
    std::uint64_t seed = 0;
    bool verbose = false;  // a line on stderr for each fault
  };

  FaultDriver(Setup setup, std::vector<Fault> plan, RunControl& control, MonoTime began);
  /// finish().
  ~FaultDriver();
  FaultDriver(const FaultDriver&) = delete;
  FaultDriver& operator=(const FaultDriver&) = delete;

  /// Does what is due. Every few milliseconds; blocks only for the answers to kicks.
  void step(MonoTime now);
  /// Every fault is over, and no stranger is connected.
  [[nodiscard]] bool is_over() const noexcept;
  /// Lets the daemon run, with its limits and its file of before; strangers go.
  void finish() noexcept;

  struct Counts {
    std::array<std::uint64_t, kFaultKinds> begun{};
    std::uint64_t kicks = 0;          // that the daemon carried out
    std::uint64_t kicks_refused = 0;  // "not online", or no answer
    std::uint64_t unclosed = 0;       // strangers whom the daemon should have closed
    std::uint64_t left_out = 0;       // faults that this daemon or system does not take
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  enum class Action : std::uint8_t { kBegin, kEndFreeze, kStarve, kFeed, kTrust };
  struct Step {
    Action action = Action::kBegin;
    std::size_t fault = 0;
  };

  void announce(const Fault& fault) const;
  void act(const Step& step, MonoTime now);
  void begin(const Fault& fault, std::size_t number, MonoTime now);
  void reload();
  void rotate();
  void signal(int number);
  void starve();
  void feed() noexcept;
  void send_kicks();
  void look_after_strangers(MonoTime now);

  Setup setup_;
  std::vector<Fault> plan_;
  RunControl& control_;
  DaemonFreeze freeze_;
  Calendar<Step> calendar_;
  std::vector<Strangers> strangers_;
  rlimit limit_{};  // while starving_: the daemon's own
  bool starving_ = false;
  std::uint32_t rotations_ = 0;
  bool break_file_ = false;  // at the next reload
  Counts counts_;
};

/// Whether the process does something else on `signal` than to die of it.
[[nodiscard]] bool handles_signal(pid_t process, int signal);

}  // namespace pulsewheel::sim

// Fleet: all workers of a run and their threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/client_sim/connection.h"
#include "tests/client_sim/progress.h"
#include "tests/client_sim/run_control.h"
#include "tests/client_sim/uid_names.h"
#include "tests/client_sim/worker.h"

namespace pulsewheel::sim {

/// Belongs to the main thread.
class Fleet {
 public:
  /// Spreads the clients over threads, as many as descriptor tables and CPUs ask for. Throws
  /// UsageError when the descriptor limit is too low for any. What is passed in must outlive it.
  Fleet(const Options& options, const JudgeRules& rules, const Endpoint& target,
        const UidNames& names, RunControl& control);
  /// Ends the run for threads that still go on.
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  /// Each thread takes a descriptor table of its own and begins to connect.
  void start();
  /// Waits for the threads; control is in Phase::kEnd.
  void join();

  // Of all workers, in the order of their users.
  [[nodiscard]] std::vector<EdgeInbox*> inboxes();
  [[nodiscard]] std::vector<RecordDesk*> desks();
  [[nodiscard]] std::uint32_t users_per_worker() const noexcept { return users_per_worker_; }

  /// Sums over all workers.
  struct Totals {
    ProgressFigures progress;
    std::uint64_t first_logins = 0;
    std::uint64_t refusals = 0;
    std::uint64_t unexpected_closes = 0;
    std::uint64_t keepalive_acks = 0;
    std::uint64_t messages = 0;
    MonoTime last_first_login;
    std::array<std::uint64_t, kChurnActs> churned{};
    std::uint64_t cut = 0;
    std::uint64_t back = 0;       // of those that were cut
    std::uint64_t back_late = 0;  // after join() complete: those who never came are among them
    Duration slowest_back{0};
  };
  [[nodiscard]] Totals totals() const;
  /// After join().
  [[nodiscard]] Verdict verdict() const;

 private:
  void run_worker(Worker& worker, std::size_t number);

  RunControl& control_;
  std::uint32_t users_per_worker_ = 1;
  bool tables_needed_ = false;  // one table does not hold all connections
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
};

}  // namespace pulsewheel::sim

// RingVerifier: compares the ring in Redis with the workers' record, now and then and at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/client_sim/redis_ring.h"
#include "tests/client_sim/ring_check.h"
#include "tests/client_sim/ring_record.h"
#include "tests/client_sim/run_control.h"

namespace pulsewheel::sim {

/// What --verify-redis found.
struct RingFigures {
  /// At the end; nullopt: the ring could not be read, or the daemon stood still.
  std::optional<RingDifferences> at_end;
  /// From the end of the run to the reading of `at_end`. The first one is allowed to differ, and
  /// comes after RingRules::allowance().
  double settled_seconds = 0;
  std::vector<std::string> examples;  // of `at_end`: "UID: KIND"

  // While the run went on.
  std::uint64_t checks = 0;            // that were finished
  std::uint64_t failed_checks = 0;     // Redis did not answer
  std::uint64_t differing_checks = 0;  // of `checks`
  std::uint64_t differences_max = 0;   // in one of them
  double slowest_seconds = 0;          // to read and compare, at the end too

  [[nodiscard]] bool equal() const noexcept { return at_end && at_end->total() == 0; }
};

/// Belongs to the main thread, and has one of its own for all that waits for Redis.
class RingVerifier {
 public:
  struct Setup {
    RedisAddress address;
    RingKeys keys;
    RingRules rules;
    std::vector<RecordDesk*> desks;  // of all workers, in the order of their users
    const UidNames* names = nullptr;
    std::uint32_t users = 0;
  };

  /// What is passed in must outlive it.
  RingVerifier(Setup setup, RunControl& control);
  /// Ends the thread, within RedisRing::kTimeout or so.
  ~RingVerifier();
  RingVerifier(const RingVerifier&) = delete;
  RingVerifier& operator=(const RingVerifier&) = delete;

  /// Starts the thread, which fails the run when there is no Redis. It compares every
  /// kCheckInterval while the run is in Phase::kSteady or a later one.
  void start();
  /// The run is over, and the workers still answer. Compares until nothing differs, for
  /// kSettleLimit and one comparison at most, and returns what the last one found. Call once,
  /// behind start().
  [[nodiscard]] RingFigures settle();

  static constexpr std::chrono::seconds kCheckInterval{10};
  static constexpr std::chrono::seconds kSettleLimit{10};
  static constexpr std::size_t kExamplesMax = 5;

 private:
  enum class Wish : std::uint8_t { kCheck, kSettle, kStop };

  void run();
  void check_now_and_then();
  void compare_until_equal();
  /// nullopt: it could not be done, or was interrupted.
  [[nodiscard]] std::optional<RingDifferences> compare_once();
  [[nodiscard]] std::optional<RingRecord> take_record();
  [[nodiscard]] std::optional<RingDifferences> read_and_compare(const RingRecord& before);
  void note_examples(const RingDifferences& found);
  /// Waits until `until`, or until something else than `wish` is wanted: then false.
  [[nodiscard]] bool wait_until(MonoTime until, Wish wish);

  Setup setup_;
  RunControl& control_;
  RedisRing ring_;       // the thread's
  RingFigures figures_;  // the thread's, until it has ended
  std::mutex mutex_;
  std::condition_variable wished_;
  Wish wish_ = Wish::kCheck;  // under mutex_
  std::thread thread_;
};

}  // namespace pulsewheel::sim

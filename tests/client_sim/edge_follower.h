// EdgeFollower: reads the daemon's event log as it grows and hands each user's edges on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/time.h"
#include "tests/client_sim/edge_inbox.h"
#include "tests/client_sim/edge_line.h"
#include "tests/client_sim/followed_file.h"
#include "tests/client_sim/uid_names.h"

namespace pulsewheel::sim {

/// Follows one file, or two (online and offline edges apart), in a thread of its own. An edge is
/// seen at the time of the read that brought its line. inotify wakes the thread, so that an idle
/// log costs nothing; without inotify it looks every few milliseconds.
class EdgeFollower {
 public:
  struct Setup {
    std::vector<std::string> paths;
    bool from_start = false;  // of a file that is there already; else only what is added
    const UidNames* names = nullptr;
    std::vector<EdgeInbox*> inboxes;    // one per worker
    std::uint32_t users_per_inbox = 1;  // user u belongs to inbox u / users_per_inbox
  };

  /// Starts the thread. Throws std::system_error when a file is there but cannot be opened.
  explicit EdgeFollower(Setup setup);
  /// Stops and joins it.
  ~EdgeFollower();
  EdgeFollower(const EdgeFollower&) = delete;
  EdgeFollower& operator=(const EdgeFollower&) = delete;

  // What follows may be called on any thread.

  /// All that was in the files at this time has been handed on.
  [[nodiscard]] MonoTime caught_up() const noexcept {
    return MonoTime{Duration{caught_up_ns_.load(std::memory_order_acquire)}};
  }

  struct Stats {
    Counter edges;       // of this run's users
    Counter foreign;     // of others
    Counter dropped;     // that the daemon says it could not write
    Counter unreadable;  // lines of no known kind
    Counter reordered;   // (epoch, seq) not above the one before
    Counter skipped;     // numbers that no edge had; those of dropped edges are among them
    Counter continued;   // new epochs whose numbers go on where the one before has stopped
    Counter restarted;   // new epochs that begin with 1
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  /// An edge that waits for those of the other file that come before it.
  struct Pending {
    std::uint64_t epoch;
    std::uint64_t seq;
    std::uint32_t user;
    ObservedEdge edge;
    bool is_ours;
  };

  void run();
  void wait_for_change() noexcept;
  void read_round();
  void on_line(std::string_view line, MonoTime seen_at);
  void note_new_epoch(std::uint64_t seq);
  void hand_on(const Pending& pending);

  Setup setup_;
  std::vector<std::unique_ptr<FollowedFile>> files_;
  std::vector<Pending> pending_;
  std::vector<std::vector<UserEdge>> batches_;
  std::string scratch_;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t last_seq_ = 0;
  int inotify_ = -1;
  bool woken_ = true;  // by inotify, for every file
  std::atomic<std::int64_t> caught_up_ns_{0};
  std::atomic<bool> stopping_{false};
  Stats stats_;
  std::thread thread_;
};

}  // namespace pulsewheel::sim

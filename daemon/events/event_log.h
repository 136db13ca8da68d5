// EventLog: the edges as JSON Lines on disk, written by a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/line_file.h"
#include "daemon/base/time.h"
#include "daemon/events/sequencer.h"

namespace pulsewheel {

/// Writes one line per edge (wrapped here):
///
///     {"seq":12,"epoch":3,"uid":"alice","kind":"offline","reason":"timeout",
///      "at":"2026-01-02T03:04:05.678901Z","last_seen":"2026-01-02T03:03:35.000001Z","sessions":0}
///
/// uids are percent-encoded; times are UTC with microseconds, mapped from the monotonic clock when
/// the edges were handed over. Where edges are missing, the next line is preceded by one that says
/// so: `{"gap":true,"dropped":2,"first_seq":10,"last_seq":11}`.
///
/// The sink calls never block and never fail: while the disk is slow, full or stuck, edges wait in
/// a bounded queue, and what does not fit is dropped, counted, and told by such a line once writing
/// works again, which is tried by itself. What waits together is written together, and only whole
/// lines: a failed write never leaves half a line behind. Sleeps while there is nothing to do.
///
/// With two files each has its own queue and thread ("pw-events", "pw-events-off"), so that one
/// full disk does not hold up the other file.
class EventLog final : public EdgeSink {
 public:
  struct Options {
    std::string path;          // both kinds, unless the next one is set; empty: no log at all
    std::string offline_path;  // offline edges go here instead, when set
    std::uint64_t rotate_bytes = 256ULL << 20;  // a file that reaches this becomes .1; 0: never
    std::uint32_t rotate_keep = 4;              // how many of .1, .2, ... stay
    /// Edges waiting per file, about 100 B each: a stuck disk costs at most 100 MB.
    std::size_t queue_edges_max = 1'000'000;
    /// The destructor's patience.
    Duration stop_within = std::chrono::seconds{1};
    FileCalls calls;  // what tests replace
  };

  /// Opens the files and starts the threads. Throws std::system_error that names the path and
  /// what failed. A named pipe without a reader is no error: it is opened when one comes.
  explicit EventLog(const Options& options);
  /// Writes what is queued and stops the threads, both for `stop_within` at most: what a stuck
  /// file has not taken by then is lost, and a thread that hangs in it is left behind.
  /// The sequencer must have stopped.
  ~EventLog() override;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void on_edges(const SequencedBatch& batch) override;
  void on_gap(const SequenceGap& gap) override;

  /// Closes and opens the files again under their names (log rotation from outside). Any thread;
  /// never blocks: the log's own threads do it. A file that cannot be opened leaves the old one in
  /// use.
  void reopen() noexcept;

  /// Options::rotate_bytes and rotate_keep are these from the next write on. Any thread; never
  /// blocks for long.
  void set_rotation(std::uint64_t bytes, std::uint32_t keep);

  struct Stats {
    std::uint64_t written = 0;  // edges
    std::uint64_t dropped = 0;  // edges, by this log or told to it as a gap
    std::uint64_t errors = 0;   // failed attempts to open, write or rotate
    std::uint64_t queued = 0;   // edges
  };
  [[nodiscard]] Stats stats() const noexcept;  // any thread; sums over the files

 private:
  class Writer;

  const Duration stop_within_;
  std::vector<std::shared_ptr<Writer>> writers_;  // 0, 1 or 2
};

}  // namespace pulsewheel

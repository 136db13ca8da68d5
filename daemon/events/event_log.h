// EventLog: the edges as JSON Lines on disk, written by a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/core/edge.h"

namespace pulsewheel {

/// An edge with the place that the sequencer gave it.
struct SequencedEdge {
  Edge edge;  // the uid points into the batch that holds it
  std::uint64_t epoch = 0;
  std::uint64_t seq = 0;
};

/// Writes `{"seq":..,"epoch":..,"uid":"..","kind":"..","reason":"..","at":"..","last_seen":"..",
/// "sessions":n}` lines. uids are percent-encoded; times are RFC 3339 in UTC with microseconds.
///
/// append() is called by the sequencer's thread only, never blocks and never fails: while the
/// disk is slow, full or stuck, batches wait in a bounded queue, and what does not fit is dropped
/// and counted. Each batch is written with one write; a failed write is retried once the file can be
/// opened again, and never leaves half a line before a whole one.
class EventLog {
 public:
  struct Options {
    std::string path;          // both kinds, unless the next one is set; empty: no log at all
    std::string offline_path;  // offline edges go here instead, when set
    std::uint64_t rotate_bytes = 256ULL << 20;  // a file that passes this is renamed to .1, .2...
    std::uint32_t rotate_keep = 4;              // how many renamed ones stay
    std::size_t queue_edges_max = 1'000'000;
  };

  /// Opens the files. Throws std::runtime_error that names the path and what failed.
  explicit EventLog(const Options& options);
  /// Writes what is queued, for at most a second, and stops the thread.
  ~EventLog();

  /// `first_seq` belongs to the batch's first edge, the others follow. Takes the batch.
  void append(EdgeBatch&& batch, std::uint64_t epoch, std::uint64_t first_seq);

  /// Closes and opens the files again under their names (log rotation from outside). Any thread;
  /// never blocks; done by the log's own thread.
  void reopen() noexcept;

  struct Stats {
    std::uint64_t written = 0, dropped = 0, errors = 0, queued = 0;
  };
  [[nodiscard]] Stats stats() const noexcept;  // any thread

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pulsewheel

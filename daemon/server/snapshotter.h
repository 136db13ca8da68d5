// Snapshotter: the thread that writes the users down, so that a restart is no flicker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/service_thread.h"
#include "daemon/base/time.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/sequencer.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// Read by any thread; written by the one named, else by the snapshotter's.
struct SnapshotCounters {
  Counter written;
  Counter failures;
  Gauge written_at_ns;     // of the last one, as a MonoTime; 0: none yet
  Gauge duration_ns;       // of the last one
  Gauge bytes;             // of the last one
  Gauge users;             // in the last one, online and offline
  Gauge restored_online;   // main: from a snapshot, at the start
  Gauge restored_offline;  // main
};

/// Every Options::interval, if anything has happened since the last one, and at the end of the node
/// it writes all users into the file `snapshot` of the state folder, whole or not at all.
///
/// What is in a periodic snapshot. The shards are asked one after the other, for a part of their
/// users at a time (kSlotsPerPart), and then for what the live sessions among these know; nothing
/// stops for it. So each user stands there as it was at some moment between the begin and the end
/// of the collection (a second at a million users), and a user whose session ends between the two
/// looks is looked at again. Missing is whoever came after its slot was read. Behind a crash that
/// is harmless, as it is with everything that happens between the last snapshot and the crash: the
/// edges of what is not in the snapshot are made again, in a new epoch, or are missing for those
/// who neither were in it nor come back, and for restart.grace nobody of whom nothing is known is
/// called offline.
///
/// The last one is taken when no shard runs any more: it is exact.
///
/// It sleeps while no client is connected and nothing has happened since the last snapshot.
///
/// Life: construct, start(), and at the end of the node leave() while the shards run, write_last()
/// when they have stopped. The main thread's, but for what says otherwise.
class Snapshotter final : public EdgeSink {
 public:
  struct Options {
    std::string state_dir;
    FolderId folder{};
    std::uint32_t epoch = 1;
    Duration interval{0};  // 0: at the end only
  };

  /// `shards` and `sequencer` outlive it.
  Snapshotter(const Options& options, std::vector<Shard*> shards, const Sequencer& sequencer);
  /// end().
  ~Snapshotter() override;

  /// Starts the thread "pw-snapshot". Call once.
  void start();
  void set_interval(Duration interval);

  /// Any thread: a client has come where there was none.
  void note_client() noexcept;
  // EdgeSink.
  void on_edges(const SequencedBatch& batch) override;
  void on_gap(const SequenceGap& gap) override;

  /// From now on no shard is asked. A snapshot under way is given up.
  void leave() noexcept;

  enum class Last : std::uint8_t {
    kWritten,      // all users are in it
    kOlderServes,  // it could not be written, and one from before lies there: as behind a crash
    kNone,         // it could not be written, and there is none
  };
  /// Writes the last one, and ends the thread. Requires leave(), and that all shards have stopped
  /// after Shard::end_sessions(). Waits for the disk, for kLastLimit at most.
  [[nodiscard]] Last write_last();

  /// Ends the thread, which writes nothing more. Idempotent.
  void end();

  [[nodiscard]] const SnapshotCounters& counters() const noexcept;  // any thread
  /// For what is restored at the start.
  [[nodiscard]] SnapshotCounters& counters() noexcept;

  /// User slots asked of a shard at a time: 50 us of its thread.
  static constexpr std::size_t kSlotsPerPart = 512;
  /// How often a part is looked at whose sessions keep ending meanwhile. Then a session that has
  /// ended stands there as at its login.
  static constexpr int kLooksMax = 4;
  /// How long a disk may take for the last snapshot. One that takes longer is given up: the thread
  /// is left to itself.
  static constexpr Duration kLastLimit = std::chrono::seconds{30};

 private:
  class Writer;

  const std::shared_ptr<Writer> writer_;  // the thread's too: it may hang
  ServiceThread thread_;
};

}  // namespace pulsewheel

// EpochStore: the node's epoch, a counter of its starts, kept in the state folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/events/state_file.h"

namespace pulsewheel {

/// Names a state folder for as long as it lasts, so that what was copied in from another node's is
/// told from its own.
using FolderId = std::array<std::byte, 16>;

/// Holds the state folder for one daemon and gives it an epoch that no earlier start had, whatever
/// the wall clock did. Made once at start, before anything else uses the folder, and kept until the
/// end: two daemons must never share a folder, and the lock lasts as long as the object (or the
/// process: the kernel drops it with the last descriptor).
///
/// Files: `lock` (flocked, empty), `id` (32 hexadecimal digits and a newline), `epoch` (the number
/// and a newline) and, behind a run that ended in order, `ended` (the epoch of that run and a
/// newline). A run that was killed leaves an `ended` of an earlier epoch, or none.
class EpochStore {
 public:
  /// Epochs take 24 bits of a session id: at one start a minute, 31 years.
  static constexpr std::uint32_t kEpochMax = (1U << 24) - 1;

  /// Makes `state_dir` (mode 0750, parents too) if it is missing, locks it, reads the epoch (0
  /// when there is none yet), and stores the next one: it is on disk when the constructor returns.
  /// Blocks on the disk. Throws StateError: the folder cannot be made or written, another daemon
  /// holds it, or `epoch` is damaged or used up. Never guesses: an epoch that went back would make
  /// old news look new.
  explicit EpochStore(std::string state_dir);
  ~EpochStore();
  EpochStore(const EpochStore&) = delete;
  EpochStore& operator=(const EpochStore&) = delete;

  /// 1 at the first start.
  [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }
  /// Whether there was a run before this one that did not end in order, as far as the folder tells.
  [[nodiscard]] bool after_crash() const noexcept { return after_crash_; }
  /// Random, made with the folder. A damaged one is replaced: what it named is then foreign.
  [[nodiscard]] const FolderId& folder_id() const noexcept { return folder_id_; }
  /// Says that this run ends in order: whoever was online has been told to be offline, or stands in
  /// a snapshot. Blocks on the disk. Throws StateError; then the next start takes this run for one
  /// that crashed.
  void mark_end();

  [[nodiscard]] const std::string& state_dir() const noexcept { return state_dir_; }

 private:
  const std::string state_dir_;
  int lock_fd_ = -1;
  std::uint32_t epoch_ = 0;
  FolderId folder_id_{};
  bool after_crash_ = false;
};

}  // namespace pulsewheel

// The snapshot file of a state folder: found, checked, read, set aside.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/base/time.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/snapshot_format.h"

namespace pulsewheel {

inline constexpr char kSnapshotName[] = "snapshot";

/// What an earlier run left in the state folder, which an EpochStore holds. Blocks on the disk. One
/// thread.
class SnapshotFile {
 public:
  enum class State : std::uint8_t {
    kNone,   // there is no file
    kGood,   // it is whole, and of this folder
    kUnfit,  // problem() says why it is not to be used
  };

  /// Looks for the file and reads it from its first to its last byte. Removes what a run that was
  /// killed while writing has left. `epoch`: of this run; a greater or equal one in the file is not
  /// of this folder's past.
  SnapshotFile(std::string state_dir, const FolderId& folder, std::uint32_t epoch);

  [[nodiscard]] State state() const noexcept { return state_; }
  /// With kUnfit: one line for people.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  // With kGood.
  [[nodiscard]] const SnapshotHead& head() const noexcept { return head_; }
  [[nodiscard]] const SnapshotEnd& end() const noexcept { return end_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Reads it again, and hands the users over by blocks, in times counted from `reference`, which
  /// stands for the moment of the head. Throws StateError where it is another file by now.
  void read(MonoTime reference, const std::function<void(const UserImageBatch&)>& on_users) const;

  /// Renames the file to `<name>.bad`, in place of an older one: somebody may want to look at it,
  /// and nothing is to read it again. Returns what was done, as half a sentence.
  std::string set_aside();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// A longer file is not read: about 200 million users.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{8} << 30;

 private:
  void check(const FolderId& folder, std::uint32_t epoch);

  const std::string state_dir_;
  const std::string path_;
  State state_ = State::kNone;
  std::string problem_;
  SnapshotHead head_;
  SnapshotEnd end_;
  std::uint64_t bytes_ = 0;
};

/// Removes the snapshot of a state folder, for good. False, and nothing is done, where there is
/// none. Throws StateError.
bool remove_snapshot(const std::string& state_dir);

}  // namespace pulsewheel

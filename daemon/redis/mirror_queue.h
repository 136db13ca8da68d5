// MirrorQueue: what Redis has yet to be told, in order, one change per user where that is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/core/edge.h"

namespace pulsewheel {

/// One thing that Redis has to be told of one user.
struct MirrorChange {
  enum class Kind : std::uint8_t {
    kMove,    // online as before, until another deadline; no edge
    kAdd,     // came online
    kRemove,  // went offline
  };

  std::string uid;
  Kind kind = Kind::kMove;
  EdgeReason reason = EdgeReason::kLogin;  // of kAdd and kRemove
  MonoTime deadline;                       // of kMove and kAdd
  MonoTime handed_over;                    // when the shards let go of the first news in it
};

/// A FIFO in which the newest news of a user takes the place of what it makes needless: a later
/// deadline that of an earlier one, an end that of a deadline. Edges never replace each other: a
/// login and a logout behind it stay two changes, in their order. Pure; one thread. What is full
/// takes no more: whoever is refused repairs later.
class MirrorQueue {
 public:
  struct Options {
    std::size_t changes_max = 1'000'000;  // a change of every user at full stretch
    std::size_t bytes_max = 256 << 20;    // of them, with uids of 16 bytes twice that many
  };

  explicit MirrorQueue(const Options& options);

  // Each of these is false when the queue is full: the news is not in it. O(1).

  /// Online until `deadline` as far as is known; the exact one may follow as a move.
  [[nodiscard]] bool add(std::string_view uid, EdgeReason reason, MonoTime deadline,
                         MonoTime handed_over);
  [[nodiscard]] bool move(std::string_view uid, MonoTime deadline, MonoTime handed_over);
  [[nodiscard]] bool remove(std::string_view uid, EdgeReason reason, MonoTime handed_over);

  /// Takes off the oldest changes, at most `changes_max` and no two of one user: so they can be
  /// carried out in any order, and given back one by one. O(changes_max).
  [[nodiscard]] std::vector<MirrorChange> take(std::size_t changes_max);

  /// Puts a change that was taken, and not carried out, before all others. It is let in beyond the
  /// bounds: it was counted before.
  void give_back(MirrorChange&& change);

  /// Whether something waits for this user.
  [[nodiscard]] bool holds(std::string_view uid) const { return last_.contains(uid); }
  [[nodiscard]] bool empty() const noexcept { return changes_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return changes_.size(); }
  /// Changes that it can still take, whatever their uids.
  [[nodiscard]] std::size_t room() const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// What take() looks at, in changes for each that it may take: those of users who are in the
  /// batch already are passed over.
  static constexpr std::size_t kLooksPerChange = 4;

 private:
  using Changes = std::list<MirrorChange>;

  [[nodiscard]] static std::size_t bytes_of(std::string_view uid) noexcept;
  [[nodiscard]] MirrorChange* last_of(std::string_view uid) noexcept;
  [[nodiscard]] bool append(MirrorChange&& change);

  const Options options_;
  Changes changes_;                                               // oldest first
  std::unordered_map<std::string_view, Changes::iterator> last_;  // by the uid in the change itself
  std::size_t bytes_ = 0;
};

}  // namespace pulsewheel

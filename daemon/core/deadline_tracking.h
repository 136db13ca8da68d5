// DeadlineTracking: whose deadline may be another than a mirror was last told. Part of
// PresenceRegistry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/core/user_table.h"

namespace pulsewheel {

/// Keeps by slot what was last told of each user, and the changes since then in the order in which
/// they came. A user who changes again before that is told stands in line once.
///
/// Confined to the registry's thread. Switched off it keeps nothing, and nothing here has an
/// effect.
class DeadlineTracking {
 public:
  explicit DeadlineTracking(bool on) noexcept : on_(on) {}

  /// Room for `slots` users, and for one more of them to change. Where memory runs out
  /// std::bad_alloc is thrown and nothing has changed. Amortised O(growth).
  void reserve(std::size_t slots) {
    if (!on_) return;
    // By doubling: a reserve() of just what is needed would copy everything each time.
    if (users_.size() < slots) users_.resize(std::max(slots, 2 * users_.size()));
    if (changes_.size() == changes_.capacity()) {
      changes_.reserve(std::max(kChangesAtFirst, 2 * changes_.size()));
    }
  }

  // All below require a slot that there is room for. O(1), without allocation.

  /// A user comes online in this slot: nothing that was told before counts.
  void begin(UserIndex user) noexcept {
    if (on_) users_[user].told = {};
  }
  /// The deadline of a session that stands in the user's record itself, which has no room for it.
  void set_plain_deadline(UserIndex user, MonoTime deadline) noexcept {
    if (on_) users_[user].plain_deadline = deadline;
  }
  /// The epoch where none was set.
  [[nodiscard]] MonoTime plain_deadline(UserIndex user) const noexcept {
    return on_ ? users_[user].plain_deadline : MonoTime{};
  }

  /// The user's deadline may be another from now on. Requires a reserve() since the last one.
  void mark_changed(UserIndex user) noexcept {
    if (!on_ || users_[user].changed) return;
    users_[user].changed = true;
    changes_.push_back(user);
  }

  // --- Telling ---

  [[nodiscard]] bool any_changed() const noexcept { return !changes_.empty(); }
  /// Who has waited longest. Requires any_changed().
  [[nodiscard]] UserIndex oldest() const noexcept { return changes_[done_]; }
  /// Whether the mirror knows another deadline of this user.
  [[nodiscard]] bool is_news(UserIndex user, MonoTime deadline) const noexcept {
    return users_[user].told != deadline;
  }
  void note_told(UserIndex user, MonoTime deadline) noexcept { users_[user].told = deadline; }
  /// Takes the oldest off the line. Requires any_changed().
  void pop() noexcept {
    users_[changes_[done_]].changed = false;
    if (++done_ < changes_.size()) return;
    changes_.clear();
    done_ = 0;
  }

 private:
  static constexpr std::size_t kChangesAtFirst = 64;

  struct Tracked {
    MonoTime plain_deadline;
    MonoTime told;         // the epoch: nothing yet
    bool changed = false;  // is in `changes_`
  };

  const bool on_;
  std::vector<Tracked> users_;      // by slot
  std::vector<UserIndex> changes_;  // oldest first
  std::size_t done_ = 0;            // those before it are told
};

}  // namespace pulsewheel

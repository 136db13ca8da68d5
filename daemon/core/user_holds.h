// UserHolds: which users of a shard are held, since when and until when. Part of PresenceRegistry.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "daemon/base/time.h"
#include "daemon/core/tick.h"
#include "daemon/core/time_wheel.h"
#include "daemon/core/user_table.h"

namespace pulsewheel {

/// The hold of one user. Its hook is armed at its end.
struct UserHold : TimerHook {
  static constexpr HookKind kHookKind = HookKind::kHold;

  UserHold(UserIndex whose, MonoTime from, MonoTime to) noexcept
      : TimerHook(kHookKind), user(whose), since(from), until(to) {}

  const UserIndex user;
  const MonoTime since;
  MonoTime until;
};

/// Confined to the registry's thread. Few users are held at a time: none of this costs anything
/// for the others but a look into an empty map.
class UserHolds {
 public:
  /// `wheel` must outlive this.
  UserHolds(TimeWheel& wheel, TickClock clock) noexcept : wheel_(wheel), clock_(clock) {}

  /// Null when the user is not held. O(1).
  [[nodiscard]] UserHold* find(UserIndex user) noexcept {
    const auto found = holds_.find(user);
    return found == holds_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const UserHold* find(UserIndex user) const noexcept {
    const auto found = holds_.find(user);
    return found == holds_.end() ? nullptr : &found->second;
  }
  /// Begins a hold, or gives one that is under way another end. Where memory runs out
  /// std::bad_alloc is thrown and nothing has changed.
  void add(UserIndex user, MonoTime since, MonoTime until) {
    UserHold& hold = holds_.try_emplace(user, user, since, until).first->second;
    hold.until = until;
    arm(hold);
  }
  void remove(UserIndex user) noexcept {
    UserHold* const hold = find(user);
    if (hold == nullptr) return;
    wheel_.cancel(*hold);
    holds_.erase(user);
  }
  /// Waits for the end of `hold`, once more if need be.
  void arm(UserHold& hold) noexcept { wheel_.arm(hold, clock_.ceil(hold.until)); }

  [[nodiscard]] std::size_t size() const noexcept { return holds_.size(); }

 private:
  TimeWheel& wheel_;
  const TickClock clock_;
  std::unordered_map<UserIndex, UserHold> holds_;
};

}  // namespace pulsewheel

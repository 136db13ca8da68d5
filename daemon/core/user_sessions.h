// What the sessions of one user say together: who is live, who lingers, whom a login takes over,
// and how the user ends. Part of PresenceRegistry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/time.h"
#include "daemon/core/close_reason.h"
#include "daemon/core/edge.h"
#include "daemon/core/user_image.h"
#include "daemon/core/user_table.h"

namespace pulsewheel {

// All functions here are O(sessions of the user), and none allocates but lingering_from().

/// Why and when a user's last session stopped being alive.
struct Ending {
  EdgeReason reason = EdgeReason::kDisconnect;
  MonoTime due = MonoTime::min();
};

/// What the end of a session is called, should its user go offline by it.
[[nodiscard]] EdgeReason edge_reason_of(CloseReason reason) noexcept;

/// Whether this session keeps its user online at `now`.
[[nodiscard]] inline bool keeps_alive(const SessionRecord& session, MonoTime now) noexcept {
  return session.live() || session.deadline > now;
}

/// How the user ends if the session `leaving` ends at `now` in the way of `own`: the later of
/// that and of the lingering sessions that have run out by now. nullopt: somebody else keeps the
/// user online.
[[nodiscard]] std::optional<Ending> ending_without(const UserRecord& user, SessionRef leaving,
                                                   Ending own, MonoTime now) noexcept;

// --- Live sessions ---

[[nodiscard]] std::size_t live_count(const UserRecord& user) noexcept;
/// Null when it is not one of the live sessions.
[[nodiscard]] SessionRecord* find_live(SessionGroup& group, SessionRef session) noexcept;
[[nodiscard]] bool holds_live(const UserRecord& user, SessionRef session) noexcept;
/// Whether a login with this label takes over a live session of the user.
[[nodiscard]] bool takes_over(const UserRecord& user, std::string_view device) noexcept;

/// Calls `visit` for the reference of each live session.
template <class Visit>
void for_each_live(const UserRecord& user, Visit visit) {
  if (user.form == UserRecord::Form::kPlain) return visit(user.plain_ref());
  if (user.form != UserRecord::Form::kGroup) return;
  for (const SessionRecord& session : user.group->sessions) {
    if (session.live()) visit(session.session);
  }
}

// --- Lingering sessions ---

[[nodiscard]] std::size_t lingering_count(const UserRecord& user) noexcept;
/// Of the lingering sessions with one label only that with the latest deadline stays: here
/// `latest`, which has just begun to linger, or the one before it.
void drop_twin(SessionGroup& group, const SessionRecord& latest) noexcept;
/// Keeps at most `lingering_max` lingering sessions. The earliest goes first, which never changes
/// when the user ends: that is up to the latest.
void bound_lingering(SessionGroup& group, std::size_t lingering_max) noexcept;
/// Of the sessions of one user those that can linger side by side: the latest of each device label.
[[nodiscard]] std::vector<SessionRecord> lingering_from(std::span<const SessionImage> sessions);

// --- All ---

/// Drops the sessions that `predicate` picks.
template <class Predicate>
void erase_if(SessionGroup::Sessions& sessions, Predicate predicate) noexcept {
  sessions.erase(std::remove_if(sessions.begin(), sessions.end(), predicate), sessions.end());
}

}  // namespace pulsewheel

#include "daemon/core/user_sessions.h"

#include <string>
#include <utility>

namespace pulsewheel {
namespace {

std::size_t lingering_count(const SessionGroup& group) noexcept {
  return static_cast<std::size_t>(std::count_if(group.sessions.begin(), group.sessions.end(),
                                                [](const auto& s) { return !s.live(); }));
}

}  // namespace

EdgeReason edge_reason_of(CloseReason reason) noexcept {
  switch (reason) {
    case CloseReason::kLogout:
      return EdgeReason::kLogout;
    case CloseReason::kTimeout:
      return EdgeReason::kTimeout;
    case CloseReason::kKicked:
      return EdgeReason::kKicked;
    default:
      return EdgeReason::kDisconnect;
  }
}

std::optional<Ending> ending_without(const UserRecord& user, SessionRef leaving, Ending own,
                                     MonoTime now) noexcept {
  if (user.form != UserRecord::Form::kGroup) return own;
  Ending last = own;
  for (const SessionRecord& session : user.group->sessions) {
    if (session.live() && session.session == leaving) continue;
    if (keeps_alive(session, now)) return std::nullopt;
    if (session.deadline > last.due) last = {session.ending, session.deadline};
  }
  return last;
}

std::size_t live_count(const UserRecord& user) noexcept {
  if (user.form == UserRecord::Form::kPlain) return 1;
  if (user.form != UserRecord::Form::kGroup) return 0;
  const auto& sessions = user.group->sessions;
  return static_cast<std::size_t>(
      std::count_if(sessions.begin(), sessions.end(), [](const auto& s) { return s.live(); }));
}

SessionRecord* find_live(SessionGroup& group, SessionRef session) noexcept {
  for (SessionRecord& record : group.sessions) {
    if (record.live() && record.session == session) return &record;
  }
  return nullptr;
}

bool holds_live(const UserRecord& user, SessionRef session) noexcept {
  if (user.form == UserRecord::Form::kPlain) return user.plain_ref() == session;
  return user.form == UserRecord::Form::kGroup && find_live(*user.group, session) != nullptr;
}

/// Whether a login with this label takes over a live session of the user.
bool takes_over(const UserRecord& user, std::string_view device) noexcept {
  if (device.empty() || user.form != UserRecord::Form::kGroup) return false;
  const auto& sessions = user.group->sessions;
  return std::any_of(sessions.begin(), sessions.end(),
                     [device](const auto& s) { return s.live() && s.device == device; });
}

std::size_t lingering_count(const UserRecord& user) noexcept {
  return user.form == UserRecord::Form::kGroup ? lingering_count(*user.group) : 0;
}

void drop_twin(SessionGroup& group, const SessionRecord& latest) noexcept {
  for (auto it = group.sessions.begin(); it != group.sessions.end(); ++it) {
    if (&*it == &latest || it->live() || it->device != latest.device) continue;
    group.sessions.erase(it->deadline > latest.deadline
                             ? group.sessions.begin() + (&latest - group.sessions.data())
                             : it);
    return;
  }
}

void bound_lingering(SessionGroup& group, std::size_t lingering_max) noexcept {
  const auto earlier = [](const SessionRecord& a, const SessionRecord& b) {
    return !a.live() && (b.live() || a.deadline < b.deadline);
  };
  for (std::size_t count = lingering_count(group); count > lingering_max; --count) {
    group.sessions.erase(std::min_element(group.sessions.begin(), group.sessions.end(), earlier));
  }
}

std::vector<SessionRecord> lingering_from(std::span<const SessionImage> sessions) {
  std::vector<SessionRecord> lingering;
  for (const SessionImage& image : sessions) {
    SessionRecord record{.session = {},
                         .ending = image.ending,
                         .id = 0,
                         .login_at = image.login_at,
                         .last_packet = image.last_packet,
                         .deadline = image.deadline,
                         .device = std::string(image.device)};
    const auto twin = std::find_if(lingering.begin(), lingering.end(), [&](const auto& other) {
      return other.device == record.device;
    });
    if (twin == lingering.end()) {
      lingering.push_back(std::move(record));
    } else if (twin->deadline < record.deadline) {
      *twin = std::move(record);
    }
  }
  return lingering;
}

}  // namespace pulsewheel

// What the registry says of its users: of one of them, of all in parts, and how many there are.
#include "daemon/core/presence_registry_impl.h"

#include <string>

namespace pulsewheel {
namespace {

UserSession view_of(const SessionRecord& session) {
  return {.session = session.session,
          .id = session.id,
          .device = session.device,
          .lingering = !session.live(),
          .login_at = session.login_at,
          .last_packet = session.last_packet,
          .deadline = session.deadline,
          .timeout = session.timeout};
}

/// Of a live session, whose deadline its own shard knows, nobody has seen an end.
SessionImage image_of(const SessionRecord& session) {
  return {.session = session.session,
          .ending = session.live() ? EdgeReason::kTimeout : session.ending,
          .login_at = session.login_at,
          .last_packet = session.last_packet,
          .deadline = session.live() ? session.login_at : session.deadline,
          .device = session.device};
}

UserView view_of(const UserRecord& user) {
  UserView view;
  view.since = user.since;
  view.last_seen = user.last_seen;
  if (user.has_edge) view.reason = user.edge_reason;
  if (!user.online()) return view;
  view.state = PresenceState::kOnline;
  if (user.form == UserRecord::Form::kPlain) {
    view.sessions.push_back({.session = user.plain_ref(),
                             .id = user.plain.id,
                             .device = {},
                             .lingering = false,
                             .login_at = user.plain.login_at,
                             .last_packet = user.plain.login_at,
                             .deadline = {}});
    return view;
  }
  for (const SessionRecord& session : user.group->sessions)
    view.sessions.push_back(view_of(session));
  view.linger_place = TimeWheel::place_of(*user.group);
  return view;
}

}  // namespace

std::string_view to_string(PresenceState state) noexcept {
  switch (state) {
    case PresenceState::kOffline:
      return "offline";
    case PresenceState::kOnline:
      return "online";
    case PresenceState::kUnknown:
      return "unknown";
  }
  return "?";
}

UserView PresenceRegistry::find(std::string_view uid, MonoTime now) const {
  const Impl& r = *impl_;
  const UserIndex index = r.table.find(uid);
  UserView view;
  if (!r.remembers(index, now)) {
    if (now < r.options.unknown_until) view.state = PresenceState::kUnknown;
    return view;
  }
  view = view_of(r.table.at(index));
  if (const UserHold* hold = r.holds.find(index)) view.hold = {hold->since, hold->until};
  const bool from_before =
      view.state == PresenceState::kOffline && *view.since < r.options.run_began;
  if (from_before && now < r.options.unknown_until) {
    view.state = PresenceState::kUnknown;
    view.since.reset();
    view.reason.reset();
  }
  return view;
}

bool PresenceRegistry::list_online(std::uint32_t* cursor, std::size_t slots, std::size_t users,
                                   std::vector<ListedUser>& out) const {
  const Impl& r = *impl_;
  for (; slots > 0 && users > 0 && *cursor < r.table.slots(); --slots, ++*cursor) {
    const UserRecord& user = r.table.at(*cursor);
    if (!user.online()) continue;
    out.push_back({std::string(user.uid()), view_of(user)});
    --users;
  }
  return *cursor < r.table.slots();
}

bool PresenceRegistry::list_users(std::uint32_t* cursor, std::size_t budget,
                                  UserImageBatch& out) const {
  const Impl& r = *impl_;
  for (; budget > 0 && *cursor < r.table.slots(); --budget, ++*cursor) {
    const UserRecord& user = r.table.at(*cursor);
    if (user.form == UserRecord::Form::kFree) continue;
    out.add({.uid = user.uid(), .since = user.since, .last_seen = user.last_seen});
    if (user.form == UserRecord::Form::kPlain) {
      out.add_session({.session = user.plain_ref(),
                       .login_at = user.plain.login_at,
                       .last_packet = user.plain.login_at,
                       .deadline = user.plain.login_at,
                       .device = {}});
    } else if (user.form == UserRecord::Form::kGroup) {
      const UserHold* const hold = r.holds.find(*cursor);
      for (const SessionRecord& session : user.group->sessions) {
        SessionImage image = image_of(session);
        if (hold != nullptr && !session.live()) image.deadline += hold->until - hold->since;
        out.add_session(image);
      }
    }
  }
  return *cursor < r.table.slots();
}

std::size_t PresenceRegistry::online_users() const noexcept {
  return impl_->online;
}
std::size_t PresenceRegistry::offline_users() const noexcept {
  return impl_->table.offline_users();
}
std::size_t PresenceRegistry::lingering_users() const noexcept {
  return impl_->lingering;
}
std::size_t PresenceRegistry::held_users() const noexcept {
  return impl_->holds.size();
}
std::size_t PresenceRegistry::live_sessions() const noexcept {
  return impl_->live;
}

}  // namespace pulsewheel

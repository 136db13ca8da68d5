// The plain rules of presence, written for clarity: what PresenceRegistry is compared with.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/presence_registry.h"

namespace pulsewheel::test {

/// uid -> sessions, in maps and vectors. Shares no code with the registry and knows no wheel: it is
/// told which users the registry took offline, and says whether that was right.
class PresenceModel {
 public:
  struct Session {
    SessionRef ref;
    SessionId id = 0;
    std::string device;
    bool live = true;
    MonoTime login_at;
    MonoTime last_packet;
    MonoTime deadline;                            // lingering
    EdgeReason ending = EdgeReason::kDisconnect;  // lingering
  };
  struct User {
    std::vector<Session> sessions;
    bool online = false;
    MonoTime since;
    MonoTime last_seen;
    UserRef ref;
  };
  /// A way in which a user may have ended.
  struct Ending {
    EdgeReason reason;
    MonoTime due;
  };

  /// No end is reported later than this after its deadline.
  static constexpr Duration kNoLongerOfAccount = std::chrono::seconds{2};

  explicit PresenceModel(const PresenceRegistry::Options& options) : options_(options) {}

  [[nodiscard]] LoginVerdict verdict(const std::string& uid, const std::string& device) const {
    const User* user = find(uid);
    if (user == nullptr || !user->online) {
      return online() < options_.users_max ? LoginVerdict::kAccepted : LoginVerdict::kServerFull;
    }
    std::size_t others = 0;
    for (const Session& s : user->sessions) {
      if (s.live && (device.empty() || s.device != device)) ++others;
    }
    return others < options_.sessions_per_user_max ? LoginVerdict::kAccepted
                                                   : LoginVerdict::kTooManySessions;
  }

  /// The session that has to be taken over, if any; `came_online` says whether an edge is due.
  std::optional<SessionRef> login(const std::string& uid, const Session& session, UserRef ref,
                                  MonoTime now, bool& came_online) {
    auto [it, created] = users_.try_emplace(uid);
    User& user = it->second;
    came_online = !user.online;
    if (came_online) {
      std::erase(offline_order_, uid);
      user.online = true;
      user.since = now;
    }
    if (created || session.login_at > user.last_seen) user.last_seen = session.login_at;
    std::optional<SessionRef> taken_over;
    std::vector<Session> kept;
    for (const Session& s : user.sessions) {
      const bool same = s.device == session.device;
      if (same && s.live && !s.device.empty()) {
        taken_over = s.ref;
      } else if (!same || s.live) {
        kept.push_back(s);
      }
    }
    kept.push_back(session);
    user.sessions = kept;
    user.ref = ref;
    return taken_over;
  }

  /// The ways in which the user may have gone offline by this end; empty: still online. Where
  /// another session has run out, the registry may know of it still, and wait for the wheel, or
  /// not: `waited` says that it made no edge.
  std::vector<Ending> end(const std::string& uid, SessionRef ref, CloseReason reason,
                          MonoTime last_packet, MonoTime deadline, MonoTime now, bool waited) {
    User& user = users_.at(uid);
    const auto it = std::find_if(user.sessions.begin(), user.sessions.end(),
                                 [&](const Session& s) { return s.live && s.ref == ref; });
    Session session = *it;
    user.sessions.erase(it);
    if (last_packet > user.last_seen) user.last_seen = last_packet;

    EdgeReason edge = EdgeReason::kDisconnect;
    if (reason == CloseReason::kLogout) edge = EdgeReason::kLogout;
    if (reason == CloseReason::kTimeout) edge = EdgeReason::kTimeout;
    if (reason == CloseReason::kKicked) edge = EdgeReason::kKicked;
    static const std::set<CloseReason> kFinal{CloseReason::kLogout, CloseReason::kTakenOver,
                                              CloseReason::kKicked};
    const bool silent = reason == CloseReason::kTimeout;
    const bool waits = silent || (options_.linger && kFinal.count(reason) == 0);
    const bool others_linger = std::any_of(user.sessions.begin(), user.sessions.end(),
                                           [](const Session& s) { return !s.live; });
    if (waits && (deadline > now || !silent || (others_linger && waited))) {
      session.live = false;
      session.last_packet = last_packet;
      session.deadline = deadline;
      session.ending = edge;
      add_lingering(user, session, now);
      return {};
    }
    std::vector<Ending> endings{{edge, waits ? deadline : now}};
    for (const Session& s : user.sessions) {
      if (alive(s, now)) return {};
      if (s.deadline > endings[0].due) endings.push_back({s.ending, s.deadline});
    }
    if (others_linger && waited) {
      session.live = false;
      session.last_packet = last_packet;
      session.deadline = now;
      session.ending = edge;
      add_lingering(user, session, now);
      return {};
    }
    return endings;
  }

  /// The ways in which an online user without live sessions may end by running out at `now`;
  /// empty: must not end yet.
  [[nodiscard]] std::vector<Ending> ran_out(const std::string& uid, MonoTime now) const {
    const User& user = users_.at(uid);
    // The latest; or one that ended behind all later ones, which nobody had to remember then.
    std::vector<Ending> endings;
    MonoTime latest_behind = MonoTime::min();
    for (auto s = user.sessions.rbegin(); s != user.sessions.rend(); ++s) {
      if (alive(*s, now)) return {};
      if (s->deadline < latest_behind) continue;
      endings.push_back({s->ending, s->deadline});
      latest_behind = s->deadline;
    }
    return endings;
  }

  void went_offline(const std::string& uid, MonoTime now) {
    User& user = users_.at(uid);
    user.online = false;
    user.sessions.clear();
    user.since = now;
    offline_order_.push_back(uid);
    if (offline_order_.size() > options_.offline_users_max) forget_oldest();
  }

  std::optional<MonoTime> forget_offline(MonoTime now, std::size_t budget) {
    while (!offline_order_.empty()) {
      const MonoTime due = users_.at(offline_order_.front()).since + options_.offline_retention;
      if (due > now || budget-- == 0) return due;
      forget_oldest();
    }
    return std::nullopt;
  }

  [[nodiscard]] const User* find(const std::string& uid) const {
    const auto it = users_.find(uid);
    return it == users_.end() ? nullptr : &it->second;
  }
  [[nodiscard]] static bool alive(const Session& s, MonoTime now) {
    return s.live || s.deadline > now;
  }
  [[nodiscard]] static bool has_live(const User& user) {
    return std::any_of(user.sessions.begin(), user.sessions.end(),
                       [](const Session& s) { return s.live; });
  }
  [[nodiscard]] const std::map<std::string, User>& users() const { return users_; }

  [[nodiscard]] std::size_t online() const { return users_.size() - offline_order_.size(); }
  [[nodiscard]] std::size_t offline() const { return offline_order_.size(); }
  [[nodiscard]] std::size_t lingering() const {
    return static_cast<std::size_t>(std::count_if(users_.begin(), users_.end(), [](const auto& u) {
      return u.second.online && !has_live(u.second);
    }));
  }
  [[nodiscard]] std::size_t live_sessions() const {
    std::size_t count = 0;
    for (const auto& [uid, user] : users_) {
      for (const Session& s : user.sessions)
        count += s.live ? 1 : 0;
    }
    return count;
  }

 private:
  void add_lingering(User& user, const Session& session, MonoTime now) {
    // Of what lingers with one label, the latest stays; what has run out may be forgotten or not.
    for (const Session& s : user.sessions) {
      if (s.live || s.device != session.device || s.deadline <= now) continue;
      if (s.deadline > session.deadline) return;
    }
    std::erase_if(user.sessions, [&](const Session& s) {
      const bool superseded = s.device == session.device && s.deadline <= session.deadline;
      return !s.live && (superseded || s.deadline < now - kNoLongerOfAccount);
    });
    user.sessions.push_back(session);
    // What has run out may still give its reason to the end of the user, but needs no place.
    std::vector<MonoTime> deadlines;
    for (const Session& s : user.sessions) {
      if (!s.live && s.deadline > now) deadlines.push_back(s.deadline);
    }
    if (deadlines.size() <= options_.sessions_per_user_max) return;
    const MonoTime earliest = *std::min_element(deadlines.begin(), deadlines.end());
    user.sessions.erase(
        std::find_if(user.sessions.begin(), user.sessions.end(),
                     [&](const Session& s) { return !s.live && s.deadline == earliest; }));
  }

  void forget_oldest() {
    users_.erase(offline_order_.front());
    offline_order_.pop_front();
  }

  const PresenceRegistry::Options options_;
  std::map<std::string, User> users_;
  std::deque<std::string> offline_order_;  // the oldest first
};

}  // namespace pulsewheel::test

#include "daemon/server/user_reports.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;

std::int64_t unix_ms(const WallClockMapping& clock, MonoTime time) {
  return std::chrono::duration_cast<milliseconds>(clock.to_wall(time).time_since_epoch()).count();
}

std::int64_t ms(Duration duration) {
  return std::max<std::int64_t>(std::chrono::duration_cast<milliseconds>(duration).count(), 0);
}

/// A session of a user, with what its own shard says of it.
struct SessionFacts {
  const UserSession* session;
  MonoTime last_packet;
  MonoTime deadline;  // the epoch: its shard was not told of it yet, or it is gone
  Duration timeout{0};
  std::optional<Duration> left;  // of a held user: until the deadline, from the release on
  const Shard::SessionPlace* place = nullptr;
};

/// A held user's deadlines are on a time of its own, that stands still: so the end is what is left
/// behind the end of the hold, at the latest.
void add_hold(const HoldView& hold, SessionFacts& facts) {
  if (facts.deadline == MonoTime{}) return;
  const bool lingering = facts.session->lingering;
  const MonoTime stood_still = lingering ? hold.since : std::max(hold.since, facts.last_packet);
  facts.left = std::max(facts.deadline - stood_still, Duration{0});
  facts.deadline = hold.until + *facts.left;
}

/// Of a session of an earlier run nobody remembers what was negotiated: what it got is the next
/// best.
Duration timeout_of(const UserSession& session) {
  return session.timeout > Duration{0} ? session.timeout : session.deadline - session.last_packet;
}

SessionFacts facts_of_unheld(const UserFacts& user, const UserSession& session) {
  SessionFacts facts{.session = &session,
                     .last_packet = session.last_packet,
                     .deadline = session.deadline,
                     .timeout = {},
                     .left = {}};
  if (session.lingering) {
    facts.timeout = timeout_of(session);
    return facts;
  }
  const auto& live = user.live[session.session.shard];
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (live[i].session != session.session || !live[i].found) continue;
    facts.last_packet = live[i].last_packet;
    facts.deadline = live[i].deadline;
    facts.timeout = live[i].timeout;
    if (!user.places.empty()) facts.place = &user.places[session.session.shard][i];
  }
  return facts;
}

SessionFacts facts_of(const UserFacts& user, const UserSession& session) {
  SessionFacts facts = facts_of_unheld(user, session);
  if (user.view.hold) add_hold(*user.view.hold, facts);
  return facts;
}

HoldInfo info_of(const HoldView& hold, const WallClockMapping& clock) {
  return {.since_ms = unix_ms(clock, hold.since), .until_ms = unix_ms(clock, hold.until)};
}

SessionReport report_of(const SessionFacts& facts, const WallClockMapping& clock) {
  const UserSession& session = *facts.session;
  return {.id = session.id,
          .shard = session.session.shard,
          .device = session.device,
          .lingering = session.lingering,
          .login_at_ms = unix_ms(clock, session.login_at),
          .last_seen_ms = unix_ms(clock, facts.last_packet),
          .deadline_ms = facts.deadline == MonoTime{} ? 0 : unix_ms(clock, facts.deadline),
          .timeout_ms = static_cast<std::uint32_t>(ms(facts.timeout))};
}

std::optional<WheelSlot> slot_of(const std::optional<TimeWheel::Place>& place) {
  if (!place) return std::nullopt;
  return WheelSlot{place->level, place->slot};
}

/// Everything about the user but the sessions.
UserReport state_of(const UserFacts& facts, const WallClockMapping& clock) {
  UserReport report;
  report.state = to_string(facts.view.state);
  if (facts.view.since) report.since_ms = unix_ms(clock, *facts.view.since);
  std::optional<MonoTime> last_seen = facts.view.last_seen;
  for (const UserSession& session : facts.view.sessions) {
    const MonoTime last_packet = facts_of(facts, session).last_packet;
    last_seen = std::max(last_seen.value_or(last_packet), last_packet);
  }
  if (last_seen) report.last_seen_ms = unix_ms(clock, *last_seen);
  return report;
}

}  // namespace

UserReport report_of(const UserFacts& facts) {
  const WallClockMapping clock;
  UserReport report = state_of(facts, clock);
  for (const UserSession& session : facts.view.sessions)
    report.sessions.push_back(report_of(facts_of(facts, session), clock));
  return report;
}

Explanation explain(const UserFacts& facts, ShardIndex home, MonoTime now) {
  const WallClockMapping clock;
  Explanation out;
  out.user = state_of(facts, clock);
  out.home_shard = home;
  out.now_ms = unix_ms(clock, now);
  if (facts.view.hold) out.hold = info_of(*facts.view.hold, clock);
  for (const UserSession& session : facts.view.sessions) {
    const SessionFacts known = facts_of(facts, session);
    SessionExplanation& explained = out.sessions.emplace_back();
    explained.session = report_of(known, clock);
    explained.packet_age_ms = ms(now - known.last_packet);
    explained.remaining_ms = ms(known.left.value_or(known.deadline - now));
    if (known.place != nullptr) explained.address = known.place->address;
    explained.wheel =
        slot_of(session.lingering ? facts.view.linger_place
                                  : (known.place != nullptr ? known.place->place : std::nullopt));
  }
  if (facts.view.reason) {
    const bool online = facts.view.state == PresenceState::kOnline;
    EdgeReport edge{.seq = {},
                    .kind = to_string(online ? EdgeKind::kOnline : EdgeKind::kOffline),
                    .reason = to_string(*facts.view.reason),
                    .at_ms = unix_ms(clock, *facts.view.since),
                    .last_seen_ms = {}};
    if (!online && facts.view.last_seen) edge.last_seen_ms = unix_ms(clock, *facts.view.last_seen);
    out.edges.push_back(edge);
  }
  return out;
}

EdgeReport report_of(const EventRing::PastEdge& edge) {
  const auto wall_ms = [](WallTime time) {
    return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
  };
  EdgeReport report{.seq = edge.seq,
                    .kind = to_string(edge.kind),
                    .reason = to_string(edge.reason),
                    .at_ms = wall_ms(edge.at),
                    .last_seen_ms = {}};
  if (edge.last_seen) report.last_seen_ms = wall_ms(*edge.last_seen);
  return report;
}

HoldReport report_of(const Shard::HoldOutcome& outcome) {
  using Verdict = PresenceRegistry::HoldVerdict;
  switch (outcome.verdict) {
    case Verdict::kNotOnline:
      return {.verdict = HoldReport::Verdict::kNotOnline, .hold = {}};
    case Verdict::kTooMany:
      return {.verdict = HoldReport::Verdict::kTooMany, .hold = {}};
    case Verdict::kHeld:
      break;
  }
  return {.verdict = HoldReport::Verdict::kHeld, .hold = info_of(outcome.hold, WallClockMapping())};
}

UserLine line_of(KnownUser&& user, const WallClockMapping& clock) {
  UserLine line{.uid = std::move(user.uid),
                .state = to_string(user.view.state),
                .since_ms = {},
                .last_seen_ms = {},
                .sessions = user.view.sessions.size(),
                .devices = {}};
  if (user.view.since) line.since_ms = unix_ms(clock, *user.view.since);
  if (user.view.last_seen) line.last_seen_ms = unix_ms(clock, *user.view.last_seen);
  for (UserSession& session : user.view.sessions) {
    if (!session.device.empty()) line.devices.push_back(std::move(session.device));
  }
  return line;
}

MonoTime newest_packet(const UserFacts& facts) noexcept {
  MonoTime newest = MonoTime::min();
  for (const auto& of_shard : facts.live) {
    for (const Shard::LiveSession& session : of_shard) {
      if (session.found) newest = std::max(newest, session.last_packet);
    }
  }
  return newest;
}

}  // namespace pulsewheel

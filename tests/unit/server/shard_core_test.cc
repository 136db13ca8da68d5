#include "daemon/server/shard_core.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTick = seconds{1};
constexpr Duration kTimeout = seconds{30};

MonoTime at(Duration since_start) {
  return MonoTime{std::chrono::hours{1}} + since_start;
}

MonoTime begin_of(Tick tick) {
  return TickClock(at(Duration{0}), kTick).begin_of(tick);
}

/// A session as far as a core sees one.
struct FakeSession : TimerHook {
  explicit FakeSession(SessionRef session) : TimerHook(HookKind::kSession), ref(session) {}

  SessionRef ref;
  MonoTime deadline;
  UserRef user;
  bool answered = false;
  bool closed = false;
  std::optional<CloseReason> dismissed;
  std::optional<MonoTime> held_since;
};

/// One shard of a node, with the sessions that a test makes.
class FakeShard final : public ShardHost, public TimerErrorSink {
 public:
  FakeShard(ShardIndex index, std::size_t shards, Duration retention, bool track_deadlines = false)
      : core({.index = index,
              .shards = shards,
              .clock = TickClock(at(Duration{0}), kTick),
              .registry = {.shard = index,
                           .offline_retention = retention,
                           .track_deadlines = track_deadlines}},
             at(Duration{0}), *this, *this),
        index_(index) {}

  FakeSession& connect() {
    const auto number = static_cast<std::uint32_t>(sessions_.size());
    sessions_.push_back(std::make_unique<FakeSession>(SessionRef{number, 1, index_}));
    return *sessions_.back();
  }
  void log_in(FakeSession& session, std::string_view uid, MonoTime now) {
    core.submit_login({{uid, {}, session.ref, now}, {now, {30'000, 20'000}, 1}});
  }
  void end(FakeSession& session, CloseReason reason, MonoTime last_packet) {
    session.closed = true;
    core.session_ended({session.user, session.ref, reason, last_packet, last_packet + kTimeout});
  }
  /// A whole round in which nothing new arrives.
  ShardCore::Next turn(MonoTime now) {
    core.begin_round(now);
    if (core.accepting()) core.on_accepts(1, true);
    core.on_poll(0, true);
    core.expire();
    core.finish_due(now);
    core.deliver_own_mail(now);
    return core.end_round();
  }

  MonoTime deadline_of(const TimerHook& hook) const noexcept override {
    return static_cast<const FakeSession&>(hook).deadline;
  }
  void on_session_due(TimerHook& hook, MonoTime now) override {
    auto& session = static_cast<FakeSession&>(hook);
    due.push_back(&session);
    if (session.deadline <= now) end(session, CloseReason::kTimeout, session.deadline - kTimeout);
  }
  bool on_login_answer(const LoginAnswerMail& mail) override {
    FakeSession& session = *sessions_[mail.session.index];
    if (session.closed) return false;
    session.answered = true;
    session.user = mail.decision.user;
    return true;
  }
  void on_dismissed(const DismissMail& mail) override {
    sessions_[mail.session.index]->dismissed = mail.reason;
  }
  void on_hold(const HoldMail& mail) override {
    sessions_[mail.session.index]->held_since = mail.since;
  }
  void on_hold_over(std::string_view uid, MonoTime) override { holds_over.emplace_back(uid); }
  UnreadMax unread_max() const noexcept override { return {.accepts = 16, .handlers = 16}; }
  void on_stall(Duration late) override { stalls.push_back(late); }
  void on_touches_due() override {
    for (const SessionTouch& touch : touches)
      core.touch(touch);
    touches.clear();
  }
  void on_fence() override { ++fences; }
  void on_timer_failure(std::string_view, std::string_view, bool) noexcept override {}

  std::vector<FakeSession*> due;
  std::vector<Duration> stalls;
  std::vector<SessionTouch> touches;  // handed in when asked for
  std::vector<std::string> holds_over;
  int fences = 0;
  ShardCore core;

 private:
  ShardIndex index_;
  std::vector<std::unique_ptr<FakeSession>> sessions_;
};

class ShardCoreTest : public testing::Test {
 protected:
  static constexpr Duration kRetention = std::chrono::minutes{10};

  /// A user who is online through one session of the only shard.
  FakeSession& online(std::string_view uid, MonoTime now) {
    FakeSession& session = shard.connect();
    shard.log_in(session, uid, now);
    shard.turn(now);
    session.deadline = now + kTimeout;
    return session;
  }
  /// Rounds until nothing is left to do at once. Returns the last one's word.
  ShardCore::Next settle(MonoTime now) {
    auto next = shard.turn(now);
    for (int i = 0; i < 10 && next.at_once; ++i)
      next = shard.turn(now);
    return next;
  }
  std::size_t edges() const { return shard.core.edges().size(); }

  FakeShard shard{0, 1, kRetention};
};

TEST_F(ShardCoreTest, AnswersALoginWithinTheRound) {
  EXPECT_TRUE(online("alice", at(seconds{1})).answered);
  ASSERT_EQ(edges(), 1U);
  EXPECT_EQ(shard.core.edges().at(0).kind, EdgeKind::kOnline);
}

TEST_F(ShardCoreTest, SleepsWhenNothingIsArmed) {
  const auto next = shard.turn(at(seconds{1}));
  EXPECT_FALSE(next.at_once);
  EXPECT_FALSE(next.wakeup);
}

TEST_F(ShardCoreTest, LetsAUserLingerWhoseSessionClosedWhileTheHomeDecided) {
  FakeSession& session = shard.connect();
  shard.log_in(session, "alice", at(seconds{1}));
  session.closed = true;
  shard.turn(at(seconds{1}));
  EXPECT_EQ(shard.core.registry().lingering_users(), 1U);
  EXPECT_EQ(edges(), 1U);
}

TEST_F(ShardCoreTest, EndsALingeringUserOnlyBehindAFence) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.end(session, CloseReason::kPeerClosed, at(seconds{1}));
  shard.turn(at(seconds{2}));
  auto next = shard.turn(at(seconds{31}));  // raises the fence
  EXPECT_EQ(shard.fences, 1);
  EXPECT_EQ(edges(), 1U);
  EXPECT_TRUE(next.at_once);
  next = settle(at(seconds{31}));  // reads, and ends the user
  EXPECT_FALSE(next.at_once);
  ASSERT_EQ(edges(), 2U);
  EXPECT_EQ(shard.core.edges().at(1).kind, EdgeKind::kOffline);
  EXPECT_EQ(shard.core.edges().at(1).reason, EdgeReason::kDisconnect);
}

TEST_F(ShardCoreTest, FindsNobodyOfflineWhoLingersWhenTheNodeIsAboutToEnd) {
  FakeSession& gone = online("alice", at(seconds{1}));
  FakeSession& leaving = online("bob", at(seconds{1}));
  shard.end(gone, CloseReason::kPeerClosed, at(seconds{1}));
  shard.turn(at(seconds{2}));
  shard.turn(at(seconds{31}));  // raises the fence for alice
  shard.core.hold_lingering();
  shard.end(leaving, CloseReason::kDrained, at(seconds{20}));
  EXPECT_FALSE(settle(at(seconds{31})).at_once);
  EXPECT_FALSE(settle(at(seconds{100})).at_once);
  EXPECT_EQ(edges(), 2U) << "online twice";
  EXPECT_EQ(shard.core.registry().lingering_users(), 2U);
}

TEST_F(ShardCoreTest, LetsEverybodyLingerWhenTheNodeIsAboutToEnd) {
  PresenceRegistry::Options options = shard.core.registry().options();
  options.linger = false;
  shard.core.change(options, 256, at(seconds{1}));
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.hold_lingering();
  shard.end(session, CloseReason::kDrained, at(seconds{1}));
  settle(at(seconds{2}));
  EXPECT_EQ(edges(), 1U);
  EXPECT_EQ(shard.core.registry().lingering_users(), 1U);
}

TEST_F(ShardCoreTest, ForgetsAUserWhoEndedByLingering) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.end(session, CloseReason::kPeerClosed, at(seconds{1}));
  shard.turn(at(seconds{2}));
  const auto next = settle(at(seconds{31}));
  ASSERT_EQ(shard.core.registry().offline_users(), 1U);
  ASSERT_TRUE(next.wakeup);
  shard.turn(at(seconds{32} + kRetention));
  EXPECT_EQ(shard.core.registry().offline_users(), 0U);
}

TEST_F(ShardCoreTest, AShorterRetentionIsNotWaitedForAsLongAsTheOldOne) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.end(session, CloseReason::kLogout, at(seconds{1}));
  shard.turn(at(seconds{2}));
  ASSERT_EQ(shard.core.registry().offline_users(), 1U);
  shard.core.change({.offline_retention = seconds{10}}, 256, at(seconds{3}));
  const auto next = shard.turn(at(seconds{3}));
  ASSERT_TRUE(next.wakeup);
  EXPECT_EQ(begin_of(*next.wakeup), at(seconds{12}));
  shard.turn(at(seconds{12}));
  EXPECT_EQ(shard.core.registry().offline_users(), 0U);
}

TEST_F(ShardCoreTest, ExpiresNobodyInALateRoundBeforeEverythingIsRead) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.wheel().arm(session, TickClock(at(Duration{0}), kTick).ceil(session.deadline));
  const auto next = shard.turn(at(seconds{2}));
  ASSERT_TRUE(next.wakeup);

  const MonoTime late = at(seconds{45});
  shard.core.begin_round(late);
  ASSERT_EQ(shard.stalls.size(), 1U);
  EXPECT_EQ(shard.stalls.front(), late - begin_of(*next.wakeup));
  EXPECT_TRUE(shard.core.accepting());
  EXPECT_FALSE(shard.core.expire());
  shard.core.on_accepts(16, false);
  shard.core.on_poll(1, false);  // not dry yet
  EXPECT_FALSE(shard.core.expire());
  session.deadline = late + kTimeout;  // a keepalive was among what was read
  shard.turn(late);
  shard.turn(late);
  EXPECT_EQ(shard.due.size(), 1U);
  EXPECT_EQ(edges(), 1U) << "only the online edge";
  EXPECT_EQ(shard.stalls.size(), 1U) << "one stall is counted once";
}

TEST_F(ShardCoreTest, CountsNoStallWhenARoundIsLateByATick) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.wheel().arm(session, TickClock(at(Duration{0}), kTick).ceil(session.deadline));
  const auto next = shard.turn(at(seconds{2}));
  ASSERT_TRUE(next.wakeup);
  shard.turn(begin_of(*next.wakeup) + kTick);
  EXPECT_TRUE(shard.stalls.empty());
}

TEST_F(ShardCoreTest, MeasuresHowLateARoundBeginsThatADeadlineAskedFor) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.wheel().arm(session, TickClock(at(Duration{0}), kTick).ceil(session.deadline));
  const auto next = shard.turn(at(seconds{2}));
  ASSERT_TRUE(next.wakeup);
  shard.turn(begin_of(*next.wakeup) + milliseconds{70});
  EXPECT_EQ(shard.core.wakeup_delay(), milliseconds{70});
}

TEST_F(ShardCoreTest, ARoundThatAPacketAskedForHasNoWakeupDelay) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.wheel().arm(session, TickClock(at(Duration{0}), kTick).ceil(session.deadline));
  const auto next = shard.turn(at(seconds{2}));
  ASSERT_TRUE(next.wakeup);
  shard.turn(begin_of(*next.wakeup) - milliseconds{1});
  EXPECT_EQ(shard.core.wakeup_delay(), std::nullopt);
}

TEST_F(ShardCoreTest, ARoundBehindOneThatLeftWorkHasNoWakeupDelay) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.wheel().arm(session, TickClock(at(Duration{0}), kTick).ceil(session.deadline));
  shard.core.begin_round(at(seconds{2}));
  MailBatch ask;
  ask.emplace_back(FenceMail{0});
  shard.core.deliver(ask, at(seconds{2}));
  ASSERT_TRUE(shard.core.end_round().at_once);
  shard.core.begin_round(at(milliseconds{2'050}));
  EXPECT_EQ(shard.core.wakeup_delay(), std::nullopt);
}

TEST_F(ShardCoreTest, CountsNoStallForWorkThatLiesInThePast) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.end(session, CloseReason::kPeerClosed, at(seconds{1}));
  shard.turn(at(milliseconds{40'950}));  // its deadline passed long ago
  shard.turn(at(milliseconds{41'900}));
  EXPECT_TRUE(shard.stalls.empty());
}

TEST_F(ShardCoreTest, AsksEverybodyToReadAlsoWhereACloseWasReadLate) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.turn(at(seconds{69}));
  shard.end(session, CloseReason::kPeerClosed, at(seconds{1}));
  shard.turn(at(seconds{70}));
  EXPECT_EQ(edges(), 1U) << "the user may have come back meanwhile";
  for (int i = 0; i < 4; ++i)
    shard.turn(at(seconds{70}));
  EXPECT_EQ(shard.fences, 1);
  ASSERT_EQ(edges(), 2U);
  EXPECT_EQ(shard.core.edges().at(1).reason, EdgeReason::kDisconnect);
}

TEST_F(ShardCoreTest, KickTellsTheLiveSessionsAndMakesOneEdge) {
  FakeSession& phone = online("alice", at(seconds{1}));
  FakeSession& laptop = online("alice", at(seconds{1}));
  EXPECT_EQ(shard.core.kick("alice", at(seconds{2})), 2U);
  shard.turn(at(seconds{2}));
  EXPECT_EQ(phone.dismissed, CloseReason::kKicked);
  EXPECT_EQ(laptop.dismissed, CloseReason::kKicked);
  ASSERT_EQ(edges(), 2U);
  EXPECT_EQ(shard.core.edges().at(1).reason, EdgeReason::kKicked);
  EXPECT_EQ(shard.core.kick("alice", at(seconds{2})), std::nullopt);
}

TEST_F(ShardCoreTest, ReportsAUserOfNoNodeOffline) {
  EXPECT_TRUE(shard.core.report_offline("php", at(seconds{5})));
  ASSERT_EQ(shard.core.edges().size(), 1u);
  const Edge edge = shard.core.edges().at(0);
  EXPECT_EQ(edge.uid, "php");
  EXPECT_EQ(edge.kind, EdgeKind::kOffline);
  EXPECT_EQ(edge.reason, EdgeReason::kTimeout);
  EXPECT_EQ(edge.at, at(seconds{5}));
  EXPECT_EQ(edge.last_seen, kLastSeenUnknown);
}

TEST_F(ShardCoreTest, ReportsNobodyOfflineWhoIsOnlineHere) {
  online("alice", at(seconds{1}));
  EXPECT_FALSE(shard.core.report_offline("alice", at(seconds{5})));
  EXPECT_EQ(shard.core.edges().size(), 1u);  // the online one
}

/// Two shards, and a user whose home is the first.
class ShardCoreNodeTest : public testing::Test {
 protected:
  explicit ShardCoreNodeTest(bool track_deadlines = false)
      : first(0, 2, std::chrono::minutes{10}, track_deadlines),
        second(1, 2, std::chrono::minutes{10}, track_deadlines) {
    while (home_shard_of(uid, 0, 2) != 0)
      uid += 'x';
  }

  /// Moves mail between the shards.
  void exchange_mail(MonoTime now) {
    MailBatch to_second = first.core.take_mail(1);
    MailBatch to_first = second.core.take_mail(0);
    second.core.deliver(to_second, now);
    first.core.deliver(to_first, now);
  }
  void turn_both(MonoTime now) {
    first.turn(now);
    second.turn(now);
    exchange_mail(now);
  }
  FakeSession& online_at(FakeShard& shard, MonoTime now) {
    FakeSession& session = shard.connect();
    shard.log_in(session, uid, now);
    for (int i = 0; i < 3; ++i)
      turn_both(now);
    session.deadline = now + kTimeout;
    shard.core.wheel().arm(session, TickClock(at(Duration{0}), kTick).ceil(session.deadline));
    return session;
  }
  /// A round of `shard` in which it reads a LOGIN that lay in its accept queue.
  void turn_with_login(FakeShard& shard, MonoTime now) {
    shard.core.begin_round(now);
    ASSERT_TRUE(shard.core.accepting()) << "nobody asked to read first";
    shard.core.on_accepts(1, true);
    shard.log_in(shard.connect(), uid, now);
    shard.core.on_poll(1, true);
    static_cast<void>(shard.core.end_round());
  }

  /// The session on `old_shard` is half-open and expires while its client's new LOGIN lies in the
  /// accept queue of `new_shard`.
  void expect_kept(FakeShard& old_shard, FakeShard& new_shard) {
    const MonoTime deadline = online_at(old_shard, at(seconds{1})).deadline;
    old_shard.turn(deadline);
    exchange_mail(deadline);
    turn_with_login(new_shard, deadline);
    exchange_mail(deadline);
    for (int i = 0; i < 5; ++i)
      turn_both(deadline);
    EXPECT_EQ(first.core.edges().size(), 1U) << "online once, and never offline";
    EXPECT_EQ(first.core.registry().live_sessions(), 1U);
  }

  std::string uid = "alice";
  FakeShard first;
  FakeShard second;
};

TEST_F(ShardCoreNodeTest, KeepsALingeringUserWhoComesBackThroughAnotherShard) {
  FakeSession& old = online_at(first, at(seconds{1}));
  first.end(old, CloseReason::kPeerClosed, at(seconds{1}));
  first.core.wheel().cancel(old);
  first.turn(at(seconds{2}));

  const MonoTime deadline = at(seconds{31});
  first.turn(deadline);
  exchange_mail(deadline);
  turn_with_login(second, deadline);
  exchange_mail(deadline);
  for (int i = 0; i < 5; ++i)
    turn_both(deadline);
  EXPECT_EQ(first.core.edges().size(), 1U) << "online once, and never offline";
  EXPECT_EQ(first.core.registry().online_users(), 1U);
}

TEST_F(ShardCoreNodeTest, KeepsAUserOfItsOwnWhoseNewLoginWaitsUnreadElsewhere) {
  expect_kept(first, second);
}

TEST_F(ShardCoreNodeTest, KeepsAUserOfAnotherShardWhoseNewLoginWaitsUnreadAtHome) {
  expect_kept(second, first);
}

TEST_F(ShardCoreNodeTest, EndsASilentUserOnceEveryShardHasRead) {
  online_at(second, at(seconds{1}));
  const MonoTime deadline = at(seconds{31});
  second.turn(deadline);
  EXPECT_EQ(first.core.edges().size(), 1U);
  for (int i = 0; i < 6; ++i)
    turn_both(deadline);
  ASSERT_EQ(first.core.edges().size(), 2U);
  EXPECT_EQ(first.core.edges().at(1).reason, EdgeReason::kTimeout);
  EXPECT_EQ(first.core.edges().at(1).due, deadline);
  EXPECT_FALSE(first.core.has_work() || second.core.has_work());
}

TEST_F(ShardCoreNodeTest, LetsASilentUserLingerWhoseFenceWillNotCome) {
  online_at(second, at(seconds{1}));
  const MonoTime deadline = at(seconds{31});
  second.turn(deadline);  // asks for a fence
  first.core.hold_lingering();
  second.core.hold_lingering();
  second.core.release_silent(deadline);
  for (int i = 0; i < 6; ++i)
    turn_both(deadline + seconds{i});
  EXPECT_EQ(first.core.edges().size(), 1U) << "online";
  EXPECT_EQ(first.core.registry().lingering_users(), 1U);
  const UserView user = first.core.find_user(uid, deadline);
  ASSERT_EQ(user.sessions.size(), 1U);
  EXPECT_EQ(user.sessions[0].last_packet, at(seconds{1}));
}

class ShardCoreDeadlinesTest : public ShardCoreNodeTest {
 protected:
  ShardCoreDeadlinesTest() : ShardCoreNodeTest(true) {}
};

TEST_F(ShardCoreDeadlinesTest, TellsTheHomeOfTouchedSessionsOnceATick) {
  FakeSession& session = online_at(second, at(seconds{1}));
  ASSERT_EQ(first.core.take_deadlines().size(), 1U);
  const MonoTime packet = at(seconds{5});
  second.touches.push_back({session.user, session.ref, packet, packet + kTimeout});
  second.core.note_touched(packet);
  second.core.note_touched(packet);
  turn_both(packet);
  EXPECT_FALSE(first.core.has_work());
  turn_both(packet + kTick);
  const DeadlineBatch changed = first.core.take_deadlines();
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed.at(0).uid, uid);
  EXPECT_EQ(changed.at(0).deadline, packet + kTimeout);
  EXPECT_EQ(changed.at(0).last_seen, packet);
}

TEST_F(ShardCoreNodeTest, AsksForOneFenceForAllWhoseDeadlineHadCome) {
  FakeSession& one = online_at(first, at(seconds{1}));
  FakeSession& two = online_at(first, at(seconds{1}));
  first.core.wheel().cancel(two);  // handled in a later round, as over the budget
  const MonoTime deadline = one.deadline;
  first.turn(deadline);
  for (int i = 0; i < 6; ++i)
    turn_both(deadline);
  first.end(two, CloseReason::kTimeout, deadline - kTimeout);
  for (int i = 0; i < 2; ++i)
    turn_both(deadline);
  EXPECT_EQ(first.core.registry().online_users(), 0U);
  EXPECT_EQ(first.fences, 1);
}

TEST_F(ShardCoreNodeTest, EndsThoseWhoBecameDueWhileAFenceRan) {
  FakeSession& one = online_at(first, at(seconds{1}));
  FakeSession& two = online_at(first, at(seconds{2}));
  first.turn(one.deadline);
  first.turn(two.deadline);  // the second shard has not answered yet
  for (int i = 0; i < 12; ++i)
    turn_both(two.deadline);
  EXPECT_EQ(first.core.registry().online_users(), 0U);
  EXPECT_FALSE(first.core.has_work());
}

// --- Holds --------------------------------------------------------------------------------------

using HoldVerdict = PresenceRegistry::HoldVerdict;

TEST_F(ShardCoreTest, HoldAndReleaseReachTheSessions) {
  FakeSession& session = online("alice", at(seconds{1}));
  EXPECT_EQ(shard.core.hold("alice", at(hours{1}), at(seconds{2})), HoldVerdict::kHeld);
  settle(at(seconds{2}));
  EXPECT_EQ(session.held_since, at(seconds{2}));
  EXPECT_EQ(shard.core.release("alice", at(seconds{5})), seconds{3});
  settle(at(seconds{5}));
  EXPECT_EQ(session.held_since, std::nullopt);
}

TEST_F(ShardCoreTest, HoldThatIsOverReachesTheSessions) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.core.hold("alice", at(seconds{10}), at(seconds{2}));
  settle(at(seconds{9}));
  EXPECT_EQ(session.held_since, at(seconds{2}));
  settle(at(seconds{10}));
  EXPECT_EQ(session.held_since, std::nullopt);
  EXPECT_EQ(shard.holds_over, std::vector<std::string>{"alice"});
  EXPECT_EQ(shard.core.registry().held_users(), 0U);
}

TEST_F(ShardCoreTest, LingeringUserWhoWaitsForAFenceIsStillHeld) {
  FakeSession& session = online("alice", at(seconds{1}));
  shard.end(session, CloseReason::kPeerClosed, at(seconds{1}));
  shard.turn(at(seconds{1}));
  shard.turn(at(seconds{31}));  // expired, and a fence is asked for
  EXPECT_EQ(shard.core.hold("alice", at(hours{1}), at(seconds{31})), HoldVerdict::kHeld);
  settle(at(seconds{40}));
  EXPECT_EQ(edges(), 1U) << "the online edge";
  shard.core.release("alice", at(seconds{40}));
  settle(at(seconds{41}));
  settle(at(seconds{42}));
  EXPECT_EQ(edges(), 2U);
}

}  // namespace
}  // namespace pulsewheel

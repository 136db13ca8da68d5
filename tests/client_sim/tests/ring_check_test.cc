// The comparison of a ring with the record: each kind of difference, and what is none.
#include "tests/client_sim/ring_check.h"

#include <gtest/gtest.h>

#include "tests/client_sim/judge.h"
#include "tests/client_sim/options.h"
#include "tests/client_sim/redis_ring.h"
#include "tests/client_sim/tests/judge_times.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
using Presence = RecordedUser::Presence;

constexpr std::size_t kSlots = 32;
constexpr std::int64_t kUnixMs = 1'700'000'000'000;

/// Time 0 is when Redis' clock, and then the ring, was read. One user, who sent a packet at -5 s:
/// the deadline is at 15 s. Allowed are [14.75 s, 18.25 s].
class RingCheckTest : public testing::Test {
 protected:
  RingCheckTest() {
    before.taken = at(-4s);
    after.taken = at(1s);
    RecordedUser user;
    user.presence = Presence::kOnline;
    user.since = at(-60s);
    user.deadline_min = user.deadline_max = at(15s);
    user.timeout = 20s;
    before.users = after.users = {user};
    ring.slots = kSlots;
    ring.users.resize(1);
    file(15s);
  }

  RingEntry& entry() { return ring.users[0]; }

  /// Puts the user into the ring, in order.
  void file(Duration deadline) {
    entry().deadline_ms = kUnixMs + deadline / 1ms;
    const std::int64_t slot = (entry().deadline_ms / 1'000 + 1) % std::int64_t{kSlots};
    entry().slot = static_cast<std::int8_t>(slot);
    entry().sets = std::uint64_t{1} << slot;
  }
  void set_presence(Presence presence) {
    before.users[0].presence = after.users[0].presence = presence;
  }
  RingDifferences found() const { return compare(rules, ring, clock, before, after); }
  void expect_only(RingFault fault) const {
    const RingDifferences differences = found();
    EXPECT_EQ(differences.of(fault), 1U) << to_string(fault);
    EXPECT_EQ(differences.total(), 1U);
    if (fault == RingFault::kUnknownUser) return;
    EXPECT_EQ(differences.users, (std::vector<DifferentUser>{{0, fault}}));
  }

  RingRules rules{1s, 2s, 250ms};
  RingSnapshot ring;
  RingClock clock{kUnixMs, at(0s), at(0s)};
  RingRecord before;
  RingRecord after;
};

TEST_F(RingCheckTest, FindsNothingInARingThatIsRight) {
  EXPECT_EQ(found().total(), 0U);
  EXPECT_EQ(found().online, 1U);
  entry() = {};
  set_presence(Presence::kOffline);
  EXPECT_EQ(found().total(), 0U);
  EXPECT_EQ(found().offline, 1U);
}

TEST_F(RingCheckTest, FindsWhoIsMissing) {
  entry() = {};
  expect_only(RingFault::kMissing);
}

TEST_F(RingCheckTest, FindsWhoWasLeftBehindAnywhere) {
  set_presence(Presence::kOffline);
  expect_only(RingFault::kLeftBehind);
  const RingEntry whole = entry();
  entry() = {.slot = whole.slot};
  expect_only(RingFault::kLeftBehind);
  entry() = {.sets = whole.sets};
  expect_only(RingFault::kLeftBehind);
  entry() = {.deadline_ms = whole.deadline_ms};
  expect_only(RingFault::kLeftBehind);
}

TEST_F(RingCheckTest, FindsWhatIsNotInOneSlotAsTheIndexSays) {
  const RingEntry whole = entry();
  entry().slot = RingEntry::kNotIndexed;
  expect_only(RingFault::kNotIndexed);
  entry().slot = RingEntry::kUnknownSlot;
  expect_only(RingFault::kNotInSlot);
  entry() = whole;
  entry().sets = 0;
  expect_only(RingFault::kNotInSlot);
  entry() = whole;
  entry().sets = std::uint64_t{1} << (whole.slot + 1) % kSlots;
  expect_only(RingFault::kNotInSlot);
  entry() = whole;
  entry().sets |= std::uint64_t{1} << (whole.slot + 1) % kSlots;
  expect_only(RingFault::kSeveralSlots);
}

TEST_F(RingCheckTest, LooksAtTheSlotsOfUnclearUsersToo) {
  set_presence(Presence::kUnclear);
  EXPECT_EQ(found().total(), 0U);
  entry().sets |= std::uint64_t{1} << (entry().slot + 1) % kSlots;
  expect_only(RingFault::kSeveralSlots);
  entry() = {};
  EXPECT_EQ(found().total(), 0U);
  EXPECT_EQ(found().unclear, 1U);
}

TEST_F(RingCheckTest, FindsADeadlineThatIsNotTheSlots) {
  entry().deadline_ms += 1'000;
  expect_only(RingFault::kWrongSlot);
  entry().deadline_ms = RingEntry::kNoDeadline;
  expect_only(RingFault::kNoDeadline);
}

TEST_F(RingCheckTest, HoldsTheDeadlineAgainstThePackets) {
  struct Case {
    Duration deadline;
    std::optional<RingFault> fault;
  };
  for (const Case& c : {Case{14'749ms, RingFault::kDeadlineEarly},
                        {14'750ms, std::nullopt},
                        {18'250ms, std::nullopt},
                        {18'251ms, RingFault::kDeadlineLate}}) {
    file(c.deadline);
    EXPECT_EQ(found().total(), c.fault ? 1U : 0U) << c.deadline / 1ms;
    if (!c.fault) continue;
    EXPECT_EQ(found().of(*c.fault), 1U) << c.deadline / 1ms;
  }
}

TEST_F(RingCheckTest, ALaterPacketMayHaveReachedRedisOrNot) {
  after.users[0].deadline_min = after.users[0].deadline_max = at(20s);
  for (const Duration deadline : {15s, 20s}) {
    file(deadline);
    EXPECT_EQ(found().total(), 0U) << deadline / 1s;
  }
  before.users[0] = after.users[0];
  file(15s);
  expect_only(RingFault::kDeadlineEarly);
}

TEST_F(RingCheckTest, WhatRedisClockLeavesOpenIsNoDifference) {
  clock.before = at(-2s);
  file(20'250ms);
  EXPECT_EQ(found().total(), 0U);
  file(14'750ms);
  EXPECT_EQ(found().total(), 0U);
}

TEST_F(RingCheckTest, ADeadlineBeyondTheRingIsFiledAtItsEnd) {
  for (RingRecord* record : {&before, &after}) {
    record->users[0].deadline_min = record->users[0].deadline_max = at(55s);
    record->users[0].timeout = 60s;
  }
  for (const Duration deadline : {25s, 30s}) {  // 30 s from the packet, and filed again now
    file(deadline);
    EXPECT_EQ(found().total(), 0U) << deadline / 1s;
  }
  file(24s);
  expect_only(RingFault::kDeadlineEarly);
  file(32s);  // more than 30 s from the second record
  expect_only(RingFault::kDeadlineLate);
}

TEST_F(RingCheckTest, WhoIsOnlineHasADeadlineAhead) {
  for (RingRecord* record : {&before, &after}) {
    record->users[0].deadline_min = record->users[0].deadline_max = at(20s);
    record->users[0].timeout = 60s;  // last heard of 40 s ago, filed for 30 s then, and not again
  }
  file(-1s);
  expect_only(RingFault::kDeadlineEarly);
}

TEST_F(RingCheckTest, DoesNotJudgeWhoChangedBetweenTheRecords) {
  entry() = {};
  after.users[0].since = at(-1s);  // offline and online again
  EXPECT_EQ(found().total(), 0U);
  EXPECT_EQ(found().unclear, 1U);
  after.users[0] = before.users[0];
  after.users[0].presence = Presence::kOffline;
  EXPECT_EQ(found().total(), 0U);
}

TEST_F(RingCheckTest, FindsStrangersWithTheTagOfTheRun) {
  ring.strangers = {"s000001-00000007"};
  expect_only(RingFault::kUnknownUser);
}

/// Of user 0 with sessions 0 and 1.
class JudgeRecordTest : public testing::Test {
 protected:
  void log_in(Duration t, std::uint32_t session = 0) {
    judge.login_sent(session, sent(t));
    judge.login_accepted(session, at(t + 3ms), kTimeout);
  }
  void see(ObservedEdge::Kind kind, Reason reason, Duration t) {
    judge.edge(0, {kind, reason, at(t)});
  }
  void log_in_and_see_it() {
    log_in(0s);
    see(ObservedEdge::Kind::kOnline, Reason::kLogin, 5ms);
  }
  RecordedUser record(Duration t) const { return judge.record(at(t)).users[0]; }
  Presence presence(Duration t) const { return record(t).presence; }

  Judge judge{JudgeRules{}, /*users=*/1, /*sessions_per_user=*/2};
};

TEST_F(JudgeRecordTest, IsCertainOnlyBehindTheEdge) {
  EXPECT_EQ(presence(0s), Presence::kOffline);
  judge.login_sent(0, sent(0s));
  EXPECT_EQ(presence(1ms), Presence::kUnclear);
  judge.login_accepted(0, at(3ms), kTimeout);
  EXPECT_EQ(presence(4ms), Presence::kUnclear);
  see(ObservedEdge::Kind::kOnline, Reason::kLogin, 5ms);
  EXPECT_EQ(presence(6ms), Presence::kOnline);
  EXPECT_EQ(record(6ms).since, at(5ms));
}

TEST_F(JudgeRecordTest, TheDeadlineIsTheLatestOfTheSessions) {
  log_in_and_see_it();
  log_in(1s, 1);
  judge.packet_sent(0, sent(7s));
  const RecordedUser user = record(8s);
  EXPECT_EQ(user.presence, Presence::kOnline);
  EXPECT_EQ(user.deadline_min, at(7s + kTimeout));
  EXPECT_EQ(user.deadline_max, at(7s + 2ms + kTimeout));
  EXPECT_EQ(user.timeout, kTimeout);
}

TEST_F(JudgeRecordTest, ASilenceIsUnclearFromTheDeadlineToTheEdge) {
  log_in_and_see_it();
  EXPECT_EQ(presence(kTimeout - 1ms), Presence::kOnline);
  EXPECT_EQ(presence(kTimeout), Presence::kUnclear);
  see(ObservedEdge::Kind::kOffline, Reason::kTimeout, kTimeout + 500ms);
  EXPECT_EQ(presence(kTimeout + 501ms), Presence::kOffline);
}

TEST_F(JudgeRecordTest, ALogoutIsUnclearUpToTheEdge) {
  log_in_and_see_it();
  judge.logout_sent(0, sent(5s));
  EXPECT_EQ(presence(6s), Presence::kUnclear);
  see(ObservedEdge::Kind::kOffline, Reason::kLogout, 6s);
  EXPECT_EQ(presence(7s), Presence::kOffline);
}

TEST_F(JudgeRecordTest, AKickIsUnclearUpToTheEdge) {
  log_in_and_see_it();
  judge.kick_sent(0);
  EXPECT_EQ(presence(1s), Presence::kUnclear);
  see(ObservedEdge::Kind::kOffline, Reason::kKicked, 1s);
  EXPECT_EQ(presence(2s), Presence::kOffline);
}

TEST_F(JudgeRecordTest, WhoseConnectionClosedLingers) {
  log_in_and_see_it();
  judge.closed(0, sent(5s));
  EXPECT_EQ(presence(6s), Presence::kOnline);
  judge.login_sent(0, sent(7s));
  judge.login_refused(0);
  EXPECT_EQ(presence(8s), Presence::kUnclear);
}

TEST_F(JudgeRecordTest, SaysThatTheDaemonStoodStill) {
  judge.daemon_stopped(at(1s));
  EXPECT_TRUE(judge.record(at(2s)).stalled);
  judge.daemon_continued(at(3s));
  EXPECT_TRUE(judge.record(at(3s + 500ms)).stalled);
  EXPECT_FALSE(judge.record(at(5s)).stalled);
}

TEST(RecordDeskTest, AnswersTheLastQuestionOnly) {
  RecordDesk desk;
  EXPECT_EQ(desk.question(), std::nullopt);
  desk.ask();
  const auto first = desk.question();
  ASSERT_TRUE(first);
  EXPECT_EQ(desk.wait(1ms), std::nullopt);
  desk.ask();
  desk.answer(*first, {});
  EXPECT_EQ(desk.wait(1ms), std::nullopt) << "that was the answer to the question before";
  const auto second = desk.question();
  ASSERT_TRUE(second);
  desk.answer(*second, {at(1s), false, {}});
  EXPECT_EQ(desk.question(), std::nullopt);
  const auto record = desk.wait(1ms);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->taken, at(1s));
}

TEST(RedisAddressTest, ReadsBothKinds) {
  const auto tcp = RedisAddress::parse("redis://localhost:7000/3");
  EXPECT_EQ(tcp.host, "localhost");
  EXPECT_EQ(tcp.port, 7000);
  EXPECT_EQ(tcp.database, 3U);
  EXPECT_EQ(RedisAddress::parse("redis://127.0.0.1").port, 6379);
  EXPECT_EQ(RedisAddress::parse("redis://[::1]:7000").host, "::1");
  EXPECT_EQ(RedisAddress::parse("redis://[::1]:7000").port, 7000);
  EXPECT_EQ(RedisAddress::parse("unix:///run/redis.sock").path, "/run/redis.sock");
  const auto local = RedisAddress::parse("unix:///run/redis.sock?db=2");
  EXPECT_EQ(local.path, "/run/redis.sock");
  EXPECT_EQ(local.database, 2U);
}

TEST(RedisAddressTest, RefusesTheRest) {
  for (const char* wrong :
       {"", "localhost:6379", "rediss://localhost", "redis://", "redis://:6379",
        "redis://host:port", "redis://host:70000", "redis://host/x", "redis://user:secret@host",
        "unix://", "unix://relative", "unix:///path?x=1", "unix:///path?db=x"}) {
    EXPECT_THROW(static_cast<void>(RedisAddress::parse(wrong)), UsageError) << wrong;
  }
}

}  // namespace
}  // namespace pulsewheel::sim

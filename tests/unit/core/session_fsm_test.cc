#include "daemon/core/session_fsm.h"

#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr MonoTime kAccepted{seconds{500}};
constexpr seconds kLoginTimeout{10};
constexpr NegotiatedTimeout kThirtySeconds{30'000, 20'000};
constexpr std::uint32_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();

struct WishCase {
  std::uint32_t wish_ms;
  std::uint32_t timeout_ms;
  std::uint32_t interval_ms;
};

// Without jitter.
constexpr WishCase kWishes[] = {
    {0, 30'000, 20'000},    // the default
    {1, 5'000, 3'333},      // clamped to the minimum
    {3'333, 5'000, 3'333},  // 4,999.5 rounded up
    {3'334, 5'001, 3'334},  // the first wish above it
    {3'335, 5'003, 3'335},  // odd: half a millisecond more, never a shorter interval
    {20'000, 30'000, 20'000},
    {30'000, 45'000, 30'000},
    {57'600'000, 86'400'000, 57'600'000},  // exactly the maximum
    {57'600'001, 86'400'000, 57'600'000},
    {kMaxU32, 86'400'000, 57'600'000},
};

TEST(NegotiateTest, TimeoutIsOneAndAHalfTimesTheWishClamped) {
  for (const WishCase& c : kWishes) {
    const NegotiatedTimeout result = negotiate({}, c.wish_ms, 0);
    EXPECT_EQ(result.timeout_ms, c.timeout_ms) << c.wish_ms;
    EXPECT_EQ(result.interval_ms, c.interval_ms) << c.wish_ms;
  }
}

TEST(NegotiateTest, JitterShortensByAtMostATenthAndReachesBothEnds) {
  std::uint32_t shortest = kMaxU32;
  std::uint32_t longest = 0;
  for (std::uint32_t jitter = 0; jitter < 4'000; ++jitter) {
    const std::uint32_t interval = negotiate({}, 20'000, jitter).interval_ms;
    shortest = std::min(shortest, interval);
    longest = std::max(longest, interval);
  }
  EXPECT_EQ(shortest, 18'000U);
  EXPECT_EQ(longest, 20'000U);
}

TEST(NegotiateTest, JitterLeavesTheTimeoutAlone) {
  for (const std::uint32_t jitter : {0U, 1U, 1'000U, kMaxU32}) {
    EXPECT_EQ(negotiate({}, 20'000, jitter).timeout_ms, 30'000U);
  }
}

TEST(NegotiateTest, IntervalIsAlwaysBetweenAMillisecondAndTwoThirdsOfTheTimeout) {
  const TimeoutPolicy policies[] = {
      {},
      {.timeout_default = milliseconds{1},
       .timeout_min = milliseconds{1},
       .timeout_max = hours{24}},
      {.timeout_default = nanoseconds{1},
       .timeout_min = nanoseconds{1},
       .timeout_max = nanoseconds{1}},
      {.timeout_default = seconds{1},
       .timeout_min = milliseconds{50},
       .timeout_max = hours{24 * 365}},
  };
  const std::uint32_t wishes[] = {0, 1, 2, 3, 7, 1'000, 65'535, 1U << 31, kMaxU32 - 1, kMaxU32};
  const std::uint32_t jitters[] = {0, 1, 2, 999, kMaxU32 - 1, kMaxU32};
  for (const TimeoutPolicy& policy : policies) {
    for (const std::uint32_t wish : wishes) {
      for (const std::uint32_t jitter : jitters) {
        const NegotiatedTimeout result = negotiate(policy, wish, jitter);
        const std::uint64_t longest = std::uint64_t{result.timeout_ms} * 2 / 3;
        EXPECT_GE(result.interval_ms, 1U);
        EXPECT_LE(result.interval_ms, longest);
        EXPECT_GE(result.interval_ms, longest - longest / 10);
      }
    }
  }
}

TEST(NegotiateTest, AWishThatWouldOverflowTheWireGetsTheLongestTimeoutThereIs) {
  const TimeoutPolicy policy{.timeout_max = hours{24 * 365}};
  EXPECT_EQ(negotiate(policy, kMaxU32, 0).timeout_ms, kMaxU32);
}

TEST(NegotiateTest, BoundsWithFractionsOfAMillisecondHoldExactly) {
  const TimeoutPolicy policy{.timeout_default = nanoseconds{10'500'000},
                             .timeout_min = nanoseconds{10'500'000},
                             .timeout_max = nanoseconds{20'500'000}};
  EXPECT_EQ(negotiate(policy, 1, 0).timeout_ms, 11U);
  EXPECT_EQ(negotiate(policy, 1'000, 0).timeout_ms, 20U);
  EXPECT_EQ(negotiate(policy, 0, 0).timeout_ms, 11U);
}

SessionFsm pending_session() {
  SessionFsm fsm(kAccepted, kLoginTimeout);
  EXPECT_EQ(fsm.on_login(), SessionStep::kSubmitLogin);
  return fsm;
}

SessionFsm active_session() {
  SessionFsm fsm = pending_session();
  fsm.on_login_accepted(kAccepted + seconds{1}, kThirtySeconds);
  return fsm;
}

SessionFsm closed_session() {
  SessionFsm fsm = active_session();
  fsm.close();
  return fsm;
}

TEST(SessionFsmTest, FromAcceptOnTheLoginDeadlineRuns) {
  const SessionFsm fsm(kAccepted, kLoginTimeout);
  EXPECT_EQ(fsm.state(), SessionState::kAwaitingLogin);
  EXPECT_EQ(fsm.deadline(), kAccepted + kLoginTimeout);
  EXPECT_EQ(fsm.last_packet(), kAccepted);
}

TEST(SessionFsmTest, BeforeLoginNothingElseIsAllowedNorMovesTheDeadline) {
  SessionFsm fsm(kAccepted, kLoginTimeout);
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{1}), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.on_message(kAccepted + seconds{2}), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.on_logout(kAccepted + seconds{3}), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.deadline(), kAccepted + kLoginTimeout);
}

TEST(SessionFsmTest, WhileTheLoginIsDecidedNothingIsAllowedAndTheDeadlineRunsOn) {
  SessionFsm fsm = pending_session();
  EXPECT_EQ(fsm.on_login(), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{1}), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.on_message(kAccepted + seconds{1}), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.on_logout(kAccepted + seconds{1}), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.state(), SessionState::kLoginPending);
  EXPECT_EQ(fsm.deadline(), kAccepted + kLoginTimeout);
}

TEST(SessionFsmTest, AcceptedLoginCountsFromItsArrival) {
  const SessionFsm fsm = active_session();
  EXPECT_EQ(fsm.state(), SessionState::kActive);
  EXPECT_EQ(fsm.last_packet(), kAccepted + seconds{1});
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{31});
  EXPECT_EQ(fsm.timeout(), seconds{30});
}

TEST(SessionFsmTest, KeepaliveMessageAndLogoutEachMoveTheDeadline) {
  SessionFsm fsm = active_session();
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{5}), SessionStep::kAlive);
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{35});
  EXPECT_EQ(fsm.on_message(kAccepted + seconds{6}), SessionStep::kAlive);
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{36});
  EXPECT_EQ(fsm.on_logout(kAccepted + seconds{7}), SessionStep::kLogout);
  EXPECT_EQ(fsm.last_packet(), kAccepted + seconds{7});
}

TEST(SessionFsmTest, ATimeBeforeTheLastPacketMovesNothingBack) {
  SessionFsm fsm = active_session();
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{9}), SessionStep::kAlive);
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{8}), SessionStep::kAlive);
  EXPECT_EQ(fsm.last_packet(), kAccepted + seconds{9});
}

TEST(SessionFsmTest, ASecondLoginIsNotAllowedAndIsNoProofOfLife) {
  SessionFsm fsm = active_session();
  EXPECT_EQ(fsm.on_login(), SessionStep::kNotAllowed);
  EXPECT_EQ(fsm.state(), SessionState::kActive);
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{31});
}

// --- The policy changes -------------------------------------------------------------------------

/// What holds for a client that left the choice to the server.
TimeoutPolicy policy_of(Duration timeout) {
  return {.timeout_default = timeout, .timeout_min = milliseconds{1}, .timeout_max = hours{24}};
}

TEST(SessionFsmTest, LongerTimeoutCountsFromTheLastPacket) {
  SessionFsm fsm = active_session();
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{10}), SessionStep::kAlive);
  EXPECT_EQ(fsm.on_policy_changed(policy_of(seconds{60}), 0, kAccepted + seconds{35}),
            (NegotiatedTimeout{60'000, 40'000}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{70});
  EXPECT_EQ(fsm.timeout(), seconds{60});
}

TEST(SessionFsmTest, ShorterTimeoutCountsFromTheChangeUntilTheNextPacket) {
  SessionFsm fsm = active_session();
  EXPECT_EQ(fsm.on_policy_changed(policy_of(seconds{6}), 0, kAccepted + seconds{11}),
            (NegotiatedTimeout{6'000, 4'000}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{17});
  EXPECT_EQ(fsm.timeout(), seconds{6});
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{12}), SessionStep::kAlive);
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{18});
}

TEST(SessionFsmTest, ShorterTimeoutNeverMovesTheDeadlineLater) {
  SessionFsm fsm = active_session();
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{25}), 0, kAccepted + seconds{20}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{31});
}

TEST(SessionFsmTest, LastPacketStaysTheLastPacketWhateverChanges) {
  SessionFsm fsm = active_session();
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{6}), 0, kAccepted + seconds{11}));
  EXPECT_EQ(fsm.last_packet(), kAccepted + seconds{1});
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{60}), 0, kAccepted + seconds{12}));
  EXPECT_EQ(fsm.last_packet(), kAccepted + seconds{1});
}

// The client may have followed the first change only: it has to be left the time for the second.
TEST(SessionFsmTest, SecondChangeBeforeAPacketTakesNoTimeThatTheFirstGave) {
  SessionFsm fsm = active_session();
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{10}), 0, kAccepted + seconds{15}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{25});
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{12}), 0, kAccepted + seconds{16}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{25});
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{30}), 0, kAccepted + seconds{17}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{31});
  EXPECT_TRUE(fsm.on_policy_changed(policy_of(seconds{5}), 0, kAccepted + seconds{18}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{23});
}

// Over all orders of packets and changes: never early by what the client could know, never late.
TEST(SessionFsmTest, ChangedDeadlineIsAtLeastANewTimeoutAwayOrTheOldOne) {
  for (const int packet_at : {1, 7, 19}) {
    for (const int changed_at : {0, 1, 7, 8, 19, 20, 29, 30, 31, 40}) {
      for (const int timeout : {1, 5, 29, 31, 3'600}) {
        SCOPED_TRACE(testing::Message() << packet_at << " " << changed_at << " " << timeout);
        SessionFsm fsm = active_session();
        ASSERT_EQ(fsm.on_keepalive(kAccepted + seconds{packet_at}), SessionStep::kAlive);
        const MonoTime before = fsm.deadline();
        const MonoTime now = kAccepted + seconds{changed_at};
        ASSERT_TRUE(fsm.on_policy_changed(policy_of(seconds{timeout}), 0, now));
        EXPECT_GE(fsm.deadline(), std::min(before, now + seconds{timeout}));
        EXPECT_LE(fsm.deadline(), std::max(before, fsm.last_packet() + seconds{timeout}));
        EXPECT_GE(fsm.deadline(), fsm.last_packet() + fsm.timeout());
      }
    }
  }
}

TEST(SessionFsmTest, WishIsNegotiatedAnewWhenTheBoundsChange) {
  SessionFsm fsm(kAccepted, kLoginTimeout);
  EXPECT_EQ(fsm.on_login(40'000), SessionStep::kSubmitLogin);
  fsm.on_login_accepted(kAccepted, {60'000, 40'000});
  TimeoutPolicy policy{.timeout_max = seconds{45}};
  EXPECT_EQ(fsm.on_policy_changed(policy, 0, kAccepted), (NegotiatedTimeout{45'000, 30'000}));
  policy.timeout_max = hours{1};
  EXPECT_EQ(fsm.on_policy_changed(policy, 0, kAccepted), (NegotiatedTimeout{60'000, 40'000}));
}

TEST(SessionFsmTest, PolicyThatGivesTheSameTimeoutChangesNothing) {
  SessionFsm fsm = active_session();
  const TimeoutPolicy policy{.timeout_min = seconds{1}, .timeout_max = hours{1}};
  EXPECT_EQ(fsm.on_policy_changed(policy, 999, kAccepted + seconds{9}), std::nullopt);
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{31});
}

TEST(SessionFsmTest, PolicyChangesNothingUnlessASessionIsActive) {
  for (SessionFsm fsm :
       {SessionFsm(kAccepted, kLoginTimeout), pending_session(), closed_session()}) {
    const MonoTime before = fsm.deadline();
    EXPECT_EQ(fsm.on_policy_changed(policy_of(seconds{1}), 0, kAccepted), std::nullopt);
    EXPECT_EQ(fsm.deadline(), before);
  }
}

TEST(SessionFsmTest, ShortenedDeadlineIsRoundedUpToMilliseconds) {
  SessionFsm fsm = active_session();
  EXPECT_TRUE(
      fsm.on_policy_changed(policy_of(seconds{6}), 0, kAccepted + seconds{11} + nanoseconds{1}));
  EXPECT_EQ(fsm.deadline(), kAccepted + seconds{17} + milliseconds{1});
}

TEST(SessionFsmTest, HeldSessionHasNoDeadlineAndThenWhatWasLeft) {
  SessionFsm fsm = active_session();
  const MonoTime login = fsm.last_packet();
  fsm.hold();
  EXPECT_EQ(fsm.deadline(), MonoTime::max());
  EXPECT_EQ(fsm.unheld_deadline(), login + seconds{30});
  fsm.release(login + seconds{10}, login + hours{5});
  EXPECT_FALSE(fsm.held());
  EXPECT_EQ(fsm.deadline(), login + hours{5} + seconds{20});
  EXPECT_EQ(fsm.last_packet(), login);
}

TEST(SessionFsmTest, PacketWhileHeldGivesTheWholeTimeoutAtTheRelease) {
  SessionFsm fsm = active_session();
  const MonoTime login = fsm.last_packet();
  fsm.hold();
  EXPECT_EQ(fsm.on_keepalive(login + seconds{40}), SessionStep::kAlive);
  EXPECT_EQ(fsm.deadline(), MonoTime::max());
  fsm.release(login + seconds{10}, login + seconds{100});
  EXPECT_EQ(fsm.deadline(), login + seconds{130});
}

TEST(SessionFsmTest, PacketAfterTheReleaseCountsAsEver) {
  SessionFsm fsm = active_session();
  const MonoTime login = fsm.last_packet();
  fsm.hold();
  fsm.release(login, login + seconds{100});
  EXPECT_EQ(fsm.on_keepalive(login + seconds{101}), SessionStep::kAlive);
  EXPECT_EQ(fsm.deadline(), login + seconds{131});
}

TEST(SessionFsmTest, WhoHadRunOutWhenHeldHasNothingLeft) {
  SessionFsm fsm = active_session();
  const MonoTime login = fsm.last_packet();
  fsm.hold();
  fsm.release(login + seconds{31}, login + seconds{100});
  EXPECT_EQ(fsm.deadline(), login + seconds{100});
}

TEST(SessionFsmTest, TimeoutThatChangesWhileHeldHoldsAtTheRelease) {
  SessionFsm longer = active_session();
  const MonoTime login = longer.last_packet();
  longer.hold();
  EXPECT_TRUE(longer.on_policy_changed({.timeout_default = seconds{60}}, 0, login + seconds{10}));
  EXPECT_EQ(longer.deadline(), MonoTime::max());
  longer.release(login + seconds{10}, login + hours{2});
  EXPECT_EQ(longer.deadline(), login + hours{2} + seconds{50});

  SessionFsm shorter = active_session();
  shorter.hold();
  EXPECT_TRUE(shorter.on_policy_changed({.timeout_default = seconds{10}}, 0, login + seconds{5}));
  shorter.release(login + seconds{5}, login + hours{2});
  EXPECT_EQ(shorter.deadline(), login + hours{2} + seconds{10}) << "told long ago";
}

// The wheel relies on it: on a packet it only looks at the deadline when the hook comes round.
TEST(SessionFsmTest, NoPacketMovesADeadlineBack) {
  std::minstd_rand random(1);
  const auto any = [&random](std::int64_t min, std::int64_t max) {
    return std::uniform_int_distribution<std::int64_t>(min, max)(random);
  };
  for (int life = 0; life < 200; ++life) {
    SessionFsm fsm = active_session();
    MonoTime now = fsm.last_packet();
    MonoTime since{};
    for (int step = 0; step < 200; ++step) {
      now += milliseconds{any(0, 20'000)};
      switch (any(0, 3)) {
        case 0:
          static_cast<void>(
              fsm.on_policy_changed(policy_of(seconds{any(2, 90)}), 0, fsm.held() ? since : now));
          break;
        case 1:
          if (!fsm.held()) since = now;
          fsm.hold();
          break;
        case 2:
          fsm.release(since, now);
          break;
        default: {
          const MonoTime before = fsm.deadline();
          EXPECT_EQ(fsm.on_keepalive(now), SessionStep::kAlive);
          EXPECT_GE(fsm.deadline(), before) << "life " << life << ", step " << step;
          EXPECT_EQ(fsm.unheld_deadline(), now + fsm.timeout());
        }
      }
    }
  }
}

TEST(SessionFsmTest, OnlyAnActiveSessionIsHeld) {
  SessionFsm fsm(kAccepted, kLoginTimeout);
  fsm.hold();
  EXPECT_FALSE(fsm.held());
  EXPECT_EQ(fsm.deadline(), kAccepted + kLoginTimeout);
  fsm.release(kAccepted, kAccepted + seconds{100});
  EXPECT_EQ(fsm.deadline(), kAccepted + kLoginTimeout);
}

TEST(SessionFsmTest, OnceClosedNothingChangesAnything) {
  SessionFsm fsm = closed_session();
  const MonoTime deadline = fsm.deadline();
  EXPECT_EQ(fsm.on_login(), SessionStep::kNone);
  EXPECT_EQ(fsm.on_keepalive(kAccepted + seconds{20}), SessionStep::kNone);
  EXPECT_EQ(fsm.on_message(kAccepted + seconds{20}), SessionStep::kNone);
  EXPECT_EQ(fsm.on_logout(kAccepted + seconds{20}), SessionStep::kNone);
  fsm.close();
  EXPECT_EQ(fsm.state(), SessionState::kClosed);
  EXPECT_EQ(fsm.deadline(), deadline);
  EXPECT_EQ(fsm.last_packet(), kAccepted + seconds{1});
}

TEST(SessionFsmTest, ALoginTimeoutIsRoundedUpToMilliseconds) {
  const SessionFsm fsm(kAccepted, nanoseconds{1});
  EXPECT_EQ(fsm.deadline(), kAccepted + milliseconds{1});
}

TEST(SessionFsmTest, TheLongestTimeoutFits) {
  SessionFsm fsm = pending_session();
  fsm.on_login_accepted(kAccepted, {kMaxU32, 1});
  EXPECT_EQ(fsm.deadline(), kAccepted + milliseconds{kMaxU32});
}

TEST(SessionFsmDeathTest, AcceptingALoginThatNobodyAskedForIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SessionFsm fsm(kAccepted, kLoginTimeout);
  EXPECT_DEATH(fsm.on_login_accepted(kAccepted, kThirtySeconds), "kLoginPending");
}

}  // namespace
}  // namespace pulsewheel

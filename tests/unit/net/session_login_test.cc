// From accept to a decided LOGIN.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using proto::ErrorCode;
using proto::from_hex;

// Versions 1 to 1, interval 20,000 ms, uid "abc", device "d1", no token.
const Bytes kLogin = from_hex("01 00 00 0f  01 01  00 00 4e 20  03 02 00 00  61 62 63  64 31");

TEST(SessionLoginTest, LoginIsSubmittedWithUidDeviceAndTerms) {
  FakeShard shard;
  LoopbackClient client(shard);
  const MonoTime before = MonoClock::now();
  client.send(kLogin);
  const auto login = shard.accept_login();
  EXPECT_EQ(login.uid, "abc");
  EXPECT_EQ(login.device, "d1");
  EXPECT_EQ(login.session, client.ref());
  EXPECT_GE(login.at, before);
  EXPECT_LE(login.at, MonoClock::now());
  EXPECT_EQ(login.terms.login_at, login.at);
  EXPECT_EQ(login.terms.timeout.timeout_ms, 30'000U);
  EXPECT_EQ(login.terms.version, 1);
}

TEST(SessionLoginTest, AcceptedLoginIsAcknowledgedWithItsTerms) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin);
  const auto login = shard.accept_login();
  EXPECT_EQ(client.read(4 + 6), "81 00 00 12 01 00 00 00 75 30");
  const std::uint32_t interval = login.terms.timeout.interval_ms;
  EXPECT_EQ(client.read(4), proto::to_hex(std::array{std::byte{0}, std::byte{0},
                                                     static_cast<std::byte>(interval >> 8),
                                                     static_cast<std::byte>(interval)}));
  EXPECT_EQ(client.read(8), "01 02 03 04 05 06 07 08");
  EXPECT_EQ(shard.counters.logins_accepted.value(), 1U);
}

TEST(SessionLoginTest, AcknowledgementSaysThatAnOlderSessionWasTakenOver) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin);
  shard.accept_login(true);
  EXPECT_EQ(client.read(6), "81 00 00 12 01 01");
}

TEST(SessionLoginTest, TimeoutCountsFromTheArrivalOfTheLogin) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin);
  const auto login = shard.accept_login();
  EXPECT_EQ(client.session().fsm().last_packet(), login.at);
  EXPECT_EQ(client.session().fsm().deadline(), login.at + 30s);
}

TEST(SessionLoginTest, LongLoginIsSubmittedToo) {
  FakeShard shard;
  LoopbackClient client(shard);
  const std::string uid(proto::kUidSizeMax, 'u');
  const std::string device(proto::kDeviceSizeMax, 'd');
  const std::string token(proto::kTokenSizeMax, 't');
  client.send(login_frame({.uid = uid, .device = device, .token = token}));
  const auto login = shard.accept_login();
  EXPECT_EQ(login.uid, uid);
  EXPECT_EQ(login.device, device);
  EXPECT_EQ(client.read(1), "81");
}

TEST(SessionLoginTest, NothingIsHandledBeforeTheDecision) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin + message_frame(1) + kKeepalive);
  client.send(message_frame(2, 500) + times(100, kKeepalive));
  shard.run_until([&] { return !shard.submissions.empty(); });
  client.wait_until_arrived();
  shard.run_ready();
  EXPECT_EQ(shard.counters.messages.value(), 0U);
  EXPECT_EQ(shard.counters.keepalives.value(), 0U);
  EXPECT_EQ(shard.submissions.size(), 1U);
}

TEST(SessionLoginTest, FramesSentAheadAreHandledAfterTheDecisionInOrder) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin + message_frame(1) + kKeepalive + message_frame(2, 500) + kKeepalive);
  shard.accept_login();
  EXPECT_EQ(client.read_frame().type, proto::FrameType::kLoginAck);
  EXPECT_EQ(client.read(12), "83 00 00 08 00 00 00 00 00 00 00 01");
  EXPECT_EQ(client.read(4), "82 00 00 00");
  EXPECT_EQ(client.read(12), "83 00 00 08 00 00 00 00 00 00 00 02");
  EXPECT_EQ(client.read(4), "82 00 00 00");
}

TEST(SessionLoginTest, FloodBehindALoginStaysInTheSocketUntilTheDecision) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin);
  client.wait_until_arrived();
  shard.run_until([&] { return !shard.submissions.empty(); });
  const std::uint64_t read_before = shard.counters.bytes_received.value();
  const Bytes flood = times(10'000, kKeepalive);
  while (client.send_some(flood) != 0) {
  }
  shard.run_ready();
  EXPECT_LE(shard.counters.bytes_received.value(), read_before + Session::kReadBufferSize);
}

TEST(SessionLoginTest, RefusedLoginGetsOneErrorThenFin) {
  struct Case {
    LoginVerdict verdict;
    ErrorCode code;
  };
  for (const Case& c : {Case{LoginVerdict::kTooManySessions, ErrorCode::kTooManySessions},
                        Case{LoginVerdict::kServerFull, ErrorCode::kServerFull}}) {
    SCOPED_TRACE(to_string(c.code));
    FakeShard shard;
    LoopbackClient client(shard);
    client.send(kLogin);
    shard.refuse_login(c.verdict);
    EXPECT_EQ(client.read_error(), c.code);
    EXPECT_EQ(client.read_to_fin(), "");
    EXPECT_EQ(shard.counters.logins_refused.value(), 1U);
    EXPECT_EQ(shard.counters.logins_accepted.value(), 0U);
    EXPECT_EQ(closes(shard, CloseReason::kLoginRefused), 1U);
    EXPECT_EQ(closes(shard), 1U);
    EXPECT_TRUE(shard.ends.empty());
  }
}

TEST(SessionLoginTest, FramesBehindARefusedLoginChangeNothing) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin + kKeepalive + message_frame(1) + kLogin);
  shard.refuse_login(LoginVerdict::kServerFull);
  EXPECT_EQ(client.read_error(), ErrorCode::kServerFull);
  EXPECT_EQ(client.read_to_fin(), "");
  EXPECT_EQ(shard.counters.keepalives.value(), 0U);
  EXPECT_EQ(shard.counters.messages.value(), 0U);
  EXPECT_TRUE(shard.submissions.empty());
  EXPECT_EQ(shard.refusals.size(), 1U);
}

TEST(SessionLoginTest, SecondLoginEndsTheSession) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.send(kLogin);
  EXPECT_EQ(client.read_error(), ErrorCode::kNotAllowed);
  EXPECT_EQ(client.read_to_fin(), "");
  ASSERT_EQ(shard.ends.size(), 1U);
  EXPECT_EQ(shard.ends[0].reason, CloseReason::kProtocolError);
  EXPECT_TRUE(shard.submissions.empty());
}

TEST(SessionLoginTest, SecondLoginSentAheadEndsTheSessionAfterTheAcknowledgement) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(kLogin + kKeepalive + kLogin);
  shard.accept_login();
  EXPECT_EQ(client.read_frame().type, proto::FrameType::kLoginAck);
  EXPECT_EQ(client.read(4), "82 00 00 00");
  EXPECT_EQ(client.read_error(), ErrorCode::kNotAllowed);
  EXPECT_EQ(client.read_to_fin(), "");
  EXPECT_EQ(shard.ends.size(), 1U);
}

// --- The login deadline -------------------------------------------------------------------------

class SessionLoginDeadlineTest : public testing::Test {
 protected:
  // The connection was accepted exactly at the beginning of a tick.
  SessionLoginDeadlineTest()
      : accepted_(shard_.context.clock.begin_of({0})),
        deadline_(accepted_ + shard_.options.login_timeout),
        client_(shard_, {.accepted = accepted_}) {}

  FakeShard shard_;
  MonoTime accepted_;
  MonoTime deadline_;
  LoopbackClient client_;
};

TEST_F(SessionLoginDeadlineTest, SilentPeerIsRefusedOnItAndNotBefore) {
  EXPECT_EQ(shard_.reach(deadline_ - 1ns), 0U);
  EXPECT_FALSE(client_.session().closed());
  EXPECT_EQ(shard_.reach(deadline_), 1U);
  EXPECT_EQ(client_.read_error(), ErrorCode::kLoginTimeout);
  EXPECT_EQ(client_.read_to_fin(), "");
  EXPECT_EQ(closes(shard_, CloseReason::kLoginTimeout), 1U);
  EXPECT_EQ(closes(shard_), 1U);
  EXPECT_TRUE(shard_.ends.empty());
}

TEST_F(SessionLoginDeadlineTest, CountsFromAcceptWhateverTricklesIn) {
  const Duration step = (deadline_ - accepted_) / static_cast<int>(kLogin.size());
  MonoTime now = accepted_;
  for (const std::byte& byte : std::span(kLogin).first(kLogin.size() - 1)) {
    client_.deliver(std::span(&byte, 1));
    shard_.reach(now += step);
  }
  EXPECT_FALSE(client_.session().closed());
  shard_.reach(deadline_);
  EXPECT_EQ(client_.read_error(), ErrorCode::kLoginTimeout);
  EXPECT_EQ(client_.read_to_fin(), "");
}

TEST_F(SessionLoginDeadlineTest, IsNotPutOffByUnreadBytes) {
  client_.send(kKeepalive);
  client_.wait_until_arrived();
  shard_.reach(deadline_);
  EXPECT_EQ(client_.read_error(), ErrorCode::kLoginTimeout);
  EXPECT_EQ(shard_.counters.reprieves.value(), 0U);
}

TEST_F(SessionLoginDeadlineTest, RunsOnWhileTheHomeShardDecides) {
  client_.send(kLogin);
  shard_.run_until([this] { return !shard_.submissions.empty(); });
  shard_.reach(deadline_);
  EXPECT_TRUE(client_.session().closed());
  EXPECT_EQ(client_.read_error(), ErrorCode::kLoginTimeout);
}

TEST_F(SessionLoginDeadlineTest, CutsOffALoginLongerThanTheReadBuffer) {
  const std::string token(proto::kTokenSizeMax, 't');
  const Bytes login = login_frame({.uid = "u", .token = token});
  client_.deliver(std::span(login).first(200));
  shard_.reach(deadline_);
  client_.send(std::span(login).subspan(200));  // into a session that waits for the peer's FIN
  EXPECT_EQ(client_.read_error(), ErrorCode::kLoginTimeout);
  EXPECT_EQ(client_.read_to_fin(), "");
  EXPECT_TRUE(shard_.submissions.empty());
}

// --- The end while the home shard decides -------------------------------------------------------

// Such a session reports no end: nobody knows its user yet. closed() tells the shard that the end
// of an accepted login is for it to report.
class SessionLoginPendingTest : public testing::Test {
 protected:
  SessionLoginPendingTest() {
    client_.send(kLogin);
    shard_.run_until([this] { return !shard_.submissions.empty(); });
  }

  FakeShard shard_;
  LoopbackClient client_{shard_};
};

TEST_F(SessionLoginPendingTest, GoAwayClosesWithoutAReport) {
  client_.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
  EXPECT_TRUE(client_.session().closed());
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kDraining);
  EXPECT_EQ(client_.read_to_fin(), "");
  EXPECT_TRUE(shard_.ends.empty());
  EXPECT_EQ(closes(shard_, CloseReason::kDrained), 1U);
}

TEST_F(SessionLoginPendingTest, ClosedSessionIsGoneOnceThePeerClosed) {
  client_.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
  client_.finish_sending();
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  EXPECT_TRUE(shard_.ends.empty());
}

TEST_F(SessionLoginPendingTest, FinIsSeenAfterTheDecisionAndReportedOnce) {
  client_.finish_sending();
  client_.wait_until_arrived();
  shard_.run_ready();
  EXPECT_FALSE(client_.session().closed());
  shard_.accept_login();
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kPeerClosed);
  EXPECT_EQ(shard_.ends[0].user, (UserRef{1, 1, 0}));
}

TEST_F(SessionLoginPendingTest, ResetIsSeenAfterTheDecisionAndReportedOnce) {
  client_.reset();
  shard_.accept_login();
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kPeerReset);
}

TEST_F(SessionLoginPendingTest, ResetIsSeenAfterARefusal) {
  client_.reset();
  shard_.refuse_login(LoginVerdict::kServerFull);
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  EXPECT_TRUE(shard_.ends.empty());
  EXPECT_EQ(closes(shard_), 1U);
}

}  // namespace
}  // namespace pulsewheel

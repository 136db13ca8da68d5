// How a session ends, whoever ends it, and what becomes of its connection.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;

class SessionEndTest : public testing::Test {
 protected:
  SessionEndTest() { client_.log_in(); }

  /// The session ended once, with this reason, and its memory is free.
  void expect_gone(CloseReason reason) {
    shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
    EXPECT_EQ(shard_.counters.sessions.value(), 0);
    ASSERT_EQ(shard_.ends.size(), 1U);
    EXPECT_EQ(shard_.ends[0].reason, reason);
    EXPECT_EQ(closes(shard_, reason), 1U);
    EXPECT_EQ(closes(shard_), 1U);
  }

  FakeShard shard_;
  LoopbackClient client_{shard_};
};

TEST_F(SessionEndTest, LogoutIsAcknowledgedThenFin) {
  client_.send(kLogout);
  EXPECT_EQ(client_.read_to_fin(), kLogoutAck);
  EXPECT_EQ(shard_.counters.logouts.value(), 1U);
  client_.finish_sending();
  expect_gone(CloseReason::kLogout);
}

TEST_F(SessionEndTest, LogoutIsReportedAtOnceAndTheConnectionStaysForThePeer) {
  client_.deliver(kLogout);
  EXPECT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.counters.sessions.value(), 1);
}

TEST_F(SessionEndTest, LogoutIsProofOfLife) {
  const MonoTime before = client_.session().fsm().last_packet();
  client_.deliver(kLogout);
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_GT(shard_.ends[0].last_packet, before);
}

TEST_F(SessionEndTest, LastFrameReachesAPeerThatKeptSending) {
  client_.deliver(kLogout + times(5'000, kKeepalive));
  client_.deliver(times(5'000, kKeepalive));
  EXPECT_EQ(client_.read_to_fin(), kLogoutAck);
  EXPECT_EQ(shard_.counters.keepalives.value(), 0U);
}

TEST_F(SessionEndTest, FramesBehindALogoutChangeNothing) {
  client_.deliver(kKeepalive + kLogout + kKeepalive + kLogout + login_frame("v") + Bytes(100));
  EXPECT_EQ(client_.read_to_fin(), kKeepaliveAck + " " + kLogoutAck);
  EXPECT_TRUE(shard_.refusals.empty());
  EXPECT_TRUE(shard_.submissions.empty());
  client_.finish_sending();
  expect_gone(CloseReason::kLogout);
}

TEST_F(SessionEndTest, FinEndsTheSession) {
  client_.finish_sending();
  expect_gone(CloseReason::kPeerClosed);
}

TEST_F(SessionEndTest, FramesBeforeAFinAreHandledAndAnswered) {
  client_.send(kKeepalive + message_frame(1));
  client_.finish_sending();
  EXPECT_EQ(client_.read_to_fin(), kKeepaliveAck + " 83 00 00 08 00 00 00 00 00 00 00 01");
  expect_gone(CloseReason::kPeerClosed);
}

TEST_F(SessionEndTest, FinInsideAFrameIsAFin) {
  client_.send(first_of(500, message_frame(1, 1'000)));
  client_.finish_sending();
  expect_gone(CloseReason::kPeerClosed);
  EXPECT_TRUE(shard_.refusals.empty());
}

TEST_F(SessionEndTest, ResetEndsTheSession) {
  client_.reset();
  expect_gone(CloseReason::kPeerReset);
}

TEST_F(SessionEndTest, ResetBeforeTheLoginIsCountedAndNothingMore) {
  LoopbackClient stranger(shard_);
  stranger.reset();
  shard_.run_until([&] { return shard_.is_gone(stranger.ref()); });
  EXPECT_EQ(closes(shard_, CloseReason::kPeerReset), 1U);
  EXPECT_TRUE(shard_.refusals.empty());
  EXPECT_TRUE(shard_.ends.empty());
}

TEST_F(SessionEndTest, FramesBeforeAResetAreHandledAndItCountsAsAReset) {
  client_.send(kKeepalive);
  client_.reset();
  expect_gone(CloseReason::kPeerReset);
  EXPECT_EQ(shard_.counters.keepalives.value(), 1U);
}

TEST_F(SessionEndTest, EndOfAPeerDoesNotChangeTheReasonOfAnEndedSession) {
  client_.deliver(kLogout);
  client_.reset();
  expect_gone(CloseReason::kLogout);
}

// --- GOAWAY -------------------------------------------------------------------------------------

TEST_F(SessionEndTest, GoAwayTellsTheReasonThenFin) {
  struct Case {
    proto::GoawayReason told;
    CloseReason reason;
  };
  for (const Case& c : {Case{proto::GoawayReason::kTakenOver, CloseReason::kTakenOver},
                        Case{proto::GoawayReason::kDraining, CloseReason::kDrained},
                        Case{proto::GoawayReason::kKicked, CloseReason::kKicked}}) {
    SCOPED_TRACE(to_string(c.told));
    FakeShard shard;
    LoopbackClient client(shard);
    client.log_in();
    client.session().go_away(c.told, c.reason);
    ASSERT_EQ(shard.ends.size(), 1U);
    EXPECT_EQ(shard.ends[0].reason, c.reason);
    EXPECT_EQ(client.read_goaway().reason, c.told);
    EXPECT_EQ(client.read_to_fin(), "");
    client.finish_sending();
    shard.run_until([&] { return shard.is_gone(client.ref()); });
    EXPECT_EQ(closes(shard), 1U);
  }
}

TEST_F(SessionEndTest, RetryAfterIsAtLeastTheBaseAndAtMostTwiceIt) {
  for (int i = 0; i < 50; ++i) {
    LoopbackClient client(shard_);
    client.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
    const std::uint32_t ms = client.read_goaway().retry_after_ms;
    EXPECT_GE(ms, 2'000U);
    EXPECT_LE(ms, 4'000U);
  }
}

TEST_F(SessionEndTest, ConnectionMayBeSentAwayBeforeItsLogin) {
  LoopbackClient stranger(shard_);
  stranger.session().go_away(proto::GoawayReason::kBusy, CloseReason::kBusy);
  EXPECT_EQ(stranger.read_goaway().reason, proto::GoawayReason::kBusy);
  EXPECT_EQ(stranger.read_to_fin(), "");
  EXPECT_EQ(closes(shard_, CloseReason::kBusy), 1U);
  EXPECT_TRUE(shard_.ends.empty());
}

TEST_F(SessionEndTest, FramesAfterAGoAwayChangeNothing) {
  client_.session().go_away(proto::GoawayReason::kTakenOver, CloseReason::kTakenOver);
  client_.deliver(kKeepalive + message_frame(1, 3'000) + kLogout + login_frame("v") + Bytes(100));
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kTakenOver);
  EXPECT_EQ(client_.read_to_fin(), "");
  EXPECT_EQ(shard_.counters.keepalives.value(), 0U);
  client_.finish_sending();
  expect_gone(CloseReason::kTakenOver);
}

TEST_F(SessionEndTest, SecondGoAwayChangesNothing) {
  client_.session().go_away(proto::GoawayReason::kTakenOver, CloseReason::kTakenOver);
  client_.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kTakenOver);
  EXPECT_EQ(client_.read_to_fin(), "");
  client_.finish_sending();
  expect_gone(CloseReason::kTakenOver);
}

// The rest of the frame arrives for a read that was begun before the session ended.
TEST_F(SessionEndTest, GoAwayInTheMiddleOfALongFrameLeavesThePendingReadItsMemory) {
  const Bytes message = message_frame(1, 4'000);
  client_.deliver(std::span(message).first(1'000));
  EXPECT_EQ(shard_.counters.spill_bytes.value(), static_cast<std::int64_t>(message.size()));
  client_.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
  client_.deliver(std::span(message).subspan(1'000));
  EXPECT_EQ(shard_.counters.messages.value(), 0U);
  EXPECT_EQ(shard_.counters.spill_bytes.value(), 0);
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kDraining);
  EXPECT_EQ(client_.read_to_fin(), "");
}

// --- After the last frame -----------------------------------------------------------------------

class SessionFinishTest : public SessionEndTest {
 protected:
  SessionFinishTest() {
    client_.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
    finish_at_ = shard_.due(MonoClock::now() + shard_.options.finish_timeout);
  }
  MonoTime finish_at_;  // or a tick earlier
};

TEST_F(SessionFinishTest, PeerThatNeverClosesIsCutOffAtTheFinishTimeout) {
  EXPECT_EQ(shard_.reach(finish_at_ - 1s - 1ns), 0U);
  EXPECT_EQ(shard_.counters.sessions.value(), 1);
  EXPECT_EQ(shard_.reach(finish_at_), 1U);
  expect_gone(CloseReason::kDrained);
}

TEST_F(SessionFinishTest, PeerThatFloodsIsCutOffAtTheFinishTimeout) {
  client_.deliver(times(10'000, kKeepalive));
  client_.send_some(times(10'000, kKeepalive));
  client_.wait_until_arrived();
  shard_.reach(finish_at_);
  expect_gone(CloseReason::kDrained);
  EXPECT_EQ(shard_.counters.reprieves.value(), 0U);
}

TEST_F(SessionFinishTest, PeerThatFloodsIsCutOffAtTheDiscardBound) {
  const std::uint64_t before = shard_.counters.bytes_received.value();
  const Bytes flood(64 * 1024);
  const MonoTime give_up = MonoClock::now() + kPatience;
  std::size_t handlers = 0;
  while (!shard_.is_gone(client_.ref())) {
    ASSERT_LT(MonoClock::now(), give_up);
    client_.send_some(flood);
    handlers += shard_.run_ready();
  }
  const std::uint64_t discarded = shard_.counters.bytes_received.value() - before;
  EXPECT_GT(discarded, Session::kDiscardBytesMax);
  EXPECT_LT(discarded, 2 * Session::kDiscardBytesMax);
  EXPECT_LT(handlers, 200U);  // at 64 bytes a read it would be thousands
  expect_gone(CloseReason::kDrained);
}

TEST_F(SessionFinishTest, PeerThatSendsByteByByteIsCutOffToo) {
  constexpr std::size_t kReadsMax = Session::kDiscardBytesMax / Session::kDiscardChargeMin;
  for (std::size_t i = 0; i < kReadsMax; ++i)
    client_.deliver(Bytes(1));
  EXPECT_EQ(shard_.counters.sessions.value(), 1);
  client_.send(Bytes(1));
  expect_gone(CloseReason::kDrained);
}

TEST_F(SessionFinishTest, ConnectionEndsAsSoonAsThePeerCloses) {
  client_.finish_sending();
  expect_gone(CloseReason::kDrained);
  EXPECT_EQ(shard_.reach(finish_at_), 0U);
}

TEST_F(SessionEndTest, ReleasingTheSocketTwiceReleasesItOnce) {
  const SessionPtr kept(client_.session());
  kept->release_socket();
  kept->release_socket();
  shard_.run_ready();
  EXPECT_EQ(shard_.counters.sessions.value(), 0);
  EXPECT_EQ(shard_.destroyed, 0U);
}

TEST_F(SessionEndTest, SessionLivesAsLongAsItsLastReference) {
  {
    const SessionPtr kept(client_.session());
    const SessionPtr copy = kept;  // NOLINT(performance-unnecessary-copy-initialization)
    client_.finish_sending();
    shard_.run_until([this] { return shard_.counters.sessions.value() == 0; });
    shard_.run_ready();
    EXPECT_TRUE(copy->closed());
    EXPECT_EQ(copy->peer_address(), "?");
  }
  EXPECT_EQ(shard_.destroyed, 1U);
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
}

TEST_F(SessionEndTest, LoopMayEndWhileOperationsArePending) {
  LoopbackClient reading(shard_);
  reading.session().release_socket();
  // FakeShard ends without another run of the loop for what the release has cancelled.
}

}  // namespace
}  // namespace pulsewheel

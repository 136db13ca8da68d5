// When a logged-in session is declared silent, and what a proof of life is.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using proto::from_hex;

class SessionDeadlineTest : public testing::Test {
 protected:
  SessionDeadlineTest() { client_.log_in(); }

  MonoTime deadline() { return client_.session().fsm().deadline(); }
  /// The beginning of the tick in which the deadline is final.
  MonoTime due() { return shard_.due(deadline()); }

  FakeShard shard_;
  LoopbackClient client_{shard_};
};

TEST_F(SessionDeadlineTest, SilentSessionEndsInTheFirstTickBehindItsDeadline) {
  EXPECT_EQ(shard_.reach(due() - 1ns), 0U);
  EXPECT_TRUE(shard_.ends.empty());
  const MonoTime last_packet = client_.session().fsm().last_packet();
  const MonoTime final_at = deadline();
  shard_.reach(due());
  ASSERT_EQ(shard_.ends.size(), 1U);
  const SessionEnd& end = shard_.ends[0];
  EXPECT_EQ(end.reason, CloseReason::kTimeout);
  EXPECT_EQ(end.session, client_.ref());
  EXPECT_EQ(end.user, (UserRef{1, 1, 0}));
  EXPECT_EQ(end.last_packet, last_packet);
  EXPECT_EQ(end.deadline, final_at);
  EXPECT_EQ(closes(shard_, CloseReason::kTimeout), 1U);
}

TEST_F(SessionDeadlineTest, SilentSessionIsClosedOnlyWhenItIsDismissed) {
  shard_.reach(due());
  ASSERT_EQ(shard_.closing.size(), 1U);
  EXPECT_EQ(shard_.counters.sessions.value(), 1);
  shard_.dismiss_all();
  EXPECT_EQ(shard_.counters.sessions.value(), 0);
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kTimeout);
  EXPECT_EQ(client_.read_to_fin(), "");
  shard_.run_ready();
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
  EXPECT_EQ(shard_.ends.size(), 1U);
}

TEST_F(SessionDeadlineTest, FramesBetweenTheDecisionAndTheDismissalChangeNothing) {
  shard_.reach(due());
  client_.deliver(times(1'000, kKeepalive) + message_frame(1, 8000));
  EXPECT_EQ(shard_.counters.keepalives.value(), 0U);
  EXPECT_EQ(shard_.counters.messages.value(), 0U);
  shard_.dismiss_all();
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kTimeout);
  EXPECT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(closes(shard_), 1U);
}

TEST_F(SessionDeadlineTest, PeerMayCloseBetweenTheDecisionAndTheDismissal) {
  shard_.reach(due());
  client_.reset();
  shard_.run_until([this] { return shard_.counters.sessions.value() == 0; });
  EXPECT_FALSE(shard_.is_gone(client_.ref()));  // what is to be dismissed stays
  shard_.dismiss_all();
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
  EXPECT_EQ(closes(shard_), 1U);
}

TEST_F(SessionDeadlineTest, EveryCompleteFrameMovesIt) {
  for (const Bytes& frame :
       {kKeepalive, from_hex("02 01 00 00"), message_frame(1), message_frame(2, 4'000)}) {
    const MonoTime before = deadline();
    client_.deliver(frame);
    EXPECT_GT(deadline(), before);
  }
}

TEST_F(SessionDeadlineTest, HalfFrameIsNoProofOfLife) {
  const MonoTime before = deadline();
  const Bytes message = message_frame(1, 4'000);
  for (const std::size_t size : {1, 3, 4, 60, 61, 2'000, 4'011}) {
    SCOPED_TRACE(size);
    FakeShard shard;
    LoopbackClient client(shard);
    client.log_in();
    const MonoTime unmoved = client.session().fsm().deadline();
    client.deliver(std::span(message).first(size));
    EXPECT_EQ(client.session().fsm().deadline(), unmoved);
  }
  EXPECT_EQ(deadline(), before);
}

TEST_F(SessionDeadlineTest, SessionInTheMiddleOfALongFrameEndsLikeAnyOther) {
  client_.deliver(first_of(2'000, message_frame(1, 4'000)));
  shard_.reach(due());
  ASSERT_EQ(shard_.ends.size(), 1U);
  client_.send(Bytes(1'000));
  shard_.run_ready();
  shard_.dismiss_all();
  EXPECT_EQ(shard_.counters.spill_bytes.value(), 0);
}

TEST_F(SessionDeadlineTest, UnreadBytesAreAReprieveOfOneTick) {
  const MonoTime end_of_life = due();
  client_.send(kKeepalive);
  client_.wait_until_arrived();
  EXPECT_EQ(shard_.reach(end_of_life), 1U);
  EXPECT_EQ(shard_.counters.reprieves.value(), 1U);
  EXPECT_FALSE(client_.session().closed());
  EXPECT_EQ(shard_.reach(end_of_life + 1s - 1ns), 0U);
  EXPECT_EQ(shard_.reach(end_of_life + 1s), 1U);
}

TEST_F(SessionDeadlineTest, ReprieveEndsInSilenceWhenTheBytesWereNoFrame) {
  const MonoTime end_of_life = due();
  client_.send(std::span(kKeepalive).first(3));
  client_.wait_until_arrived();
  shard_.reach(end_of_life);
  EXPECT_TRUE(shard_.ends.empty());
  shard_.run_ready();  // reads the half frame
  shard_.reach(end_of_life + 1s);
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kTimeout);
}

TEST_F(SessionDeadlineTest, FrameReadDuringTheReprieveIsProofOfLife) {
  const MonoTime before = deadline();
  client_.send(kKeepalive);
  client_.wait_until_arrived();
  shard_.reach(due());
  shard_.run_ready();
  EXPECT_GT(deadline(), before);
  EXPECT_TRUE(shard_.ends.empty());
  EXPECT_EQ(client_.read(4), "82 00 00 00");
}

TEST_F(SessionDeadlineTest, FinIsNoReprieve) {
  client_.finish_sending();
  client_.wait_until_arrived();
  shard_.reach(due());
  EXPECT_EQ(shard_.counters.reprieves.value(), 0U);
  EXPECT_EQ(shard_.ends.size(), 1U);
}

}  // namespace
}  // namespace pulsewheel

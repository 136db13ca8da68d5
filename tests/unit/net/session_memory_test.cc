// Sessions when no memory is left: each loses at most its own connection.
#include <gtest/gtest.h>

#include "tests/support/allocation_counter.h"
#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using proto::ErrorCode;
using proto::from_hex;

/// Runs what is ready while only `successes` allocations succeed.
void run_short_of_memory(FakeShard& shard, std::uint64_t successes = 0) {
  const support::FailingAllocations short_of_memory(successes);
  shard.io.restart();
  while (shard.io.poll_one() != 0) {
  }
}

TEST(SessionMemoryTest, LoginThatCannotBeSubmittedIsRefused) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.send(login_frame("u"));
  client.wait_until_arrived();
  run_short_of_memory(shard);
  EXPECT_EQ(client.read_error(), ErrorCode::kServerFull);
  EXPECT_EQ(client.read_to_fin(), "");
  EXPECT_EQ(closes(shard, CloseReason::kBusy), 1U);
}

TEST(SessionMemoryTest, LongFrameIsRefused) {
  for (const std::uint64_t successes : {0, 1}) {
    SCOPED_TRACE(successes);
    FakeShard shard;
    LoopbackClient client(shard);
    client.log_in();
    client.send(from_hex("02 00 00 00") + message_frame(1, 1'000));
    client.wait_until_arrived();
    run_short_of_memory(shard, successes);
    EXPECT_EQ(client.read(4), "82 00 00 00");
    EXPECT_EQ(client.read_error(), ErrorCode::kServerFull);
    ASSERT_EQ(shard.ends.size(), 1U);
    EXPECT_EQ(shard.ends[0].reason, CloseReason::kBusy);
  }
}

TEST(SessionMemoryTest, PeerThatDoesNotReadIsCutOff) {
  bool cut_off = true;
  std::uint64_t successes = 0;
  for (; cut_off; ++successes) {
    SCOPED_TRACE(successes);
    FakeShard shard;
    LoopbackClient client(shard, ConnectOptions::with_small_buffers());
    client.log_in();
    const Bytes keepalives = times(100, from_hex("02 00 00 00"));
    while (shard.ends.empty() && shard.counters.backlog_bytes.value() == 0) {
      client.send_some(keepalives);
      run_short_of_memory(shard, successes);
    }
    cut_off = !shard.ends.empty();
    if (cut_off) {
      EXPECT_EQ(shard.ends[0].reason, CloseReason::kSlowConsumer);
    }
  }
  EXPECT_GE(successes, 3U);  // the backlog and its bytes are two allocations
}

TEST(SessionMemoryTest, ShortFramesNeedNone) {
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  client.send(times(100, from_hex("02 00 00 00")) + message_frame(1, 20) + from_hex("04 00 00 00"));
  client.wait_until_arrived();
  run_short_of_memory(shard);
  EXPECT_EQ(shard.counters.keepalives.value(), 100U);
  ASSERT_EQ(shard.ends.size(), 1U);
  EXPECT_EQ(shard.ends[0].reason, CloseReason::kLogout);
}

// --- The news of an end -------------------------------------------------------------------------

/// A session whose host has no memory for the news of its end.
class SessionUnreportedEndTest : public testing::Test {
 protected:
  SessionUnreportedEndTest() {
    client_.log_in();
    shard_.ends.shrink_to_fit();  // so that each news takes memory
  }
  void tick() { shard_.reach(shard_.context.clock.begin_of(shard_.wheel.now() + 1)); }
  void expect_report_in_the_next_tick(CloseReason reason) {
    EXPECT_TRUE(shard_.ends.empty());
    tick();
    ASSERT_EQ(shard_.ends.size(), 1U);
    EXPECT_EQ(shard_.ends[0].reason, reason);
    EXPECT_EQ(closes(shard_, reason), 1U);
  }

  FakeShard shard_;
  LoopbackClient client_{shard_};
};

TEST_F(SessionUnreportedEndTest, IsToldInTheNextTickThoughTheConnectionIsGone) {
  const MonoTime last_packet = client_.session().fsm().last_packet();
  client_.reset();
  while (shard_.counters.sessions.value() != 0)
    run_short_of_memory(shard_);
  EXPECT_FALSE(shard_.is_gone(client_.ref()));
  expect_report_in_the_next_tick(CloseReason::kPeerReset);
  EXPECT_EQ(shard_.ends[0].last_packet, last_packet);
  shard_.run_ready();
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
}

TEST_F(SessionUnreportedEndTest, IsOfferedEachTickUntilThereIsMemory) {
  client_.reset();
  while (shard_.counters.sessions.value() != 0)
    run_short_of_memory(shard_);
  for (int i = 0; i < 5; ++i) {
    const support::FailingAllocations short_of_memory(0);
    tick();
  }
  expect_report_in_the_next_tick(CloseReason::kPeerReset);
  tick();
  EXPECT_EQ(shard_.ends.size(), 1U);
}

TEST_F(SessionUnreportedEndTest, OfALogoutIsToldAndTheClientIsAnswered) {
  client_.send(from_hex("04 00 00 00"));
  client_.wait_until_arrived();
  run_short_of_memory(shard_);
  expect_report_in_the_next_tick(CloseReason::kLogout);
  EXPECT_EQ(client_.read_to_fin(), "84 00 00 00");
}

TEST_F(SessionUnreportedEndTest, OfASilentSessionIsToldAndItsSocketIsClosedAtOnce) {
  {
    const support::FailingAllocations short_of_memory(0);
    shard_.reach(shard_.due(client_.session().fsm().deadline()));
  }
  EXPECT_EQ(shard_.counters.sessions.value(), 0);
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kTimeout);
  expect_report_in_the_next_tick(CloseReason::kTimeout);
}

TEST_F(SessionUnreportedEndTest, IsForgottenWhenTheShardEnds) {
  client_.reset();
  while (shard_.counters.sessions.value() != 0)
    run_short_of_memory(shard_);
  client_.session().abandon();
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
  EXPECT_TRUE(shard_.ends.empty());
}

// --- Every allocation ---------------------------------------------------------------------------

/// A whole life: login, a long frame, more answers than the client reads, and an end by `last` or
/// by silence. `failures` allocations fail after `successes`. True if any did.
bool live_short_of_memory(const Bytes& last, std::uint64_t successes, std::uint64_t failures) {
  FakeShard shard;
  shard.ends.shrink_to_fit();
  shard.accepts_at_once = true;
  LoopbackClient client(
      shard,
      {.client_receive_buffer = 4096, .session_send_buffer = 4096, .accepted = MonoClock::now()});
  client.send(login_frame("u") + message_frame(1, 1'000) + times(3'000, from_hex("02 00 00 00")) +
              last);
  client.wait_until_arrived();
  bool has_failed_any = false;
  {
    const support::FailingAllocations short_of_memory(successes, failures);
    while (shard.run_ready() != 0) {  // a login is decided behind the last handler
    }
    shard.reach(shard.due(MonoClock::now() + shard.options.write_timeout));
    shard.reach(shard.due(MonoClock::now() + std::chrono::minutes{1}));
    has_failed_any = short_of_memory.has_failed_any();
  }
  for (int i = 0; i < 3; ++i) {
    shard.reach(shard.context.clock.begin_of(shard.wheel.now() + 1));
    shard.dismiss_all();
    shard.run_ready();
  }
  EXPECT_TRUE(shard.is_gone(client.ref()));
  EXPECT_EQ(closes(shard), 1U);
  EXPECT_EQ(shard.ends.size(), shard.counters.logins_accepted.value());
  return has_failed_any;
}

TEST(SessionMemoryTest, WhicheverAllocationFailsEachLoginEndsOnceAndNothingIsLeft) {
  constexpr auto kAll = support::FailingAllocations::kAllThatFollow;
  for (const char* const last : {"", "04 00 00 00", "7f 00 00 00"}) {
    for (const std::uint64_t failures : {std::uint64_t{1}, std::uint64_t{2}, kAll}) {
      std::uint64_t successes = 0;
      for (bool has_failed = true; has_failed; ++successes) {
        SCOPED_TRACE(testing::Message() << "last frame " << last << ", " << failures
                                        << " failures after " << successes);
        has_failed = live_short_of_memory(from_hex(last), successes, failures);
      }
      EXPECT_GT(successes, 5U);
    }
  }
}

}  // namespace
}  // namespace pulsewheel

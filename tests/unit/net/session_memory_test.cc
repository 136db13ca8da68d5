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

}  // namespace
}  // namespace pulsewheel

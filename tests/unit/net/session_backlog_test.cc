// A peer that does not read what it is sent: the backlog is bounded, and so is its life.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/support/allocation_counter.h"
#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using proto::from_hex;

class SessionBacklogTest : public testing::Test {
 protected:
  SessionBacklogTest() { client_.log_in(); }

  /// Asks for answers without reading them, until some have to wait in the session.
  void fill_the_socket() {
    while (shard_.counters.backlog_bytes.value() == 0) {
      client_.deliver(times(100, kKeepalive));
      ++hundreds_;
    }
  }

  FakeShard shard_;
  LoopbackClient client_{shard_, ConnectOptions::with_small_buffers()};
  std::size_t hundreds_ = 0;
};

TEST_F(SessionBacklogTest, PeerThatReadsLateGetsEverythingInOrder) {
  fill_the_socket();
  client_.deliver(message_frame(1));
  for (std::size_t i = 0; i < hundreds_ * 100; ++i)
    ASSERT_EQ(client_.read(4), "82 00 00 00");
  EXPECT_EQ(client_.read(12), "83 00 00 08 00 00 00 00 00 00 00 01");
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
  client_.send(kKeepalive);
  EXPECT_EQ(client_.read(4), "82 00 00 00");
}

TEST_F(SessionBacklogTest, PeerThatNeverReadsIsCutOffAtTheCap) {
  std::int64_t longest = 0;
  const Bytes keepalives = times(16, kKeepalive);  // as many as are answered at one go
  while (!shard_.is_gone(client_.ref())) {
    const std::uint64_t all = shard_.counters.bytes_received.value() + keepalives.size();
    client_.send(keepalives);
    shard_.run_until([&] {
      return shard_.counters.bytes_received.value() == all || shard_.is_gone(client_.ref());
    });
    longest = std::max(longest, shard_.counters.backlog_bytes.value());
  }
  EXPECT_GT(longest, static_cast<std::int64_t>(shard_.options.backlog_bytes_max) - 64);
  EXPECT_LE(longest, static_cast<std::int64_t>(shard_.options.backlog_bytes_max));
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kSlowConsumer);
  EXPECT_EQ(closes(shard_, CloseReason::kSlowConsumer), 1U);
  EXPECT_EQ(closes(shard_), 1U);
}

// A backlog that is never empty must not keep what was sent long ago.
TEST_F(SessionBacklogTest, PeerThatAlwaysLagsBehindCostsNoGrowingMemory) {
  fill_the_socket();
  client_.deliver(times(2'000, kKeepalive));
  const std::int64_t before = support::heap_bytes();
  for (int i = 0; i < 200; ++i) {
    client_.deliver(times(250, kKeepalive));
    for (int ack = 0; ack < 250; ++ack)
      client_.read(4);
    ASSERT_GT(shard_.counters.backlog_bytes.value(), 0);
  }
  EXPECT_LE(support::heap_bytes() - before,
            static_cast<std::int64_t>(2 * shard_.options.backlog_bytes_max));
}

TEST_F(SessionBacklogTest, LastFrameWaitsBehindTheBacklogAndThenComesFin) {
  fill_the_socket();
  client_.deliver(kLogout);
  const std::string all = client_.read_to_fin();
  EXPECT_TRUE(all.ends_with("82 00 00 00 84 00 00 00")) << all.size();
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
}

TEST_F(SessionBacklogTest, FinishTimeoutEndsASessionWhosePeerStillDoesNotRead) {
  fill_the_socket();
  client_.deliver(kLogout);
  shard_.reach(MonoClock::now() + shard_.options.finish_timeout + shard_.context.clock.length());
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
  shard_.run_ready();
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
}

TEST_F(SessionBacklogTest, ResetDropsTheBacklog) {
  fill_the_socket();
  client_.reset();
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kPeerReset);
}

// What the kernel cuts off is a lost connection like any other: its user lingers.
TEST_F(SessionBacklogTest, UserTimeoutOfTheKernelIsAResetThatLingers) {
  ConnectOptions options = ConnectOptions::with_small_buffers();
  options.session_user_timeout_ms = 50;
  LoopbackClient stuck(shard_, options);
  stuck.log_in("v");
  while (shard_.counters.backlog_bytes.value() == 0)
    stuck.deliver(times(100, kKeepalive));
  shard_.run_until([this] { return !shard_.ends.empty(); });  // the kernel's first probes
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kPeerReset);
  EXPECT_TRUE(lingers(shard_.ends[0].reason));
  EXPECT_GT(shard_.ends[0].deadline, MonoClock::now());
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
}

TEST_F(SessionBacklogTest, DismissedSessionDropsTheBacklog) {
  fill_the_socket();
  shard_.reach(shard_.due(client_.session().fsm().deadline()));
  ASSERT_EQ(shard_.closing.size(), 1U);
  shard_.dismiss_all();
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
}

// --- The write deadline -------------------------------------------------------------------------

class SessionWriteDeadlineTest : public SessionBacklogTest {
 protected:
  SessionWriteDeadlineTest() {
    begin_ = MonoClock::now();
    fill_the_socket();
  }

  /// The end of the write timeout of a backlog that made progress at `progress`, by the tick.
  MonoTime due(MonoTime progress) { return shard_.due(progress + shard_.options.write_timeout); }
  void expect_cut() {
    ASSERT_EQ(shard_.ends.size(), 1U);
    EXPECT_EQ(shard_.ends[0].reason, CloseReason::kSlowConsumer);
    EXPECT_EQ(closes(shard_), 1U);
    shard_.dismiss_all();
    EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
    shard_.run_ready();
    EXPECT_TRUE(shard_.is_gone(client_.ref()));
  }

  MonoTime begin_;
};

TEST_F(SessionWriteDeadlineTest, CutsAPeerThatNeverReadsOnItAndNotBefore) {
  shard_.reach(due(begin_) - 1ns);
  EXPECT_TRUE(shard_.ends.empty());
  shard_.reach(due(MonoClock::now()));
  expect_cut();
}

TEST_F(SessionWriteDeadlineTest, IsNotPutOffByWhatThePeerSends) {
  for (const char* const frame : {"02 00 00 00", "02 01 00 00"}) {
    SCOPED_TRACE(frame);
    FakeShard shard;
    LoopbackClient client(shard, ConnectOptions::with_small_buffers());
    client.log_in();
    while (shard.counters.backlog_bytes.value() == 0)
      client.deliver(times(100, kKeepalive));
    const MonoTime stuck = shard.due(MonoClock::now() + shard.options.write_timeout);
    for (MonoTime now = MonoClock::now(); now < stuck && shard.ends.empty(); now += 1s) {
      client.deliver(times(10, from_hex(frame)));
      shard.reach(now);
    }
    shard.reach(stuck);
    ASSERT_EQ(shard.ends.size(), 1U);
    EXPECT_EQ(shard.ends[0].reason, CloseReason::kSlowConsumer);
  }
}

TEST_F(SessionWriteDeadlineTest, CountsFromTheLastByteThatTheSocketTook) {
  client_.deliver(times(3'500, kKeepalive));
  const std::int64_t before = shard_.counters.backlog_bytes.value();
  shard_.reach(begin_ + shard_.options.write_timeout / 2);
  const MonoTime progress = MonoClock::now();
  shard_.run_until([&] {
    client_.read_ahead();
    return shard_.counters.backlog_bytes.value() < before;
  });
  ASSERT_GT(shard_.counters.backlog_bytes.value(), 0);
  shard_.reach(due(progress) - 1ns);
  EXPECT_TRUE(shard_.ends.empty());
  shard_.reach(due(MonoClock::now()));
  expect_cut();
}

// As after a stall of the daemon: nobody is cut off for what the loop has not come round to.
TEST_F(SessionWriteDeadlineTest, SparesAPeerThatHasReadWhenItsTimeComes) {
  const MonoTime stuck = due(MonoClock::now());
  client_.read_ahead();
  shard_.reach(stuck);
  EXPECT_TRUE(shard_.ends.empty());
  EXPECT_EQ(shard_.counters.backlog_bytes.value(), 0);
}

TEST_F(SessionWriteDeadlineTest, ShorterOneIsFollowedFromTheNextPacketOn) {
  ASSERT_GT(shard_.options.write_timeout, 2s);
  shard_.options.write_timeout = 1s;
  client_.deliver(from_hex("02 01 00 00"));
  shard_.reach(due(MonoClock::now()));
  expect_cut();
}

TEST_F(SessionWriteDeadlineTest, EndsWithTheBacklog) {
  for (std::size_t i = 0; i < hundreds_ * 100; ++i)
    client_.read(4);
  ASSERT_EQ(shard_.counters.backlog_bytes.value(), 0);
  shard_.reach(due(MonoClock::now()) + 10s);
  EXPECT_TRUE(shard_.ends.empty());
  EXPECT_FALSE(client_.session().closed());
}

TEST_F(SessionWriteDeadlineTest, SilentPeerThatDoesNotReadIsCutAtTheEarlierDeadline) {
  shard_.options.write_timeout = 60s;
  shard_.reach(shard_.due(client_.session().fsm().deadline()));
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kTimeout);
}

TEST_F(SessionWriteDeadlineTest, PeerWhoseConnectionFailsMeanwhileIsAReset) {
  client_.reset();
  shard_.reach(due(MonoClock::now()));
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kPeerReset);
}

// Logout, kick and takeover end a user at once, a slow consumer lingers: so the reason matters.
class SessionFullBacklogTest : public SessionBacklogTest {
 protected:
  SessionFullBacklogTest() {
    fill_the_socket();
    shard_.options.backlog_bytes_max =
        static_cast<std::size_t>(shard_.counters.backlog_bytes.value());
  }
};

TEST_F(SessionFullBacklogTest, KickIsAKick) {
  client_.session().go_away(proto::GoawayReason::kKicked, CloseReason::kKicked);
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kKicked);
  shard_.run_ready();
  EXPECT_TRUE(shard_.is_gone(client_.ref()));
}

TEST_F(SessionFullBacklogTest, LogoutIsALogout) {
  client_.send(kLogout);
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kLogout);
}

TEST_F(SessionFullBacklogTest, BrokenProtocolIsABrokenProtocol) {
  client_.send(from_hex("7f 00 00 00"));
  shard_.run_until([this] { return shard_.is_gone(client_.ref()); });
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].reason, CloseReason::kProtocolError);
}

}  // namespace
}  // namespace pulsewheel

// Timeouts that change while clients are logged in.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;

class SessionSettingsTest : public testing::Test {
 protected:
  SessionSettingsTest() { client_.log_in(); }

  void change_default_timeout(Duration timeout) {
    shard_.options.timeouts.timeout_default = timeout;
    client_.session().apply_timeouts();
  }
  proto::Settings read_settings() {
    const LoopbackClient::ReadFrame frame = client_.read_frame();
    EXPECT_EQ(frame.type, proto::FrameType::kSettings);
    proto::Settings settings;
    EXPECT_EQ(proto::decode_settings(frame.payload, settings), proto::ErrorCode::kNone);
    return settings;
  }
  MonoTime deadline() { return client_.session().fsm().deadline(); }

  FakeShard shard_;
  LoopbackClient client_{shard_};
};

TEST_F(SessionSettingsTest, ClientIsToldOnceWhatHoldsNow) {
  change_default_timeout(60s);
  client_.session().apply_timeouts();
  client_.send(kKeepalive);
  const proto::Settings settings = read_settings();
  EXPECT_EQ(settings.timeout_ms, 60'000U);
  EXPECT_GE(settings.interval_ms, 36'000U);
  EXPECT_LE(settings.interval_ms, 40'000U);
  EXPECT_EQ(client_.read(4), "82 00 00 00");
}

TEST_F(SessionSettingsTest, ClientWhoseTimeoutStaysHearsNothing) {
  shard_.options.timeouts.timeout_max = 1h;
  client_.session().apply_timeouts();
  client_.send(kKeepalive);
  EXPECT_EQ(client_.read(4), "82 00 00 00");
}

TEST_F(SessionSettingsTest, WishHoldsAgainWhenTheBoundsAllowIt) {
  LoopbackClient wisher(shard_);
  shard_.options.timeouts.timeout_max = 45s;
  wisher.log_in("w", 40'000);
  EXPECT_EQ(wisher.session().fsm().timeout(), 45s);
  shard_.options.timeouts.timeout_max = 1h;
  wisher.session().apply_timeouts();
  EXPECT_EQ(wisher.session().fsm().timeout(), 60s);
}

TEST_F(SessionSettingsTest, LongerTimeoutHoldsFromTheLastPacket) {
  const MonoTime old_deadline = deadline();
  change_default_timeout(60s);
  EXPECT_EQ(deadline(), old_deadline + 30s);
  shard_.reach(shard_.due(old_deadline));
  EXPECT_TRUE(shard_.ends.empty());
  shard_.reach(shard_.due(old_deadline + 30s));
  EXPECT_EQ(shard_.ends.size(), 1U);
}

TEST_F(SessionSettingsTest, ShorterTimeoutHoldsFromTheChangeAndMovesTheHookEarlier) {
  const MonoTime before = MonoClock::now();
  change_default_timeout(6s);
  const MonoTime new_deadline = deadline();
  EXPECT_GE(new_deadline, before + 6s);
  EXPECT_LE(new_deadline, MonoClock::now() + 6s + 1ms);
  shard_.reach(shard_.due(new_deadline) - 1ns);
  EXPECT_TRUE(shard_.ends.empty());
  const MonoTime last_packet = client_.session().fsm().last_packet();
  shard_.reach(shard_.due(new_deadline));
  ASSERT_EQ(shard_.ends.size(), 1U);
  EXPECT_EQ(shard_.ends[0].deadline, new_deadline);
  EXPECT_EQ(shard_.ends[0].last_packet, last_packet);
}

TEST_F(SessionSettingsTest, ClientThatFollowsAShorterTimeoutStaysOnline) {
  change_default_timeout(6s);
  const MonoTime told_until = deadline();
  client_.deliver(kKeepalive);
  EXPECT_GE(deadline(), told_until - 1ms);
  EXPECT_EQ(deadline(), client_.session().fsm().last_packet() + 6s);
}

TEST_F(SessionSettingsTest, ConnectionBeforeItsLoginIsLeftAlone) {
  LoopbackClient stranger(shard_);
  const MonoTime before = stranger.session().fsm().deadline();
  change_default_timeout(6s);
  stranger.session().apply_timeouts();
  EXPECT_EQ(stranger.session().fsm().deadline(), before);
  stranger.log_in("v");
  EXPECT_EQ(stranger.session().fsm().timeout(), 6s);
}

TEST_F(SessionSettingsTest, ChangeWhileTheHomeShardDecidesFollowsTheAcknowledgement) {
  LoopbackClient pending(shard_);
  pending.send(login_frame("v") + kKeepalive);
  shard_.run_until([this] { return !shard_.submissions.empty(); });
  shard_.options.timeouts.timeout_default = 60s;
  pending.session().apply_timeouts();
  shard_.accept_login();
  EXPECT_EQ(pending.read(10), "81 00 00 12 01 00 00 00 75 30");
  pending.read(12);
  EXPECT_EQ(pending.read(8), "c1 00 00 08 00 00 ea 60");
  pending.read(4);
  EXPECT_EQ(pending.read(4), "82 00 00 00");
  EXPECT_EQ(pending.session().fsm().timeout(), 60s);
}

TEST_F(SessionSettingsTest, ClosedSessionIsToldNothing) {
  client_.session().go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
  change_default_timeout(60s);
  EXPECT_EQ(client_.read_goaway().reason, proto::GoawayReason::kDraining);
  EXPECT_EQ(client_.read_to_fin(), "");
}

}  // namespace
}  // namespace pulsewheel

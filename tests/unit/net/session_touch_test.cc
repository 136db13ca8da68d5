// What a session's shard tells the user's home of packets, where a home wants to hear of them.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

using proto::from_hex;

std::vector<std::uint32_t> drain(TouchedSessions& touched) {
  std::vector<std::uint32_t> slots;
  touched.drain([&slots](std::uint32_t slot) { slots.push_back(slot); });
  return slots;
}

TEST(TouchedSessionsTest, KeepsEachSlotOnce) {
  TouchedSessions touched;
  touched.make_room(8);
  for (const std::uint32_t slot : {3U, 5U, 3U, 7U, 5U})
    touched.add(slot);
  EXPECT_EQ(drain(touched), (std::vector<std::uint32_t>{3, 5, 7}));
  EXPECT_TRUE(touched.empty());
  touched.add(3);
  EXPECT_EQ(drain(touched), std::vector<std::uint32_t>{3});
}

TEST(TouchedSessionsTest, KeepsNothingWithoutRoom) {
  TouchedSessions touched;
  touched.add(0);
  EXPECT_TRUE(touched.empty());
}

TEST(TouchedSessionsTest, AllocatesNothingWithinItsRoom) {
  TouchedSessions touched;
  touched.make_room(1'000);
  const std::uint64_t before = support::allocations();
  for (int lap = 0; lap < 3; ++lap) {
    for (std::uint32_t slot = 0; slot < 1'000; ++slot)
      touched.add(slot);
    if (lap == 1) touched.drain([](std::uint32_t) {});
  }
  EXPECT_EQ(support::allocations(), before);
}

TEST(SessionTouchTest, AKeepaliveAndAMessageTouchTheSession) {
  FakeShard shard;
  shard.context.touched.make_room(16);
  LoopbackClient client(shard);
  client.log_in();
  EXPECT_TRUE(shard.context.touched.empty()) << "the home knows of the login itself";
  for (const Bytes& frame : {from_hex("02 00 00 00"), message_frame(1, 20)}) {
    client.send(frame);
    shard.run_until([&] { return !shard.context.touched.empty(); });
    EXPECT_EQ(drain(shard.context.touched), std::vector<std::uint32_t>{client.ref().index});
  }
}

TEST(SessionTouchTest, SaysWhoAndUntilWhen) {
  FakeShard shard;
  LoopbackClient client(shard);
  EXPECT_FALSE(client.session().touch()) << "not logged in";
  client.log_in();
  const auto touch = client.session().touch();
  ASSERT_TRUE(touch);
  EXPECT_EQ(touch->session, client.ref());
  EXPECT_EQ(touch->user, (UserRef{1, 1, 0}));
  EXPECT_EQ(touch->last_packet, client.session().fsm().last_packet());
  EXPECT_EQ(touch->deadline, client.session().fsm().deadline());
}

}  // namespace
}  // namespace pulsewheel

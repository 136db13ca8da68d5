#include "daemon/net/handler_memory.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/allocation_counter.h"
#include "tests/unit/net/loopback_client.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel {
namespace {

constexpr std::size_t kSize = 64;

class HandlerMemoryTest : public testing::Test {
 protected:
  [[nodiscard]] bool in_place(const void* block) const {
    const auto* const begin = reinterpret_cast<const std::byte*>(&memory_);
    const auto* const at = static_cast<const std::byte*>(block);
    return at >= begin && at < begin + sizeof memory_;
  }

  HandlerMemory<kSize> memory_;
};

TEST_F(HandlerMemoryTest, OperationThatFitsIsHeldInPlace) {
  void* const block = memory_.allocate(kSize);
  EXPECT_TRUE(in_place(block));
  memory_.deallocate(block);
}

TEST_F(HandlerMemoryTest, LargerOperationGoesToTheHeap) {
  void* const block = memory_.allocate(kSize + 1);
  EXPECT_FALSE(in_place(block));
  memory_.deallocate(block);
}

TEST_F(HandlerMemoryTest, SecondOperationAtTheSameTimeGoesToTheHeap) {
  void* const first = memory_.allocate(8);
  void* const second = memory_.allocate(8);
  EXPECT_FALSE(in_place(second));
  memory_.deallocate(first);
  memory_.deallocate(second);
}

TEST_F(HandlerMemoryTest, PlaceIsGivenOutAgain) {
  memory_.deallocate(memory_.allocate(8));
  void* const again = memory_.allocate(8);
  EXPECT_TRUE(in_place(again));
  memory_.deallocate(again);
}

TEST_F(HandlerMemoryTest, BlockOfTheHeapDoesNotFreeThePlace) {
  void* const first = memory_.allocate(8);
  memory_.deallocate(memory_.allocate(8));
  void* const third = memory_.allocate(8);
  EXPECT_FALSE(in_place(third));
  memory_.deallocate(third);
  memory_.deallocate(first);
}

TEST_F(HandlerMemoryTest, ReboundAllocatorsShareIt) {
  const HandlerAllocator<int, HandlerMemory<kSize>> ints(memory_);
  HandlerAllocator<double, HandlerMemory<kSize>> doubles(ints);
  EXPECT_TRUE(ints == (HandlerAllocator<int, HandlerMemory<kSize>>(doubles)));
  double* const block = doubles.allocate(8);
  EXPECT_TRUE(in_place(block));
  doubles.deallocate(block, 8);
}

// --- The packet path ----------------------------------------------------------------------------

/// Heap allocations while the loop handles 10,000 copies of `frame`, one by one.
std::uint64_t allocations_of(const Bytes& frame, std::size_t answer_size) {
  constexpr std::uint64_t kFrames = 10'000;
  FakeShard shard;
  LoopbackClient client(shard);
  client.log_in();
  const auto handled = [&] {
    return shard.counters.keepalives.value() + shard.counters.messages.value();
  };
  std::uint64_t allocations = 0;
  while (handled() < kFrames) {
    const std::uint64_t wanted = handled() + 1;
    client.send(frame);
    const std::uint64_t before = support::allocations();
    while (handled() < wanted) {
      shard.io.restart();
      shard.io.poll_one();
    }
    allocations += support::allocations() - before;
    client.read(answer_size);
  }
  return allocations;
}

TEST(SessionAllocationTest, KeepalivesTakeNothingFromTheHeap) {
  EXPECT_EQ(allocations_of(proto::from_hex("02 00 00 00"), 4), 0U);
}

TEST(SessionAllocationTest, KeepalivesWithoutReplyTakeNothingFromTheHeap) {
  EXPECT_EQ(allocations_of(proto::from_hex("02 01 00 00"), 0), 0U);
}

TEST(SessionAllocationTest, ShortMessagesTakeNothingFromTheHeap) {
  EXPECT_EQ(allocations_of(message_frame(1, Session::kReadBufferSize - 12), 12), 0U);
}

}  // namespace
}  // namespace pulsewheel

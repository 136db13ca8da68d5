#include "daemon/base/spsc_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace pulsewheel {
namespace {

template <class T>
bool push(SpscRing<T>& ring, T value) {
  return ring.try_push(value);
}

TEST(SpscRingTest, CapacityIsRoundedUpToAPowerOfTwo) {
  struct Case {
    std::size_t asked, given;
  };
  for (const auto [asked, given] : {Case{1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {1000, 1024}}) {
    EXPECT_EQ(SpscRing<int>(asked).capacity(), given) << asked;
  }
}

TEST(SpscRingTest, EmptyRingGivesNothing) {
  SpscRing<int> ring(4);
  EXPECT_EQ(ring.try_pop(), std::nullopt);
  EXPECT_EQ(ring.size(), 0U);
}

TEST(SpscRingTest, ElementsComeOutInTheOrderTheyWentIn) {
  SpscRing<int> ring(4);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(push(ring, int{i}));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(ring.try_pop(), i);
}

TEST(SpscRingTest, FullRingRefusesAndLeavesTheValueAlone) {
  SpscRing<std::unique_ptr<int>> ring(2);
  ASSERT_TRUE(push(ring, std::make_unique<int>(1)));
  ASSERT_TRUE(push(ring, std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(ring.try_push(third));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(**ring.try_pop(), 1);
  EXPECT_TRUE(ring.try_push(third));
}

TEST(SpscRingTest, OrderHoldsRoundAfterRound) {
  SpscRing<int> ring(4);
  int next_in = 0;
  int next_out = 0;
  for (int round = 0; round < 100; ++round) {
    const int burst = round % 5;  // 0 to a full ring
    for (int i = 0; i < burst; ++i)
      ASSERT_TRUE(push(ring, int{next_in++}));
    EXPECT_EQ(ring.size(), static_cast<std::size_t>(burst));
    for (int i = 0; i < burst; ++i)
      ASSERT_EQ(ring.try_pop(), next_out++);
  }
  EXPECT_EQ(next_out, 200);
}

TEST(SpscRingTest, DestroysEachElementOnce) {
  const auto alive = std::make_shared<int>(0);
  {
    SpscRing<std::shared_ptr<int>> ring(8);
    for (int i = 0; i < 6; ++i)
      ASSERT_TRUE(push(ring, std::shared_ptr<int>(alive)));
    static_cast<void>(ring.try_pop());
    EXPECT_EQ(alive.use_count(), 1 + 5);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(SpscRingTest, TwoThreadsPassEveryElementInOrder) {
  constexpr std::uint64_t kCount = 200'000;
  SpscRing<std::unique_ptr<std::uint64_t>> ring(64);
  std::thread producer([&ring] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      auto value = std::make_unique<std::uint64_t>(i);
      while (!ring.try_push(value))
        std::this_thread::yield();
    }
  });
  std::uint64_t expected = 0;
  bool in_order = true;
  const bool all = test::eventually([&] {
    while (const auto value = ring.try_pop())
      in_order = in_order && **value == expected++;
    return expected == kCount;
  });
  producer.join();
  EXPECT_TRUE(all);
  EXPECT_TRUE(in_order);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/base/mpmc_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace pulsewheel {
namespace {

template <class T>
bool push(MpmcRing<T>& ring, T value) {
  return ring.try_push(value);
}

TEST(MpmcRingTest, EmptyRingGivesNothing) {
  MpmcRing<int> ring(4);
  EXPECT_EQ(ring.try_pop(), std::nullopt);
}

TEST(MpmcRingTest, ElementsComeOutInTheOrderTheyWentInRoundAfterRound) {
  MpmcRing<int> ring(4);
  int next_in = 0;
  int next_out = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < round % 5; ++i)
      ASSERT_TRUE(push(ring, int{next_in++}));
    for (int i = 0; i < round % 5; ++i)
      ASSERT_EQ(ring.try_pop(), next_out++);
    ASSERT_EQ(ring.try_pop(), std::nullopt);
  }
}

TEST(MpmcRingTest, FullRingRefusesAndLeavesTheValueAlone) {
  MpmcRing<std::unique_ptr<int>> ring(1);
  EXPECT_EQ(ring.capacity(), 2U);
  ASSERT_TRUE(push(ring, std::make_unique<int>(1)));
  ASSERT_TRUE(push(ring, std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(ring.try_push(third));
  EXPECT_NE(third, nullptr);
}

TEST(MpmcRingTest, DestroysEachElementOnce) {
  const auto alive = std::make_shared<int>(0);
  {
    MpmcRing<std::shared_ptr<int>> ring(8);
    for (int i = 0; i < 6; ++i)
      ASSERT_TRUE(push(ring, std::shared_ptr<int>(alive)));
    static_cast<void>(ring.try_pop());
    EXPECT_EQ(alive.use_count(), 1 + 5);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(MpmcRingTest, ManyThreadsPassEveryElementOnce) {
  constexpr int kSides = 3;
  constexpr int kEach = 20'000;
  MpmcRing<std::unique_ptr<int>> ring(16);
  std::vector<std::atomic<int>> seen(kSides * kEach);
  std::atomic<int> popped{0};
  std::vector<std::thread> threads;
  for (int side = 0; side < kSides; ++side) {
    threads.emplace_back([&, side] {
      for (int i = 0; i < kEach; ++i) {
        auto value = std::make_unique<int>(side * kEach + i);
        while (!ring.try_push(value))
          std::this_thread::yield();
      }
    });
    threads.emplace_back([&] {
      while (popped.load() < kSides * kEach) {
        if (const auto value = ring.try_pop()) {
          seen[static_cast<std::size_t>(**value)].fetch_add(1);
          popped.fetch_add(1);
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::atomic<int>& times : seen)
    ASSERT_EQ(times.load(), 1);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/base/memory_reserve.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

namespace pulsewheel {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
constexpr std::size_t kReserve = 16 * kMegabyte;
constexpr std::size_t kRoom = 128 * kMegabyte;

// Each test runs in a child of its own, which has little memory.
[[noreturn]] void finish(bool good) {
  std::_Exit(good ? 0 : 1);
}

void leave_room(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * 4'096 + bytes;
  const rlimit limits{limit, limit};
  if (::setrlimit(RLIMIT_AS, &limits) != 0) finish(false);
}

using Blocks = std::vector<std::unique_ptr<char[]>>;

/// Allocates until memory is short, or there is none.
void fill(Blocks& blocks, std::size_t blocks_max) {
  while (!memory_reserve::spent() && blocks.size() < blocks_max)
    blocks.push_back(std::make_unique_for_overwrite<char[]>(kMegabyte));
}

bool would_fail(std::size_t bytes) {
  try {
    const auto block = std::make_unique_for_overwrite<char[]>(bytes);
    return block == nullptr;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

#if defined(__has_feature)
#define PULSEWHEEL_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PULSEWHEEL_SANITIZED 1
#else
#define PULSEWHEEL_SANITIZED 0
#endif
/// A sanitizer's allocator ignores new-handlers, and needs terabytes of addresses.
constexpr bool kOwnAllocator = PULSEWHEEL_SANITIZED;

class MemoryReserveDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kOwnAllocator) GTEST_SKIP() << "a sanitizer's allocator cannot run out of memory here";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(MemoryReserveDeathTest, IsGivenUpInsteadOfAFailure) {
  const auto run = [] {
    Blocks blocks;
    blocks.reserve(1'000);
    memory_reserve::hold(kReserve);
    leave_room(kRoom);
    fill(blocks, 1'000);  // throws nothing
    finish(memory_reserve::spent() && blocks.size() < 1'000);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryReserveDeathTest, FailsWhenItIsUsedUpToo) {
  const auto run = [] {
    memory_reserve::hold(kReserve);
    leave_room(kRoom);
    finish(would_fail(2 * kRoom) && memory_reserve::spent());
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryReserveDeathTest, IsTakenBackWhenThereIsMemoryAgain) {
  const auto run = [] {
    Blocks blocks;
    blocks.reserve(1'000);
    memory_reserve::hold(kReserve);
    leave_room(kRoom);
    fill(blocks, 1'000);
    blocks.push_back(std::make_unique_for_overwrite<char[]>(kReserve - 2 * kMegabyte));
    const bool refused = !memory_reserve::retake();
    blocks.clear();
    finish(refused && memory_reserve::retake() && !memory_reserve::spent());
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(MemoryReserveTest, IsNotSpentWhereNoneIsHeld) {
  EXPECT_FALSE(memory_reserve::spent());
  EXPECT_TRUE(memory_reserve::retake());
}

}  // namespace
}  // namespace pulsewheel

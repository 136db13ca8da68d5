#include "daemon/base/descriptor_tables.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <barrier>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fstream>
#include <string>
#include <thread>

namespace pulsewheel {
namespace {

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) != -1;
}

/// How many descriptors the calling thread's table has room for.
std::size_t table_capacity() {
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("FDSize:", 0) == 0) return std::stoul(line.substr(7));
  }
  return 0;
}

/// Runs `body` on a thread of its own and waits for it.
template <class Body>
void on_a_thread(Body body) {
  std::thread(body).join();
}

TEST(DescriptorTablesTest, RaisesTheSoftLimitToTheHardOne) {
  const std::uint64_t now = raise_descriptor_limit();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
  EXPECT_EQ(now, limit.rlim_cur);
}

TEST(DescriptorTablesTest, FindsTheHighestDescriptor) {
  const int before = highest_open_descriptor();
  const int high = ::fcntl(STDERR_FILENO, F_DUPFD, before + 100);  // a gap below it
  ASSERT_GE(high, before + 100);
  EXPECT_EQ(highest_open_descriptor(), high);
  ::close(high);
  EXPECT_EQ(highest_open_descriptor(), before);
}

TEST(DescriptorTablesTest, TakesRoomForDescriptorsThatComeLater) {
  const int highest = highest_open_descriptor();
  on_a_thread([&] {  // its table is its own, and ends with it
    ASSERT_FALSE(separate_descriptor_table(highest + 1));
    ASSERT_LT(table_capacity(), 3'000U);
    reserve_descriptor_table(3'000);
    EXPECT_GE(table_capacity(), 3'000U);
    EXPECT_EQ(highest_open_descriptor(), highest);
    const std::size_t before = table_capacity();
    reserve_descriptor_table(std::uint64_t{1} << 40);  // beyond any limit
    EXPECT_EQ(table_capacity(), before);
  });
}

TEST(DescriptorTablesTest, ASeparatedThreadKeepsOnlyWhatItInherits) {
  const int inherited = ::dup(STDERR_FILENO);
  const int foreign = ::fcntl(STDERR_FILENO, F_DUPFD, highest_open_descriptor() + 1);
  on_a_thread([&] {
    ASSERT_FALSE(separate_descriptor_table(foreign));
    EXPECT_TRUE(is_open(inherited));
    EXPECT_FALSE(is_open(foreign));
    EXPECT_EQ(highest_open_descriptor(), foreign - 1);
  });
  EXPECT_TRUE(is_open(foreign));
  ::close(foreign);
  ::close(inherited);
}

TEST(DescriptorTablesTest, TablesGiveOutTheSameNumbersForDifferentFiles) {
  const int first_private = highest_open_descriptor() + 1;
  on_a_thread([&] {
    ASSERT_FALSE(separate_descriptor_table(first_private));
    const int own = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_GE(own, 0);
    on_a_thread([&] { EXPECT_TRUE(is_open(own)); });  // a child shares its parent's table
    ::close(own);
  });
}

TEST(DescriptorTablesTest, CountsEachTableOnceAndASharedOneOnce) {
  const std::size_t before = count_descriptors();
  ASSERT_GE(before, 3U);
  std::barrier separated(3);
  std::barrier counted(3);
  const int first_private = highest_open_descriptor() + 1;
  std::thread sharing([&] {
    separated.arrive_and_wait();
    counted.arrive_and_wait();
  });
  std::thread apart([&] {
    EXPECT_FALSE(separate_descriptor_table(first_private));
    const int own[] = {::dup(STDERR_FILENO), ::dup(STDERR_FILENO)};
    separated.arrive_and_wait();
    counted.arrive_and_wait();
    for (const int descriptor : own)
      ::close(descriptor);
  });
  separated.arrive_and_wait();
  EXPECT_EQ(count_descriptors(), 2 * before + 2);
  counted.arrive_and_wait();
  sharing.join();
  apart.join();
  EXPECT_EQ(count_descriptors(), before);
}

// An io_context opens its epoll and event descriptors with its first I/O object. Made before the
// tables part, they are inherited by both, and each thread can wake the other's loop.
TEST(DescriptorTablesTest, APostBetweenIdleLoopsInSeparateTablesArrives) {
  boost::asio::io_context left(1);
  boost::asio::io_context right(1);
  boost::asio::steady_timer left_reactor(left);
  boost::asio::steady_timer right_reactor(right);
  const int first_private = highest_open_descriptor() + 1;
  std::barrier apart(3);
  int hops = 0;

  const auto run = [&](boost::asio::io_context& loop) {
    const auto work = boost::asio::make_work_guard(loop);
    EXPECT_FALSE(separate_descriptor_table(first_private));
    apart.arrive_and_wait();
    loop.run();
  };
  std::thread left_thread([&] { run(left); });
  std::thread right_thread([&] { run(right); });
  apart.arrive_and_wait();

  // Each hop finds the other loop asleep in epoll_wait, or about to be.
  std::function<void()> hop = [&] {
    if (++hops == 100) {
      left.stop();
      right.stop();
      return;
    }
    boost::asio::post(hops % 2 == 0 ? left : right, hop);
  };
  boost::asio::post(left, hop);
  left_thread.join();
  right_thread.join();
  EXPECT_EQ(hops, 100);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/base/service_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "tests/support/eventually.h"

namespace pulsewheel {
namespace {

TEST(ServiceThreadTest, HasItsNameAndNoSignals) {
  std::array<char, 16> name{};
  sigset_t blocked;
  ServiceThread thread;
  thread.start("pw-test", [&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  });
  thread.join();
  EXPECT_EQ(std::string(name.data()), "pw-test");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
}

TEST(ServiceThreadTest, TheStarterKeepsItsSignals) {
  ServiceThread thread;
  thread.start("pw-test", [] {});
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

TEST(ServiceThreadTest, JoinWithinIsTrueForAThreadThatEnds) {
  ServiceThread thread;
  thread.start("pw-test", [] {});
  EXPECT_TRUE(thread.join_within(std::chrono::minutes{1}));
  EXPECT_TRUE(thread.join_within(std::chrono::minutes{1}));
}

TEST(ServiceThreadTest, WithoutAThreadThereIsNothingToJoin) {
  ServiceThread thread;
  thread.join();
  EXPECT_TRUE(thread.join_within(Duration::zero()));
}

TEST(ServiceThreadTest, WhatTheBodyOwnsIsGoneWhenItIsJoined) {
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = owned;
  ServiceThread thread;
  thread.start("pw-test", [owned = std::move(owned)] {});
  EXPECT_TRUE(thread.join_within(std::chrono::minutes{1}));
  EXPECT_TRUE(seen.expired());
}

TEST(ServiceThreadTest, AThreadThatHangsIsLeftBehindAndKeepsWhatItOwns) {
  const auto open = std::make_shared<std::atomic<bool>>(false);
  std::weak_ptr<int> seen;
  {
    auto owned = std::make_shared<int>(0);
    seen = owned;
    ServiceThread thread;
    thread.start("pw-test", [open, owned = std::move(owned)] {
      static_cast<void>(test::eventually([&] { return open->load(); }));
    });
    EXPECT_FALSE(thread.join_within(std::chrono::milliseconds{5}));
  }
  EXPECT_FALSE(seen.expired());
  open->store(true);
  EXPECT_TRUE(test::eventually([&] { return seen.expired(); }));
}

}  // namespace
}  // namespace pulsewheel

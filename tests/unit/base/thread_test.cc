#include "daemon/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <string>
#include <thread>

namespace pulsewheel {
namespace {

std::string name_of_this_thread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

TEST(ThreadTest, NamesTheCallingThreadOnly) {
  const std::string before = name_of_this_thread();
  std::thread([] {
    set_thread_name("shard-7");
    EXPECT_EQ(name_of_this_thread(), "shard-7");
  }).join();
  EXPECT_EQ(name_of_this_thread(), before);
}

TEST(ThreadTest, CutsALongName) {
  std::thread([] {
    set_thread_name("0123456789abcdefgh");
    EXPECT_EQ(name_of_this_thread(), "0123456789abcde");
  }).join();
}

TEST(ThreadTest, BlocksSignalsButNotTheThreadsOwnFaults) {
  std::thread([] {
    block_all_signals_in_this_thread();
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE, SIGCHLD}) {
      EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
    }
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) {
      EXPECT_EQ(sigismember(&blocked, signal), 0) << signal;
    }
  }).join();
  sigset_t here;
  pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGTERM), 0);
}

}  // namespace
}  // namespace pulsewheel

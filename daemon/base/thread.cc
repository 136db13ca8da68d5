#include "daemon/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>

namespace pulsewheel {

void set_thread_name(std::string_view name) noexcept {
  std::array<char, kThreadNameBytesMax + 1> text{};
  std::copy_n(name.begin(), std::min(name.size(), kThreadNameBytesMax), text.begin());
  // Fails only for a name that is too long, and a thread without a name works as well.
  pthread_setname_np(pthread_self(), text.data());
}

void block_all_signals_in_this_thread() noexcept {
  sigset_t blocked;
  sigfillset(&blocked);
  // A fault in a thread that blocks its signal kills the process without a word; sanitizers and
  // crash handlers need these to arrive.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigdelset(&blocked, fault);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

void unblock_all_signals_in_this_thread() noexcept {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace pulsewheel

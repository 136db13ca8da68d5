#include "daemon/base/service_thread.h"

#include <pthread.h>

#include <csignal>
#include <utility>

#include "daemon/base/thread.h"

namespace pulsewheel {
namespace {

/// Blocks the calling thread's signals while it lives: threads started meanwhile inherit the mask,
/// so that not even their first instruction can be interrupted.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    block_all_signals_in_this_thread();
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

ServiceThread::~ServiceThread() {
  join();
}

void ServiceThread::start(const char* name, std::function<void()> body) {
  const SignalsBlocked blocked;
  thread_ = std::thread([name, body = std::move(body), ended = ended_]() mutable {
    set_thread_name(name);
    body();
    body = nullptr;  // what it owned is gone before join_within() says so
    ended->raise();
  });
}

void ServiceThread::join() {
  if (thread_.joinable()) thread_.join();
}

bool ServiceThread::join_within(Duration limit) {
  if (!thread_.joinable()) return true;
  if (ended_->wait_until(MonoClock::now() + limit)) {
    thread_.join();
    return true;
  }
  thread_.detach();
  return false;
}

}  // namespace pulsewheel

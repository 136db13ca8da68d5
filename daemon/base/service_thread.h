// ServiceThread: a named thread of the daemon that is not a shard.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "daemon/base/time.h"
#include "daemon/base/wake_flag.h"

namespace pulsewheel {

/// Runs `body` on a thread of its own with an OS name and with signals blocked (but for faults):
/// signals are the main thread's, and a pipe whose reader is gone is an EPIPE here and no SIGPIPE.
/// The object itself belongs to one thread.
class ServiceThread {
 public:
  ServiceThread() = default;
  /// join().
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  /// Call once. `name`: at most kThreadNameBytesMax characters, a literal. Throws
  /// std::system_error when no thread can be had.
  void start(const char* name, std::function<void()> body);

  /// Waits for the body's end. No effect when there is no thread (any more).
  void join();

  /// Waits for the body's end, but no longer than `limit`. False: the thread hangs (in a system
  /// call on a stuck disk, say) and is left to itself; what its body uses must therefore be
  /// owned by the body.
  [[nodiscard]] bool join_within(Duration limit);

 private:
  const std::shared_ptr<WakeFlag> ended_ = std::make_shared<WakeFlag>();  // the thread's too
  std::thread thread_;
};

}  // namespace pulsewheel

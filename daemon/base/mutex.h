// Mutex and MutexLock: std::mutex with the annotations that clang's -Wthread-safety checks.
#pragma once

#include <mutex>

#if defined(__clang__)
#define PULSEWHEEL_TSA(attribute) __attribute__((attribute))
#else
#define PULSEWHEEL_TSA(attribute)
#endif

/// Behind a member: it may be touched only while `mutex` is held.
#define PULSEWHEEL_GUARDED_BY(mutex) PULSEWHEEL_TSA(guarded_by(mutex))
/// Behind a function: its caller holds `mutex`.
#define PULSEWHEEL_REQUIRES(mutex) PULSEWHEEL_TSA(requires_capability(mutex))

namespace pulsewheel {

class PULSEWHEEL_TSA(capability("mutex")) Mutex {
 public:
  void lock() PULSEWHEEL_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() PULSEWHEEL_TSA(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds the mutex for a scope.
class PULSEWHEEL_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PULSEWHEEL_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() PULSEWHEEL_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace pulsewheel

// ShiftedWallClock: the wall clock of a child process, to be set by the test while it runs.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {

/// Works through the library of wall_clock_shim.cc; tests get its path as
/// PULSEWHEEL_WALL_CLOCK_SHIM.
class ShiftedWallClock {
 public:
  ShiftedWallClock() {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd == -1 || ::ftruncate(fd, sizeof(Shift)) != 0) throw std::runtime_error(path_);
    void* const memory = ::mmap(nullptr, sizeof(Shift), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap failed: " + path_);
    shift_ = static_cast<Shift*>(memory);  // all zeros is a shift of 0
  }
  ~ShiftedWallClock() { ::munmap(shift_, sizeof(Shift)); }
  ShiftedWallClock(const ShiftedWallClock&) = delete;
  ShiftedWallClock& operator=(const ShiftedWallClock&) = delete;

  /// Call in the child, before it becomes the program. `shim` is the library's path.
  void adopt_in_child(const char* shim) const {
    preload_in_child(shim);
    ::setenv("PULSEWHEEL_TEST_WALL_SHIFT", path_.c_str(), 1);
  }

  /// From now on the child's wall clock is off by `shift`.
  void jump_to(std::chrono::nanoseconds shift) { shift_->store(shift.count()); }

 private:
  using Shift = std::atomic<std::int64_t>;

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "shift";
  Shift* shift_ = nullptr;
};

}  // namespace pulsewheel::test

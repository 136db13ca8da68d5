// FileDescriptor: a descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace pulsewheel {

/// Owns a descriptor, or none (a negative number). To be destroyed by a thread of the descriptor
/// table that it was opened in.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace pulsewheel

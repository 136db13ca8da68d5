// UnixSocketFile: a listening socket's name in the file system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace pulsewheel {

/// Binds a stream socket to a path, and removes the file when it goes. What a daemon that was
/// killed has left there is replaced; a socket on which anybody listens, and a file that is no
/// socket, are never touched.
class UnixSocketFile {
 public:
  static constexpr std::size_t kPathBytesMax = 107;  // sun_path, with its end

  /// The file has `mode` from its first moment on, and nobody can connect before
  /// listen() on descriptor(). Throws std::system_error that names the path and what is wrong:
  /// address_in_use when somebody listens there, file_exists when it is no socket.
  UnixSocketFile(std::string path, mode_t mode);
  /// Removes the file, unless another one has its name by now; closes what is not released.
  ~UnixSocketFile();
  UnixSocketFile(const UnixSocketFile&) = delete;
  UnixSocketFile& operator=(const UnixSocketFile&) = delete;

  /// Hands over the bound socket; call once.
  [[nodiscard]] int release_descriptor() noexcept;

 private:
  void bind(mode_t mode);

  const std::string path_;
  int descriptor_ = -1;
  dev_t device_ = 0;  // of the file
  ino_t inode_ = 0;
};

}  // namespace pulsewheel

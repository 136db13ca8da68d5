#include "daemon/admin/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/base/file_descriptor.h"

namespace pulsewheel {

namespace {

// The lock is held for microseconds; whoever holds it for longer is no daemon that starts.
constexpr int kLockAttempts = 100;
constexpr std::chrono::milliseconds kLockPause{10};

[[noreturn]] void fail(int error, const std::string& path, const std::string& what) {
  throw std::system_error(error, std::generic_category(),
                          "cannot listen on the unix socket " + path + ": " + what);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > UnixSocketFile::kPathBytesMax) {
    fail(ENAMETOOLONG, path,
         "a path of 1 to " + std::to_string(UnixSocketFile::kPathBytesMax) + " bytes is allowed");
  }
  path.copy(static_cast<char*>(address.sun_path), path.size());
  return address;
}

int open_socket(const std::string& path, int flags) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (socket < 0) fail(errno, path, "no socket");
  return socket;
}

/// Locks the folder of `path`, so that of two daemons that start at a time one sees the other's
/// socket instead of removing it between two of its steps.
FileDescriptor lock_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const int opened =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) fail(errno, path, "its folder cannot be opened");
  for (int attempt = 0; ::flock(opened, LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (attempt == kLockAttempts) {
      const int error = errno;
      ::close(opened);
      fail(error, path, "its folder is locked by another program");
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return FileDescriptor(opened);
}

/// Removes what a dead daemon has left. Throws when there is anything else.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;  // bind() says what else is wrong
  if (!S_ISSOCK(status.st_mode)) fail(EEXIST, path, "there is a file that is no socket");
  // A full backlog and a stopped owner answer otherwise: only a socket that nobody holds refuses.
  const FileDescriptor probe(open_socket(path, SOCK_NONBLOCK));
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(probe.get(), to, sizeof address) == 0 || errno != ECONNREFUSED) {
    fail(EADDRINUSE, path, "somebody listens there already");
  }
  if (::unlink(path.c_str()) != 0) fail(errno, path, "a stale socket cannot be removed");
}

}  // namespace

UnixSocketFile::UnixSocketFile(std::string path, mode_t mode) : path_(std::move(path)) {
  try {
    bind(mode);
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

void UnixSocketFile::bind(mode_t mode) {
  const sockaddr_un address = address_of(path_);
  const FileDescriptor lock = lock_folder(path_);
  remove_stale(path_, address);
  descriptor_ = open_socket(path_, 0);
  // Linux gives the file the mode of the socket, less the umask: never more than is wanted.
  if (::fchmod(descriptor_, mode) != 0) fail(errno, path_, "its mode cannot be set");
  if (::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail(errno, path_, "it cannot be made");
  }
  struct stat status {};
  if (::chmod(path_.c_str(), mode) != 0 || ::lstat(path_.c_str(), &status) != 0) {
    const int error = errno;
    ::unlink(path_.c_str());
    fail(error, path_, "its mode cannot be set");
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

UnixSocketFile::~UnixSocketFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
}

int UnixSocketFile::release_descriptor() noexcept {
  return std::exchange(descriptor_, -1);
}

}  // namespace pulsewheel

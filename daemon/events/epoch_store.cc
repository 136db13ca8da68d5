#include "daemon/events/epoch_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace pulsewheel {
namespace {

constexpr mode_t kDirMode = 0750;
constexpr mode_t kFileMode = 0640;
/// More than the longest valid content: what is longer is damaged.
constexpr std::size_t kReadBytes = 32;

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// "<what> '<path>': <errno's text>", and a hint about the folder.
[[noreturn]] void fail(std::string_view what, const std::string& path) {
  const std::string reason = std::generic_category().message(errno);
  throw StateError(std::string(what) + " '" + path + "': " + reason);
}

void make_folder(const std::string& path) {
  // Each parent in turn, as `mkdir -p` does; only what is missing gets our mode.
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), kDirMode) != 0 && errno != EEXIST) {
      fail("cannot make the state folder", part);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail("cannot use the state folder", path);
  if (!S_ISDIR(info.st_mode)) {
    throw StateError("cannot use '" + path + "' as the state folder: it is not a folder");
  }
}

/// The descriptor that holds the lock.
int lock_folder(const std::string& state_dir) {
  const std::string path = state_dir + "/lock";
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
  if (fd.get() < 0) fail("cannot use the state folder: cannot open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw StateError("the state folder '" + state_dir +
                       "' is in use by another daemon; give each daemon a folder of its own");
    }
    fail("cannot lock", path);
  }
  return fd.release();
}

/// The content of the epoch file; nullopt when there is none.
std::optional<std::string> read_file(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail("cannot read", path);
  }
  std::array<char, kReadBytes> bytes{};
  const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
  if (n < 0) fail("cannot read", path);
  return std::string(bytes.data(), static_cast<std::size_t>(n));
}

/// The number in an epoch file; nullopt for content that is none.
std::optional<std::uint32_t> parse_epoch(std::string_view content) {
  std::uint32_t epoch = 0;
  const char* const end = content.data() + content.size();
  const auto [rest, error] = std::from_chars(content.data(), end, epoch);
  const bool whole = error == std::errc{} && std::string_view(rest, end) == "\n";
  if (!whole || epoch == 0 || epoch > EpochStore::kEpochMax) return std::nullopt;
  return epoch;
}

/// The epoch of the last start; 0 before the first.
std::uint32_t read_epoch(const std::string& path) {
  const auto content = read_file(path);
  if (!content) return 0;
  const auto epoch = parse_epoch(*content);
  if (!epoch) {
    throw StateError("'" + path + "' is damaged: it must hold one number from 1 to " +
                     std::to_string(EpochStore::kEpochMax) +
                     " and a newline. Write a number greater than the last \"epoch\" in the event "
                     "log into it, or, if nobody keeps events of this node, remove it");
  }
  return *epoch;
}

/// Whether the run with epoch `last` ended in order. A damaged mark is as good as none.
bool has_ended(const std::string& path, std::uint32_t last) {
  const auto content = read_file(path);
  return content && parse_epoch(*content) == last;
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void sync_folder(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) fail("cannot sync the state folder", path);
}

/// Whole or not at all, and on disk: temporary file, fsync, rename, fsync of the folder.
void store_epoch(const std::string& state_dir, std::string_view file, std::uint32_t epoch) {
  const std::string path = state_dir + "/" + std::string(file);
  const std::string temporary = path + ".tmp";
  try {
    const Descriptor fd(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode));
    if (fd.get() < 0) fail("cannot write", temporary);
    write_all(fd.get(), std::to_string(epoch) + '\n', temporary);
    if (::fsync(fd.get()) != 0) fail("cannot sync", temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot replace", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(state_dir);
}

}  // namespace

EpochStore::EpochStore(std::string state_dir) : state_dir_(std::move(state_dir)) {
  if (state_dir_.empty()) throw StateError("the state folder's name is empty");
  make_folder(state_dir_);
  Descriptor lock(lock_folder(state_dir_));
  const std::string path = state_dir_ + "/epoch";
  const std::uint32_t last = read_epoch(path);
  if (last == kEpochMax) {
    throw StateError("'" + path + "' holds the last epoch there is, " + std::to_string(kEpochMax) +
                     ": use a new state folder and a new node name");
  }
  after_crash_ = last != 0 && !has_ended(state_dir_ + "/ended", last);
  epoch_ = last + 1;
  store_epoch(state_dir_, "epoch", epoch_);
  lock_fd_ = lock.release();
}

void EpochStore::mark_end() {
  store_epoch(state_dir_, "ended", epoch_);
}

EpochStore::~EpochStore() {
  ::close(lock_fd_);
}

}  // namespace pulsewheel

#include "daemon/events/epoch_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace pulsewheel {
namespace {

constexpr mode_t kDirMode = 0750;
/// More than the longest valid content: what is longer is damaged.
constexpr std::size_t kReadBytes = 64;

void make_folder(const std::string& path) {
  // Each parent in turn, as `mkdir -p` does; only what is missing gets our mode.
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), kDirMode) != 0 && errno != EEXIST) {
      fail_with_errno("cannot make the state folder", part);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_with_errno("cannot use the state folder", path);
  if (!S_ISDIR(info.st_mode)) {
    throw StateError("cannot use '" + path + "' as the state folder: it is not a folder");
  }
}

/// The descriptor that holds the lock.
int lock_folder(const std::string& state_dir) {
  const std::string path = state_dir + "/lock";
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, StateFileWriter::kMode));
  if (fd.get() < 0) fail_with_errno("cannot use the state folder: cannot open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw StateError("the state folder '" + state_dir +
                       "' is in use by another daemon; give each daemon a folder of its own");
    }
    fail_with_errno("cannot lock", path);
  }
  return fd.release();
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
  const auto content = read_state_file(path, kReadBytes);
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
  const auto content = read_state_file(path, kReadBytes);
  return content && parse_epoch(*content) == last;
}

void store_epoch(const std::string& state_dir, std::string_view file, std::uint32_t epoch) {
  store_state_file(state_dir, file, std::to_string(epoch) + '\n');
}

std::string to_hex(const FolderId& id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : id) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{0xf})];
  }
  return text;
}

/// nullopt for anything but 32 hexadecimal digits and a newline.
std::optional<FolderId> parse_id(std::string_view content) {
  FolderId id;
  if (content.size() != 2 * id.size() + 1 || content.back() != '\n') return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    std::uint8_t byte = 0;
    const char* const end = content.data() + 2 * i + 2;
    const auto [rest, error] = std::from_chars(content.data() + 2 * i, end, byte, 16);
    if (error != std::errc{} || rest != end) return std::nullopt;
    id[i] = std::byte{byte};
  }
  return id;
}

/// That of the folder, or a new one.
FolderId take_id(const std::string& state_dir) {
  const std::string path = state_dir + "/id";
  if (const auto content = read_state_file(path, kReadBytes)) {
    if (const auto id = parse_id(*content)) return *id;
  }
  FolderId id;
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    fail_with_errno("cannot get random bytes for", path);
  }
  store_state_file(state_dir, "id", to_hex(id) + '\n');
  return id;
}

}  // namespace

EpochStore::EpochStore(std::string state_dir) : state_dir_(std::move(state_dir)) {
  if (state_dir_.empty()) throw StateError("the state folder's name is empty");
  make_folder(state_dir_);
  FileDescriptor lock(lock_folder(state_dir_));
  const std::string path = state_dir_ + "/epoch";
  const std::uint32_t last = read_epoch(path);
  if (last == kEpochMax) {
    throw StateError("'" + path + "' holds the last epoch there is, " + std::to_string(kEpochMax) +
                     ": use a new state folder and a new node name");
  }
  after_crash_ = last != 0 && !has_ended(state_dir_ + "/ended", last);
  epoch_ = last + 1;
  folder_id_ = take_id(state_dir_);
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

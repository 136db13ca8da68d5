#include "daemon/events/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

namespace pulsewheel {
namespace {

/// Reads until `bytes` is full or the file is at its end. How much was read.
std::size_t read_full(int fd, std::span<std::byte> bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno("cannot read", path);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

/// Feeds a whole file. What was wrong with it; empty when nothing was.
std::string decode(int fd, SnapshotDecoder& decoder, const std::string& path,
                   const std::function<void(const UserImageBatch&)>& on_users) {
  std::vector<std::byte> buffer;
  while (decoder.wants() > 0) {
    buffer.resize(decoder.wants());
    const std::size_t got = read_full(fd, buffer, path);
    if (got < buffer.size()) return "it is cut off";
    if (!decoder.take(buffer)) return decoder.error();
    if (on_users && !decoder.users().empty()) on_users(decoder.users());
  }
  std::byte more{};
  if (read_full(fd, {&more, 1}, path) > 0) return "something follows its end";
  return {};
}

}  // namespace

SnapshotFile::SnapshotFile(std::string state_dir, const FolderId& folder, std::uint32_t epoch)
    : state_dir_(std::move(state_dir)), path_(state_dir_ + "/" + kSnapshotName) {
  ::unlink((path_ + ".tmp").c_str());
  try {
    check(folder, epoch);
  } catch (const StateError& error) {
    problem_ = error.what();
  }
  if (!problem_.empty()) state_ = State::kUnfit;
}

void SnapshotFile::check(const FolderId& folder, std::uint32_t epoch) {
  // A pipe of that name must not hold up the start.
  const FileDescriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    if (errno == ENOENT) return;
    fail_with_errno("cannot read", path_);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_with_errno("cannot read", path_);
  bytes_ = static_cast<std::uint64_t>(info.st_size);
  SnapshotDecoder decoder;
  if (!S_ISREG(info.st_mode)) {
    problem_ = "it is no file";
  } else if (bytes_ > kBytesMax) {
    problem_ = "it has " + std::to_string(bytes_) + " bytes, and at most " +
               std::to_string(kBytesMax) + " are read";
  } else {
    problem_ = decode(fd.get(), decoder, path_, {});
  }
  if (problem_.empty() && decoder.head()->folder != folder) {
    problem_ = "it is of another state folder";
  }
  if (problem_.empty() && decoder.head()->epoch >= epoch) {
    problem_ = "it is of epoch " + std::to_string(decoder.head()->epoch) +
               ", and no earlier run of this folder had one above " + std::to_string(epoch - 1);
  }
  if (!problem_.empty()) {
    problem_ = "'" + path_ + "' cannot be used: " + problem_;
    return;
  }
  head_ = *decoder.head();
  end_ = *decoder.end();
  state_ = State::kGood;
}

void SnapshotFile::read(MonoTime reference,
                        const std::function<void(const UserImageBatch&)>& on_users) const {
  const FileDescriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail_with_errno("cannot read", path_);
  SnapshotDecoder decoder(reference);
  const std::string problem = decode(fd.get(), decoder, path_, on_users);
  if (!problem.empty()) throw StateError("'" + path_ + "' has changed: " + problem);
}

std::string SnapshotFile::set_aside() {
  const std::string aside = path_ + ".bad";
  if (::rename(path_.c_str(), aside.c_str()) == 0) return "set aside as '" + aside + "'";
  return "it stays there (" + std::generic_category().message(errno) + ")";
}

bool remove_snapshot(const std::string& state_dir) {
  const std::string path = state_dir + "/" + kSnapshotName;
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return false;
    fail_with_errno("cannot remove", path);
  }
  sync_folder(state_dir);
  return true;
}

}  // namespace pulsewheel

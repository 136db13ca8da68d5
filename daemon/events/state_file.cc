#include "daemon/events/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace pulsewheel {

void fail_with_errno(std::string_view what, const std::string& path) {
  const std::string reason = std::generic_category().message(errno);
  throw StateError(std::string(what) + " '" + path + "': " + reason);
}

StateFileWriter::StateFileWriter(const std::string& folder, std::string_view name)
    : folder_(folder),
      path_(folder + "/" + std::string(name)),
      temporary_(path_ + ".tmp"),
      fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode)) {
  if (fd_.get() < 0) fail_with_errno("cannot write", temporary_);
}

StateFileWriter::~StateFileWriter() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void StateFileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno("cannot write", temporary_);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void StateFileWriter::commit() {
  if (::fsync(fd_.get()) != 0) fail_with_errno("cannot sync", temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("cannot replace", path_);
  committed_ = true;
  sync_folder(folder_);
}

void store_state_file(const std::string& folder, std::string_view name, std::string_view bytes) {
  StateFileWriter writer(folder, name);
  writer.write(bytes);
  writer.commit();
}

std::optional<std::string> read_state_file(const std::string& path, std::size_t bytes_max) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_with_errno("cannot read", path);
  }
  std::string bytes(bytes_max, '\0');
  const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
  if (n < 0) fail_with_errno("cannot read", path);
  bytes.resize(static_cast<std::size_t>(n));
  return bytes;
}

void sync_folder(const std::string& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) {
    fail_with_errno("cannot sync the state folder", folder);
  }
}

}  // namespace pulsewheel

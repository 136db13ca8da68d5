#include "tests/client_sim/followed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace pulsewheel::sim {

FollowedFile::FollowedFile(std::string path, bool from_start) : path_(std::move(path)) {
  open();
  if (descriptor_ >= 0 && !from_start) ::lseek(descriptor_, 0, SEEK_END);
}

FollowedFile::~FollowedFile() {
  close();
}

void FollowedFile::open() {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 && errno != ENOENT) {
    throw std::system_error(errno, std::generic_category(), path_);
  }
}

void FollowedFile::close() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

bool FollowedFile::was_replaced() const noexcept {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(descriptor_, &open_file) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         open_file.st_ino != named.st_ino;
}

bool FollowedFile::read(const OnLine& on_line) {
  if (descriptor_ < 0) open();
  if (descriptor_ < 0) return false;
  bool any = read_to_end(on_line);
  while (was_replaced()) {
    // A line that was written between the two looks belongs to the old file.
    any = read_to_end(on_line) || any;
    close();
    rest_ = 0;
    open();
    if (descriptor_ < 0) break;
    any = read_to_end(on_line) || any;
  }
  return any;
}

bool FollowedFile::read_to_end(const OnLine& on_line) {
  bool any = false;
  while (true) {
    if (buffer_.size() < rest_ + kChunkSize) buffer_.resize(rest_ + kChunkSize);
    const ssize_t got = ::read(descriptor_, buffer_.data() + rest_, kChunkSize);
    const MonoTime seen_at = MonoClock::now();
    if (got <= 0) return any;
    any = true;
    std::string_view text(buffer_.data(), rest_ + static_cast<std::size_t>(got));
    for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;) {
      on_line(text.substr(0, end), seen_at);
      text.remove_prefix(end + 1);
    }
    rest_ = text.size();
    std::memmove(buffer_.data(), text.data(), rest_);
  }
}

}  // namespace pulsewheel::sim

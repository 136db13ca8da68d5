#include "daemon/base/line_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

namespace pulsewheel {
namespace {

constexpr mode_t kFileMode = 0640;
/// How far back a line that an earlier crash tore is looked for. Longer than any line of ours.
constexpr std::size_t kTornTailBytesMax = 4096;

std::error_code last_error() {
  return {errno, std::generic_category()};
}

/// O_NONBLOCK is for named pipes and devices; regular files ignore it.
int open_for_append(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  return ::open(path.c_str(), kFlags, kFileMode);
}

/// Open succeeds only with a reader at the other end: a state that passes.
bool is_pipe_without_reader(const std::error_code& error) {
  return error == std::errc::no_such_device_or_address;
}

/// What a descriptor opened anew does not cure.
bool is_only_busy(int error) {
  return error == EAGAIN || error == EPIPE;
}

/// The last bytes of a file, at most kTornTailBytesMax. Empty when it cannot be read.
std::string read_tail(const std::string& path, std::uint64_t size) {
  std::string tail(static_cast<std::size_t>(std::min<std::uint64_t>(size, kTornTailBytesMax)),
                   '\0');
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t got = ::pread(fd, tail.data(), tail.size(), static_cast<off_t>(size - tail.size()));
  ::close(fd);
  tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return tail;
}

}  // namespace

LineFile::LineFile(Options options) : options_(std::move(options)) {
  if (!options_.calls.write) options_.calls.write = ::write;
  if (!options_.calls.ftruncate) options_.calls.ftruncate = ::ftruncate;
  const std::error_code error = reopen();
  if (error && !is_pipe_without_reader(error)) {
    throw std::system_error(error, "cannot open '" + options_.path + "' for appending");
  }
}

LineFile::LineFile(int inherited, std::string name, FileCalls calls)
    : options_{std::move(name), 0, 0, std::move(calls)}, fd_(inherited), inherited_(true) {
  if (!options_.calls.write) options_.calls.write = ::write;
  if (!options_.calls.ftruncate) options_.calls.ftruncate = ::ftruncate;
  examine();
}

LineFile::~LineFile() {
  close_own();
}

LineFile::LineFile(LineFile&& other) noexcept
    : options_(std::move(other.options_)),
      fd_(std::exchange(other.fd_, -1)),
      inherited_(other.inherited_),
      reopen_next_(other.reopen_next_),
      type_(other.type_),
      size_(other.size_),
      rotate_at_(other.rotate_at_),
      rotate_errors_(other.rotate_errors_),
      owed_(std::move(other.owed_)) {}

void LineFile::close_own() noexcept {
  if (fd_ >= 0 && !inherited_) ::close(fd_);
  fd_ = -1;
}

std::error_code LineFile::reopen() {
  if (inherited_) return {};
  const int fresh = open_for_append(options_.path);
  if (fresh < 0) return last_error();
  if (fd_ >= 0) static_cast<void>(pay_owed());  // its last chance: the line's beginning is there
  adopt(fresh);
  return {};
}

void LineFile::set_rotation(std::uint64_t bytes, std::uint32_t keep) noexcept {
  options_.rotate_bytes = bytes;
  options_.rotate_keep = keep;
  rotate_at_ = bytes;
}

void LineFile::adopt(int descriptor) {
  close_own();
  fd_ = descriptor;
  reopen_next_ = false;
  owed_.clear();
  examine();
  rotate_at_ = options_.rotate_bytes;
  if (type_ == Type::kRegular) finish_torn_tail();
}

void LineFile::examine() {
  struct stat info {};
  type_ = Type::kOther;
  size_ = 0;
  if (::fstat(fd_, &info) != 0) return;
  if (S_ISREG(info.st_mode)) type_ = Type::kRegular;
  if (S_ISFIFO(info.st_mode)) type_ = Type::kPipe;
  if (S_ISSOCK(info.st_mode)) type_ = Type::kSocket;
  if (type_ == Type::kRegular) size_ = static_cast<std::uint64_t>(info.st_size);
}

/// A crash of the machine may have left half a line at the end. It says nothing that anybody can
/// use: cut it off. If that cannot be done, or the file is not made of our lines, end it with a
/// newline: the next line is whole either way.
void LineFile::finish_torn_tail() {
  if (size_ == 0) return;
  const std::string tail = read_tail(options_.path, size_);
  if (!tail.empty() && tail.back() == '\n') return;
  const std::size_t newline = tail.rfind('\n');
  const bool known = newline != std::string::npos || tail.size() == size_;
  const std::uint64_t torn = newline == std::string::npos ? tail.size() : tail.size() - newline - 1;
  if (known && !tail.empty() &&
      options_.calls.ftruncate(fd_, static_cast<off_t>(size_ - torn)) == 0) {
    size_ -= torn;
  } else if (!tail.empty()) {
    owed_ = "\n";
  }
}

/// What to pass to one write(): everything, but for a pipe whole lines of up to PIPE_BUF bytes,
/// which it takes entirely or not at all. A longer line goes in pieces.
std::string_view LineFile::next_chunk(std::string_view lines) const noexcept {
  if (type_ != Type::kPipe || lines.size() <= PIPE_BUF) return lines;
  const std::size_t newline = lines.rfind('\n', PIPE_BUF - 1);
  return lines.substr(0, newline == std::string_view::npos ? PIPE_BUF : newline + 1);
}

/// One write that does not wait for a reader. Negative: see errno.
ssize_t LineFile::write_some(std::string_view bytes) {
  if (type_ == Type::kSocket) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (inherited_ && type_ != Type::kRegular) {
    // It may be in blocking mode, which is not ours to change. After POLLOUT a pipe takes
    // PIPE_BUF bytes at once.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
  }
  return options_.calls.write(fd_, bytes.data(), bytes.size());
}

/// Writes the rest of a line that an earlier write began.
std::error_code LineFile::pay_owed() {
  while (!owed_.empty()) {
    const ssize_t n = write_some(next_chunk(owed_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return last_error();
    if (n == 0) return std::make_error_code(std::errc::io_error);
    owed_.erase(0, static_cast<std::size_t>(n));
    size_ += static_cast<std::uint64_t>(n);
  }
  return {};
}

LineFile::Result LineFile::write(std::string_view lines) {
  Result result;
  if (fd_ < 0 || reopen_next_) result.error = reopen();
  if (fd_ < 0) return result;
  result.error = pay_owed();
  while (!result.error && result.accepted < lines.size()) {
    const std::string_view rest = lines.substr(result.accepted);
    const std::string_view chunk = next_chunk(rest);
    const ssize_t n = write_some(chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      reopen_next_ = !is_only_busy(errno);
      result.error = last_error();
      break;
    }
    if (n == 0) {
      result.error = std::make_error_code(std::errc::io_error);
      break;
    }
    const auto written = static_cast<std::size_t>(n);
    size_ += written;
    if (written == chunk.size() && chunk.back() == '\n') {
      result.accepted += written;
      continue;
    }
    result.accepted += settle_short_write(rest, written);
    result.error = pay_owed();
    // A regular file that takes only a part is full; the next attempt will know for sure.
    if (!result.error && written < chunk.size() && type_ == Type::kRegular) {
      result.error = std::make_error_code(std::errc::no_space_on_device);
    }
  }
  if (rotation_due() && rotate()) {
    ++rotate_errors_;
    rotate_at_ = size_ + options_.rotate_bytes;
  }
  return result;
}

bool LineFile::rotation_due() const noexcept {
  return options_.rotate_bytes != 0 && type_ == Type::kRegular && !inherited_ && owed_.empty() &&
         size_ >= rotate_at_;
}

/// `written` bytes of `lines` are in the file and end inside a line (or nowhere). Cuts the torn
/// line off or, where that cannot be done, owes its rest. Returns the bytes that count as accepted.
std::size_t LineFile::settle_short_write(std::string_view lines, std::size_t written) {
  const std::size_t newline = lines.substr(0, written).rfind('\n');
  const std::size_t whole = newline == std::string_view::npos ? 0 : newline + 1;
  const std::size_t torn = written - whole;
  if (torn == 0) return whole;
  struct stat info {};
  // The size is asked for anew: somebody may have truncated the file meanwhile.
  if (type_ == Type::kRegular && ::fstat(fd_, &info) == 0 &&
      info.st_size >= static_cast<off_t>(torn) &&
      options_.calls.ftruncate(fd_, info.st_size - static_cast<off_t>(torn)) == 0) {
    size_ = static_cast<std::uint64_t>(info.st_size) - torn;
    return whole;
  }
  const std::size_t line_end = lines.find('\n', written) + 1;
  owed_ = lines.substr(written, line_end - written);
  return line_end;
}

std::string LineFile::rotated_name(std::uint32_t number) const {
  return number == 0 ? options_.path : options_.path + '.' + std::to_string(number);
}

/// path.(n-1) -> path.n ... path -> path.1, then a new path. The descriptor stays in use until the
/// new file is open.
std::error_code LineFile::rotate() {
  if (options_.rotate_keep == 0) {
    if (::unlink(options_.path.c_str()) != 0 && errno != ENOENT) return last_error();
  }
  for (std::uint32_t number = options_.rotate_keep; number > 0; --number) {
    const std::string from = rotated_name(number - 1);
    const std::string to = rotated_name(number);
    if (::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) return last_error();
  }
  const std::error_code error = reopen();
  reopen_next_ = static_cast<bool>(error);
  return error;
}

std::size_t LineOutput::flush(MonoTime now) {
  if (buffer_.empty() || (retry_at_ && now < *retry_at_)) return 0;
  const LineFile::Result result = file_.write(buffer_);
  if (!result.error) {
    retry_at_.reset();
    retry_delay_ = kRetryMin;
    return result.accepted;
  }
  ++errors_;
  if (result.accepted > 0) retry_delay_ = kRetryMin;
  retry_at_ = now + retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, kRetryMax);
  return result.accepted;
}

void LineOutput::retry_now() noexcept {
  retry_at_.reset();
}

void LineOutput::reopen() {
  if (file_.reopen()) ++errors_;
  retry_now();
}

}  // namespace pulsewheel

// LineFile and LineOutput: whole lines to a file, a pipe or an inherited descriptor, whatever
// the disk does.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "daemon/base/time.h"

namespace pulsewheel {

/// The system calls that tests replace, to see what a short or stuck write does.
struct FileCalls {
  std::function<ssize_t(int, const void*, std::size_t)> write;  // empty: the real ones
  std::function<int(int, off_t)> ftruncate;
};

/// Appends whole lines and never leaves half a line before a whole one: a write that a full disk
/// cut short is cut back to the last whole line; where that cannot be done (a pipe), the rest of
/// the line goes first when writing works again. Pipes and sockets are never waited for: what they
/// do not take at once is an error (resource_unavailable_try_again). A write to a regular file on a
/// stuck disk can hang like any other. One thread.
class LineFile {
 public:
  struct Options {
    std::string path;
    std::uint64_t rotate_bytes = 0;  // a regular file that reaches this is rotated; 0: never
    std::uint32_t rotate_keep = 0;   // how many rotated ones stay: path.1 (newest), path.2, ...
    FileCalls calls;
  };

  /// Opens `path` for appending (made with mode 0640 if missing). Throws std::system_error that
  /// names the path. A named pipe without a reader is no error: writes fail until one comes.
  explicit LineFile(Options options);
  /// Writes to a descriptor that somebody else owns, such as standard output. `name` is for
  /// messages. It is neither closed nor made non-blocking: other processes may share it.
  LineFile(int inherited, std::string name, FileCalls calls = {});
  ~LineFile();
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;

  struct Result {
    std::size_t accepted = 0;  // bytes, always whole lines: never pass them again
    std::error_code error;     // set when `accepted` is not everything
  };
  /// Writes `lines`, of which each ends with '\n', with as few system calls as the target allows.
  /// After an error that a new descriptor may cure, the next call opens the path again first.
  Result write(std::string_view lines);

  /// From the next write on, Options::rotate_bytes and rotate_keep are these. Files that were
  /// rotated under a greater `keep` stay.
  void set_rotation(std::uint64_t bytes, std::uint32_t keep) noexcept;

  /// Opens the path again. On failure the old descriptor stays in use. No effect on an inherited
  /// descriptor.
  std::error_code reopen();

  [[nodiscard]] const std::string& name() const noexcept { return options_.path; }
  /// Rotations that failed; the file then grows by another `rotate_bytes` before the next attempt.
  [[nodiscard]] std::uint64_t rotate_errors() const noexcept { return rotate_errors_; }

 private:
  enum class Type : std::uint8_t { kRegular, kPipe, kSocket, kOther };

  void examine();
  void finish_torn_tail();
  void adopt(int descriptor);
  void close_own() noexcept;
  std::string_view next_chunk(std::string_view lines) const noexcept;
  ssize_t write_some(std::string_view bytes);
  std::size_t settle_short_write(std::string_view chunk, std::size_t written);
  std::error_code pay_owed();
  bool rotation_due() const noexcept;
  std::error_code rotate();
  std::string rotated_name(std::uint32_t number) const;

  Options options_;
  int fd_ = -1;
  bool inherited_ = false;
  bool reopen_next_ = false;  // the last error may be the descriptor's own
  Type type_ = Type::kOther;
  std::uint64_t size_ = 0;       // of a regular file
  std::uint64_t rotate_at_ = 0;  // size that triggers the next rotation
  std::uint64_t rotate_errors_ = 0;
  std::string owed_;  // rest of a line whose beginning is in the file already
};

/// A LineFile with a buffer in front and patience: after a failure it waits, longer each time,
/// before it tries again. One thread.
class LineOutput {
 public:
  static constexpr Duration kRetryMin = std::chrono::milliseconds{5};
  static constexpr Duration kRetryMax = std::chrono::seconds{1};

  explicit LineOutput(LineFile file) : file_(std::move(file)) {}

  /// Append whole lines here; flush() takes them from the front.
  [[nodiscard]] std::string& buffer() noexcept { return buffer_; }

  /// Writes what is buffered, unless a retry is pending for later than `now`. Returns the bytes
  /// (whole lines) at the front of `buffer()` that are now written; drop_front() them.
  [[nodiscard]] std::size_t flush(MonoTime now);
  void drop_front(std::size_t bytes) { buffer_.erase(0, bytes); }

  /// When the next attempt is due; nullopt while all is well.
  [[nodiscard]] std::optional<MonoTime> retry_at() const noexcept { return retry_at_; }
  /// Makes the next flush() an attempt in any case.
  void retry_now() noexcept;

  void reopen();
  void set_rotation(std::uint64_t bytes, std::uint32_t keep) noexcept {
    file_.set_rotation(bytes, keep);
  }

  [[nodiscard]] std::uint64_t errors() const noexcept { return errors_ + file_.rotate_errors(); }

 private:
  LineFile file_;
  std::string buffer_;
  std::optional<MonoTime> retry_at_;
  Duration retry_delay_ = kRetryMin;
  std::uint64_t errors_ = 0;
};

}  // namespace pulsewheel

// FollowedFile: a file that grows, line by line, also across log rotation.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

/// Not thread-safe. A file that does not exist yet is waited for.
class FollowedFile {
 public:
  /// Without `from_start`, what is in the file now is skipped. Throws std::system_error when it
  /// exists and cannot be opened.
  FollowedFile(std::string path, bool from_start);
  ~FollowedFile();
  FollowedFile(const FollowedFile&) = delete;
  FollowedFile& operator=(const FollowedFile&) = delete;

  using OnLine = std::function<void(std::string_view line, MonoTime seen_at)>;
  /// Reads to the end and calls `on_line` for each whole line, with the time of the read that
  /// brought its newline. When another file has taken the name (rotation), the old one is read to
  /// its end first. True when there was anything new.
  bool read(const OnLine& on_line);

 private:
  bool read_to_end(const OnLine& on_line);
  [[nodiscard]] bool was_replaced() const noexcept;
  void open();
  void close() noexcept;

  static constexpr std::size_t kChunkSize = 256 * 1024;

  std::string path_;
  std::string buffer_;    // kChunkSize beyond the rest of a line
  std::size_t rest_ = 0;  // bytes of a line that is not whole yet, at the buffer's start
  int descriptor_ = -1;
};

}  // namespace pulsewheel::sim

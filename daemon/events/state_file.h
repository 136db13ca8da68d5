// Files of the state folder: written whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "daemon/base/file_descriptor.h"

namespace pulsewheel {

/// Something about the state folder is not as it must be. The text names the path, the reason and,
/// where there is one, the way out.
class StateError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws StateError: "<what> '<path>': <errno's text>".
[[noreturn]] void fail_with_errno(std::string_view what, const std::string& path);

/// One writing of a file: under a temporary name, which commit() turns into the real one once all
/// is on disk. Whatever happens before that leaves the old file as it was. Blocks on the disk; what
/// fails throws StateError.
class StateFileWriter {
 public:
  /// Opens `<folder>/<name>.tmp` anew.
  StateFileWriter(const std::string& folder, std::string_view name);
  /// Removes the temporary file unless it was committed.
  ~StateFileWriter();
  StateFileWriter(const StateFileWriter&) = delete;
  StateFileWriter& operator=(const StateFileWriter&) = delete;

  void write(std::string_view bytes);
  /// fsync, rename, fsync of the folder. When it returns, the file outlives a loss of power.
  void commit();

  static constexpr mode_t kMode = 0640;

 private:
  const std::string folder_;
  const std::string path_;
  const std::string temporary_;
  FileDescriptor fd_;
  bool committed_ = false;
};

/// Writes a whole file so.
void store_state_file(const std::string& folder, std::string_view name, std::string_view bytes);

/// At most `bytes_max` bytes from the start of a file; nullopt when there is none. Throws
/// StateError.
[[nodiscard]] std::optional<std::string> read_state_file(const std::string& path,
                                                         std::size_t bytes_max);

/// Makes what was done to the names in `folder` outlive a loss of power. Throws StateError.
void sync_folder(const std::string& folder);

}  // namespace pulsewheel

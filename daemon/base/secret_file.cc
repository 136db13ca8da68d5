#include "daemon/base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "daemon/base/file_descriptor.h"

namespace pulsewheel {
namespace {

std::string last_error() {
  return std::generic_category().message(errno);
}

/// At most `bytes_max` bytes and one more, by which the caller knows that there are more.
std::string read_file(const std::string& path, std::size_t bytes_max) {
  // Opening must not wait for somebody to write into a FIFO.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    throw std::runtime_error("cannot open '" + path + "': " + last_error());
  }
  if (!S_ISREG(status.st_mode)) throw std::runtime_error("'" + path + "' is no regular file");
  std::string content(bytes_max + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error("cannot read '" + path + "': " + last_error());
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  content.resize(size);
  return content;
}

void drop_line_end(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

}  // namespace

std::string read_secret_file(const std::string& path, std::size_t bytes_max) {
  constexpr std::size_t kLineEndBytes = 2;
  std::string content = read_file(path, bytes_max + kLineEndBytes);
  drop_line_end(content);
  if (content.empty()) throw std::runtime_error("'" + path + "' is empty");
  if (content.size() > bytes_max) {
    throw std::runtime_error("'" + path + "' has more than " + std::to_string(bytes_max) +
                             " bytes");
  }
  return content;
}

}  // namespace pulsewheel

#include "tests/unit/ctl/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace pulsewheel {

namespace {

// Output goes to memory files, not pipes: those can be full.
class OutputFile {
 public:
  OutputFile() : fd_(::memfd_create("output", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("memfd_create failed");
  }
  ~OutputFile() { ::close(fd_); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string content() const {
    std::string out;
    char bytes[4096];
    for (;;) {
      const ssize_t got = ::pread(fd_, bytes, sizeof bytes, static_cast<off_t>(out.size()));
      if (got <= 0) return out;
      out.append(bytes, static_cast<std::size_t>(got));
    }
  }

 private:
  int fd_;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings)
    out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

ProgramResult run_program(std::vector<std::string> arguments,
                          std::vector<std::string> environment) {
  const OutputFile out, err;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.fd(), STDERR_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, arguments.front().c_str(), &actions, nullptr,
                                   pointers(arguments).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + arguments.front());

  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) throw std::runtime_error("waitpid failed");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, out.content(), err.content()};
}

}  // namespace pulsewheel

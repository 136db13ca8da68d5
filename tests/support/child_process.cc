#include "tests/support/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace pulsewheel::test {

ChildProcess::ChildProcess(const std::vector<std::string>& words, const std::string& log,
                           const std::function<void()>& in_child) {
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    if (in_child) in_child();
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(out);
  if (pid_ == -1) throw std::system_error(error, std::generic_category(), "fork");
}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);
  wait();
}

bool ChildProcess::is_running() {
  return !reap(WNOHANG);
}

void ChildProcess::signal(int number) const {
  if (!ended_) ::kill(pid_, number);
}

int ChildProcess::wait() {
  static_cast<void>(reap(0));
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
}

/// Whether it has ended.
bool ChildProcess::reap(int options) {
  ended_ = ended_ || ::waitpid(pid_, &status_, options) == pid_;
  return ended_;
}

void preload_in_child(const char* path) {
  ::setenv("LD_PRELOAD", path, 1);
  // AddressSanitizer's library wants to be first; here the other one is, and both do their work.
  const char* const options = std::getenv("ASAN_OPTIONS");
  const std::string all =
      (options != nullptr ? std::string(options) + ":" : "") + "verify_asan_link_order=0";
  ::setenv("ASAN_OPTIONS", all.c_str(), 1);
}

}  // namespace pulsewheel::test

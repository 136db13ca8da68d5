// ChildProcess: a program that a test runs, with a log of its own, and that ends with the test.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace pulsewheel::test {

/// One thread. Not copied or moved: it owns the process.
class ChildProcess {
 public:
  /// Starts `words[0]`, which PATH finds unless it has a slash, with what it says appended to the
  /// file `log`. `in_child` runs in it before it becomes the program; should that fail, it ends the
  /// child with _exit(). A program that cannot be started ends with 127; throws std::system_error
  /// when there cannot be a process.
  ChildProcess(const std::vector<std::string>& words, const std::string& log,
               const std::function<void()>& in_child = {});
  /// Kills what still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Whether it has not ended by now.
  [[nodiscard]] bool is_running();
  /// Does nothing once is_running() or wait() has seen its end: the number may be another's.
  void signal(int number) const;
  /// Waits for its end. Exit code, or -1 when a signal ended it. Again: the same.
  int wait();

 private:
  [[nodiscard]] bool reap(int options);

  pid_t pid_;
  bool ended_ = false;
  int status_ = 0;  // as of waitpid(), once it has ended
};

/// Call in a child, before it becomes the program: the library at `path` is loaded before all
/// others, and its functions take the place of theirs.
void preload_in_child(const char* path);

}  // namespace pulsewheel::test

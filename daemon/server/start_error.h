// StartError and ExitCode: how the daemon ends when it cannot go on.
#pragma once

#include <stdexcept>
#include <string>

namespace pulsewheel {

/// Exit codes of the daemon, after BSD's sysexits.h where that has one.
enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,
  kUnavailable = 69,  // a port or a node's name in use, an address that is not ours
  kBug = 70,
  kOs = 71,            // too few descriptors, no thread
  kCannotCreate = 73,  // a file or folder that cannot be made
  kIo = 74,
  kConfig = 78,
};

/// The daemon cannot start. what() is one line for people.
class StartError : public std::runtime_error {
 public:
  StartError(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

}  // namespace pulsewheel

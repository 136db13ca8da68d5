// Runs a program to its end and keeps what it wrote.
#pragma once

#include <string>
#include <vector>

namespace pulsewheel {

struct ProgramResult {
  int exit_code = -1;  // 128 + n when a signal ended it
  std::string out;
  std::string err;
};

/// `arguments` start with the program's path; `environment` is all that it gets ("NAME=value").
/// Throws std::runtime_error when it cannot be started.
ProgramResult run_program(std::vector<std::string> arguments,
                          std::vector<std::string> environment = {});

}  // namespace pulsewheel

// What pulsewheel-sim and pulsewheel-soak share as programs: exit codes, signals, last words.
#pragma once

#include <functional>
#include <string_view>

namespace pulsewheel::sim {

// Exit codes. Those of sysexits.h where it has one.
inline constexpr int kExitFine = 0;
inline constexpr int kExitPromiseBroken = 1;
inline constexpr int kExitUsage = 64;
inline constexpr int kExitUnavailable = 69;
inline constexpr int kExitSystem = 71;
inline constexpr int kExitCannotWrite = 73;

/// Carries `body` out and returns its exit code. What it throws becomes one line on standard error,
/// behind the program's name, and the exit code of that kind of trouble.
[[nodiscard]] int run_program(std::string_view name, const std::function<int()>& body);

/// From now on INT and TERM end nothing but make interrupted() true.
void catch_interrupts() noexcept;
[[nodiscard]] bool interrupted() noexcept;  // any thread

}  // namespace pulsewheel::sim

// PULSEWHEEL_CHECK: aborts on a broken internal invariant, in every build type.
#pragma once

namespace pulsewheel {

/// Prints one line to stderr and aborts. Never returns.
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace pulsewheel

/// For invariants of our own only: never for anything that a peer, Redis, a file or an operator
/// can cause.
#define PULSEWHEEL_CHECK(expression)                    \
  (static_cast<bool>(expression) ? static_cast<void>(0) \
                                 : ::pulsewheel::check_failed(#expression, __FILE__, __LINE__))

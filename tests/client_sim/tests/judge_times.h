// Times of the Judge's tests, counted from an arbitrary origin.
#pragma once

#include "tests/client_sim/judge.h"

namespace pulsewheel::sim {

/// Of the sessions, where a test asks for nothing else.
inline constexpr Duration kTimeout = std::chrono::seconds{30};

inline MonoTime at(Duration since_origin) {
  return MonoTime{std::chrono::seconds{1000}} + since_origin;
}

/// A send at `t` that took 2 ms.
inline Stamp sent(Duration t) {
  return {at(t), at(t + std::chrono::milliseconds{2})};
}

}  // namespace pulsewheel::sim

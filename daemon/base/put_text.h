// Writes text into a buffer that is known to be large enough: each put() returns where to go on.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pulsewheel {

/// Of a std::uint64_t.
inline constexpr std::size_t kDigitsMax = 20;

inline char* put(char* out, std::string_view text) noexcept {
  return std::copy(text.begin(), text.end(), out);
}

/// In decimal digits, kDigitsMax at most.
inline char* put(char* out, std::uint64_t number) noexcept {
  return std::to_chars(out, out + kDigitsMax, number).ptr;
}

}  // namespace pulsewheel

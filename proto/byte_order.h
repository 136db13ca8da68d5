// Big-endian integers in spans of bytes. No bounds checks: the caller has counted.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pulsewheel::proto {

/// Reads sizeof(T) bytes at `from`. Compiles to one load and a byte swap.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T load_big_endian(const std::byte* from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(from[i]);
  }
  return static_cast<T>(value);
}

/// Writes sizeof(T) bytes at `to`.
template <std::unsigned_integral T>
constexpr void store_big_endian(T value, std::byte* to) noexcept {
  std::uint64_t rest = value;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    to[i] = static_cast<std::byte>(rest & 0xff);
    rest >>= 8;
  }
}

}  // namespace pulsewheel::proto

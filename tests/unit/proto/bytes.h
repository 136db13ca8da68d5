// Literal bytes for the codec's tests.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pulsewheel::proto {

/// "02 01 0000" -> bytes. White space is ignored; anything else throws std::invalid_argument.
inline std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ' || c == '\n') continue;
    const std::size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos)
      throw std::invalid_argument("not hex: " + std::string(hex));
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes.push_back(static_cast<std::byte>(high * 16 + static_cast<int>(digit)));
      high = -1;
    }
  }
  if (high >= 0) throw std::invalid_argument("half a byte: " + std::string(hex));
  return bytes;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    if (!hex.empty()) hex += ' ';
    hex += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(b) & 0xf];
  }
  return hex;
}

/// The characters of `text` as bytes; valid as long as they are.
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace pulsewheel::proto

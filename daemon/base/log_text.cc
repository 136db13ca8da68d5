#include "daemon/base/log_text.h"

#include <algorithm>

namespace pulsewheel::log {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

bool is_printable(char c) {
  return c >= ' ' && c <= '~';
}

/// Backslash, `letter`, two hex digits.
void append_hex_escape(std::string& out, std::string_view prefix, char c) {
  const auto byte = static_cast<unsigned char>(c);
  out += prefix;
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 15];
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

void append_printable(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (is_printable(c)) {
      out += c;
    } else {
      append_hex_escape(out, "\\x", c);
    }
  }
}

void append_human_value(std::string& out, std::string_view text) {
  const auto plain = [](char c) {
    return is_printable(c) && c != ' ' && c != '"' && c != '\\' && c != '=';
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    append_printable(out, {&c, 1});
  }
  out += '"';
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t size = utf8_sequence_size(text);
    if (size == 0) {
      append_hex_escape(out, "\\\\x", c);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) {
      append_hex_escape(out, "\\u00", c);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  out += '"';
}

std::size_t utf8_sequence_size(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return 1;
  // 0x80 to 0xC1 never begin a sequence: continuations, and overlong forms of ASCII.
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  if (!std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(size),
                   is_continuation)) {
    return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
  if (lead == 0xED && second > 0x9F) return 0;  // surrogates
  if (lead == 0xF0 && second < 0x90) return 0;  // overlong
  if (lead == 0xF4 && second > 0x8F) return 0;  // beyond U+10FFFF
  return size;
}

}  // namespace pulsewheel::log

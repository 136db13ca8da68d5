#include "daemon/base/percent.h"

namespace pulsewheel {

namespace {

// Not std::isalnum: that depends on the locale.
constexpr bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

constexpr int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

char* write_percent_encoded(char* out, std::string_view bytes) noexcept {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : bytes) {
    if (is_unreserved(c)) {
      *out++ = c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    *out++ = '%';
    *out++ = kDigits[byte >> 4];
    *out++ = kDigits[byte & 0xf];
  }
  return out;
}

void append_percent_encoded(std::string& out, std::string_view bytes) {
  const std::size_t before = out.size();
  out.resize(before + kPercentExpansion * bytes.size());
  const char* const end = write_percent_encoded(out.data() + before, bytes);
  out.resize(static_cast<std::size_t>(end - out.data()));
}

std::string percent_encode(std::string_view bytes) {
  std::string out;
  append_percent_encoded(out, bytes);
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

}  // namespace pulsewheel

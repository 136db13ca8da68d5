// Percent-encoding (RFC 3986): how a uid, which may hold any byte, is written in all text: URLs,
// logs, event log, JSON, command line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace pulsewheel {

/// Letters, digits and "-._~" stay as they are; every other byte becomes '%' and two uppercase
/// hexadecimal digits. So the result is plain visible ASCII that needs no quoting anywhere, and
/// equal uids have equal encodings. Amortised O(length).
void append_percent_encoded(std::string& out, std::string_view bytes);
[[nodiscard]] std::string percent_encode(std::string_view bytes);

/// The most characters that one byte becomes.
inline constexpr std::size_t kPercentExpansion = 3;
/// As above, for formatters with a buffer of their own: `out` has room for
/// kPercentExpansion * bytes.size() characters. Returns the end of what was written.
char* write_percent_encoded(char* out, std::string_view bytes) noexcept;

/// The bytes that `text` stands for; '%' takes digits of either case, all else stands for itself.
/// Nullopt when a '%' is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

}  // namespace pulsewheel

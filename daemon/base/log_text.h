// How text from anywhere becomes part of a log line: one line, and valid JSON, whatever the bytes.
#pragma once

#include <string>
#include <string_view>

namespace pulsewheel::log {

/// Appends `text` with every byte that is not printable ASCII as \xNN.
void append_printable(std::string& out, std::string_view text);

/// Appends `text` as a field's value in a human line: as it is where that cannot be misread, else
/// in quotes, with \xNN for what is not printable and a backslash before quotes and backslashes.
void append_human_value(std::string& out, std::string_view text);

/// Appends `text` as a JSON string with its quotes. Valid UTF-8 stays; a byte that is not part of
/// any becomes the four characters \xNN (an escaped backslash in the JSON).
void append_json_string(std::string& out, std::string_view text);

/// Bytes of the valid UTF-8 sequence at the head of `text`: 1 to 4, or 0. Requires a non-empty
/// text.
[[nodiscard]] std::size_t utf8_sequence_size(std::string_view text) noexcept;

}  // namespace pulsewheel::log

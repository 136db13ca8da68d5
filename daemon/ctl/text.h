// JSON as text for people. Nothing here lets a control character through to a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace pulsewheel::ctl {

using Json = nlohmann::json;

/// In one line, ASCII only.
[[nodiscard]] std::string dump(const Json& value);

/// A value as text. A string stands as it is while it cannot harm a terminal.
[[nodiscard]] std::string to_text(const Json& value);

/// A member as text; "?" where there is none, as of another version's answer.
[[nodiscard]] std::string member(const Json& object, const char* name);
/// A member as a number; 0 where there is none.
[[nodiscard]] double number(const Json& object, const Json::json_pointer& where);

/// A member that is a time, Unix milliseconds, as "2026-01-31 12:00:00.250 UTC"; "never" for null.
[[nodiscard]] std::string time_text(const Json& object, const char* name);
/// A member that is milliseconds, as "12.3 s".
[[nodiscard]] std::string seconds_text(const Json& object, const char* name);

using Lines = std::vector<std::pair<std::string, std::string>>;
/// Names and values below each other.
[[nodiscard]] std::string in_columns(const Lines& lines);

using Rows = std::vector<std::vector<std::string>>;
/// Any number of columns, each as wide as its widest cell. All rows have as many.
[[nodiscard]] std::string in_table(const Rows& rows);

/// One line per value, "path value" in two columns; for people and grep.
[[nodiscard]] std::string to_lines(const Json& value);

}  // namespace pulsewheel::ctl

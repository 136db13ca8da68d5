// What somebody may have meant by a key that does not exist. Internal to config/.
#pragma once

#include <string>
#include <string_view>

namespace pulsewheel {

/// What the name of every variable of ours begins with.
inline constexpr std::string_view kVariablePrefix = "PULSEWHEEL_";

/// "PULSEWHEEL_PRESENCE_TICK" of "presence.tick".
[[nodiscard]] std::string variable_of_key(std::string_view key);

/// The key or table whose name is most like `name`; empty when none is near.
[[nodiscard]] std::string nearest_key(std::string_view name);

/// One line: `unknown key "presence.tikc"; did you mean "presence.tick"?`, or which keys there are
/// when none is near or `name` is that of a table.
[[nodiscard]] std::string unknown_key_problem(std::string_view name);

}  // namespace pulsewheel

// TOML text as a flat list of names and values. The only place that knows the TOML library.
// Internal to config/.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace pulsewheel {

/// A table or a value of a document.
struct TomlEntry {
  std::string name;               // "presence.tick", "listener.0.port"; odd key parts are quoted
  std::optional<RawValue> value;  // nullopt: a table begins; its entries follow
  std::uint32_t line;             // from 1
};

/// The text is no TOML. what() is the reason.
class TomlSyntaxError : public std::runtime_error {
 public:
  TomlSyntaxError(const std::string& reason, std::uint32_t line, std::uint32_t column)
      : std::runtime_error(reason), line_(line), column_(column) {}
  [[nodiscard]] std::uint32_t line() const noexcept { return line_; }      // from 1
  [[nodiscard]] std::uint32_t column() const noexcept { return column_; }  // from 1

 private:
  std::uint32_t line_;
  std::uint32_t column_;
};

/// All tables and values of `text`, by line. Elements of an array of tables are numbered from 0;
/// other arrays are values. Throws TomlSyntaxError, also for text nested too deep.
[[nodiscard]] std::vector<TomlEntry> read_toml(std::string_view text);

/// One value, as it stands right of the `=`. nullopt when `text` is not exactly that.
[[nodiscard]] std::optional<RawValue> read_toml_value(std::string_view text);

}  // namespace pulsewheel

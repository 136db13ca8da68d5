#include "config/toml_document.h"

// The library descends into nested values by recursion: this bounds its stack. It only counts
// where the parser is compiled, so the parser is compiled here.
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

#include <algorithm>

namespace pulsewheel {
namespace {

/// Dots that one line may hold. TOML_MAX_NESTED_VALUES does not bound dotted keys: a file with
/// half a million parts in one key would overflow the stack when its tables are destroyed. Dots in
/// strings and comments count too, which needs no lexer and leaves room for any honest line.
constexpr std::size_t kDotsPerLineMax = 128;

/// Tables deeper than any known key are entries of their own and not looked into.
constexpr std::size_t kDepthMax = 4;

void check_dots(std::string_view text) {
  std::uint32_t line = 1;
  std::size_t dots = 0;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '.' && ++dots > kDotsPerLineMax) {
      throw TomlSyntaxError("more than 128 dots in one line", line, 1);
    }
  }
}

toml::table parse(std::string_view text) {
  check_dots(text);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw TomlSyntaxError(std::string{error.description()}, at.line, at.column);
  }
}

std::string_view type_name(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "table";
    case toml::node_type::array:
      return "array";
    case toml::node_type::floating_point:
      return "float";
    case toml::node_type::date:
      return "date";
    case toml::node_type::time:
      return "time";
    case toml::node_type::date_time:
      return "date-time";
    default:
      return "unknown type";
  }
}

RawValue raw_value(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  return ForeignType{type_name(node.type())};
}

/// A part of a name. Quoted unless it looks like ours: so `"presence.tick" = 1` is no
/// presence.tick, and `[listener.0]` no element of an array.
std::string name_part(std::string_view key) {
  const bool plain =
      key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string_view::npos &&
      key.find_first_not_of("0123456789") != std::string_view::npos;
  return plain ? std::string{key} : quote_short(key);
}

class Flattener {
 public:
  std::vector<TomlEntry> flatten(const toml::table& root) {
    add_members(root, "", 0);
    // The library orders keys by name. A stable sort keeps a table before its members.
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
    return std::move(entries_);
  }

 private:
  void add_members(const toml::table& table, const std::string& prefix, std::size_t depth) {
    for (const auto& [key, node] : table) {
      add(prefix + name_part(key.str()), key.source().begin.line, node, depth + 1);
    }
  }

  void add(const std::string& name, std::uint32_t line, const toml::node& node, std::size_t depth) {
    const toml::array* array = node.as_array();
    if (const toml::table* table = node.as_table(); table != nullptr && depth < kDepthMax) {
      entries_.push_back({name, std::nullopt, line});
      add_members(*table, name + ".", depth);
    } else if (array != nullptr && array->is_array_of_tables() && depth < kDepthMax) {
      std::size_t index = 0;
      for (const toml::node& element : *array) {
        add(name + "." + std::to_string(index++), element.source().begin.line, element, depth + 1);
      }
    } else {
      entries_.push_back({name, raw_value(node), line});
    }
  }

  std::vector<TomlEntry> entries_;
};

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text) {
  return Flattener{}.flatten(parse(text));
}

std::optional<RawValue> read_toml_value(std::string_view text) {
  try {
    const toml::table table = parse("value = " + std::string{text});
    const toml::node* node = table.get("value");
    if (node == nullptr || table.size() != 1) return std::nullopt;
    return raw_value(*node);
  } catch (const TomlSyntaxError&) {
    return std::nullopt;
  }
}

}  // namespace pulsewheel

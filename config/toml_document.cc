#include "config/toml_document.h"

namespace pulsewheel {
namespace {

/// A precondition inside the TOML library does not hold.
struct BrokenAssertion {};

/// A function, since the compiler warns of a bare throw where the library says noexcept.
[[noreturn]] void throw_broken_assertion() {
  throw BrokenAssertion{};
}

}  // namespace
}  // namespace pulsewheel

// Malformed text breaks preconditions of toml++ 3.3: on "[=" it aborts in a debug build and has
// undefined behaviour in another (its issue 294). Here, in every build type, it throws.
#undef NDEBUG
#define TOML_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::pulsewheel::throw_broken_assertion())

// The library descends into nested values by recursion: this bounds its stack. It only counts
// where the parser is compiled, so the parser is compiled here.
#define TOML_MAX_NESTED_VALUES 32
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>

namespace pulsewheel {
namespace {

/// Tables deeper than any known key are entries of their own and not looked into.
constexpr std::size_t kDepthMax = 4;

/// Dots outside of quotes and comments that one line may hold. TOML_MAX_NESTED_VALUES does not
/// bound dotted keys: with half a million parts in one, destroying the tables overflows the stack.
constexpr std::size_t kDotsPerLineMax = 32;

[[noreturn]] void throw_syntax_error(const char* reason, std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);
  const auto characters = std::count_if(in_line.begin(), in_line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80;  // a continuation of UTF-8
  });
  throw TomlSyntaxError(reason, static_cast<std::uint32_t>(lines + 1),
                        static_cast<std::uint32_t>(characters + 1));
}

/// The place behind the one-line string that begins at `at`; that of the line's end when the string
/// does not end, which is the parser's to report.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  if (text.substr(at + 1, 2) == std::string(2, quote)) {
    throw_syntax_error("multi-line strings are not taken here", text, at);
  }
  for (++at; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == quote) return at + 1;
    if (quote == '"' && text[at] == '\\' && at + 1 < text.size() && text[at + 1] != '\n') ++at;
  }
  return at;
}

/// Throws for text that toml++ 3.3 cannot be given. It asks whether a character is white space with
/// undefined behaviour for most of those outside of ASCII, in all places but comments and one-line
/// strings, where TOML allows them.
void check_fit_for_parser(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::size_t dots = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '"' || c == '\'') {
      at = end_of_string(text, at);
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      throw_syntax_error("a character outside of ASCII needs quotes round it", text, at);
    }
    if (c == '\n') dots = 0;
    if (c == '.' && ++dots > kDotsPerLineMax) {
      throw_syntax_error("more than 32 dots in one line", text, at);
    }
    ++at;
  }
}

bool breaks_assertion(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const BrokenAssertion&) {
    return true;
  } catch (const toml::parse_error&) {
  }
  return false;
}

/// The line on which parsing `text` breaks an assertion, which knows no position. The parser reads
/// forward only: a prefix of the text breaks the assertion if it reaches that line.
std::uint32_t line_of_broken_assertion(std::string_view text) {
  std::vector<std::size_t> line_ends;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_ends.push_back(i + 1);
  }
  const auto found = std::partition_point(line_ends.begin(), line_ends.end(), [&](std::size_t end) {
    return !breaks_assertion(text.substr(0, end));
  });
  return static_cast<std::uint32_t>(found - line_ends.begin() + 1);
}

toml::table parse(std::string_view text) {
  check_fit_for_parser(text);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw TomlSyntaxError(std::string{error.description()}, at.line, at.column);
  } catch (const BrokenAssertion&) {
    throw TomlSyntaxError("malformed key or table header", line_of_broken_assertion(text), 1);
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

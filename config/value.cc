#include "config/value.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "config/units.h"

namespace pulsewheel {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

using Parsed = std::variant<Value, Rejection>;

constexpr std::size_t kMessageTextBytesMax = 80;

/// Length of the UTF-8 sequence at the front of `text`; 0 if there is none.
std::size_t utf8_sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length == 0 || lead > 0xF4 || text.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what lies past U+10FFFF.
  const unsigned second_min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned second_max = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < second_min || byte(1) > second_max) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  return length;
}

std::string hex2(char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  return {kDigits[byte >> 4U], kDigits[byte & 0xFU]};
}

bool is_address(const std::string& text) noexcept {
  in6_addr address{};  // the larger of the two
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_file_mode(std::string_view text) noexcept {
  return (text.size() == 3 || (text.size() == 4 && text.front() == '0')) &&
         text.find_first_not_of("01234567") == std::string_view::npos;
}

std::optional<Rejection> text_problem(TextKind kind, const std::string& text) {
  if (text.size() > kTextBytesMax) return Rejection{"too long"};
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = utf8_sequence_length(rest);
    if (length == 0) return Rejection{"not UTF-8"};
    if (is_control(rest.front())) return Rejection{"contains a control character"};
    rest.remove_prefix(length);
  }
  switch (kind.form) {
    case TextKind::Form::kAny:
      break;
    case TextKind::Form::kNotEmpty:
      if (text.empty()) return Rejection{"empty"};
      break;
    case TextKind::Form::kAddress:
      if (!is_address(text)) return Rejection{"not an IP address"};
      break;
    case TextKind::Form::kAddressOrStar:
      if (text != "*" && !is_address(text)) return Rejection{"not an IP address"};
      break;
    case TextKind::Form::kFileMode:
      if (!is_file_mode(text)) return Rejection{"not a file mode"};
      break;
  }
  return std::nullopt;
}

bool is_digits(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Rejection not_a_duration(const std::string& text) {
  if (!is_digits(text)) return {"not a duration"};
  return {"a duration needs a unit, as " + quote_short(text + "s") + " or " +
          quote_short(text + "ms")};
}

Rejection wrong_type(const RawValue& raw) {
  const std::string_view name =
      std::visit(Overloaded{[](bool) -> std::string_view { return "boolean"; },
                            [](std::int64_t) -> std::string_view { return "integer"; },
                            [](const std::string&) -> std::string_view { return "string"; },
                            [](ForeignType type) { return type.name; }},
                 raw);
  return {"wrong type (" + std::string{name} + ")"};
}

Parsed in_range(bool fits, Value value) {
  if (!fits) return Rejection{"out of range"};
  return value;
}

Parsed parse(BoolKind, const RawValue& raw) {
  if (const auto* value = std::get_if<bool>(&raw)) return Value{*value};
  return wrong_type(raw);
}

Parsed parse(IntegerKind kind, const RawValue& raw) {
  const auto* value = std::get_if<std::int64_t>(&raw);
  if (value == nullptr) return wrong_type(raw);
  return in_range(*value >= kind.min && *value <= kind.max, *value);
}

Parsed parse(SizeKind kind, const RawValue& raw) {
  std::int64_t bytes = 0;
  if (const auto* number = std::get_if<std::int64_t>(&raw)) {
    bytes = *number;
  } else if (const auto* text = std::get_if<std::string>(&raw)) {
    const auto parsed = parse_size(*text);
    if (!parsed) return Rejection{"not a size"};
    bytes = *parsed;
  } else {
    return wrong_type(raw);
  }
  return in_range(bytes >= kind.min && bytes <= kind.max, bytes);
}

Parsed parse(const DurationKind& kind, const RawValue& raw) {
  if (const auto* number = std::get_if<std::int64_t>(&raw)) {
    return not_a_duration(std::to_string(*number));
  }
  const auto* text = std::get_if<std::string>(&raw);
  if (text == nullptr) return wrong_type(raw);
  const auto value = parse_duration(*text);
  if (!value) return not_a_duration(*text);
  const bool off = kind.zero_allowed && value->count() == 0;
  return in_range(off || (*value >= kind.min && *value <= kind.max), *value);
}

Parsed parse(ChoiceKind kind, const RawValue& raw) {
  const auto* text = std::get_if<std::string>(&raw);
  if (text == nullptr) return wrong_type(raw);
  const auto found = std::find(kind.names.begin(), kind.names.end(), *text);
  if (found == kind.names.end()) return Rejection{"not one of the choices"};
  return Value{std::int64_t{found - kind.names.begin()}};
}

Parsed parse(TextKind kind, const RawValue& raw) {
  const auto* text = std::get_if<std::string>(&raw);
  if (text == nullptr) return wrong_type(raw);
  if (auto problem = text_problem(kind, *text)) return *problem;
  return Value{*text};
}

/// `"a", "b" or "c"`
std::string join_choices(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += quote(names[i]);
  }
  return text;
}

std::string from_to(const std::string& min, const std::string& max) {
  return min + " to " + max;
}

}  // namespace

std::variant<Value, Rejection> parse_value(const Kind& kind, const RawValue& raw) {
  return std::visit([&](const auto& known) { return parse(known, raw); }, kind);
}

bool takes_type_of(const Kind& kind, const RawValue& raw) noexcept {
  if (std::holds_alternative<bool>(raw)) return std::holds_alternative<BoolKind>(kind);
  if (std::holds_alternative<std::int64_t>(raw)) {
    return std::holds_alternative<IntegerKind>(kind) || std::holds_alternative<SizeKind>(kind);
  }
  return std::holds_alternative<std::string>(raw);
}

std::string format_value(const Kind& kind, const Value& value) {
  const auto integer = [&] { return std::get<std::int64_t>(value); };
  return std::visit(
      Overloaded{[&](BoolKind) -> std::string { return std::get<bool>(value) ? "true" : "false"; },
                 [&](IntegerKind) { return std::to_string(integer()); },
                 [&](SizeKind) { return quote(format_size(integer())); },
                 [&](const DurationKind&) {
                   return quote(format_duration(std::get<std::chrono::nanoseconds>(value)));
                 },
                 [&](ChoiceKind choice) {
                   return quote(choice.names[static_cast<std::size_t>(integer())]);
                 },
                 [&](TextKind) { return quote(std::get<std::string>(value)); }},
      kind);
}

std::string format_raw(const RawValue& raw) {
  return std::visit(Overloaded{[](bool value) -> std::string { return value ? "true" : "false"; },
                               [](std::int64_t value) { return std::to_string(value); },
                               [](const std::string& value) { return quote_short(value); },
                               [](ForeignType type) { return std::string{type.name}; }},
                    raw);
}

std::string_view kind_name(const Kind& kind) noexcept {
  return std::visit(Overloaded{[](BoolKind) -> std::string_view { return "boolean"; },
                               [](IntegerKind) -> std::string_view { return "integer"; },
                               [](SizeKind) -> std::string_view { return "size"; },
                               [](const DurationKind&) -> std::string_view { return "duration"; },
                               [](ChoiceKind) -> std::string_view { return "choice"; },
                               [](TextKind) -> std::string_view { return "string"; }},
                    kind);
}

std::string kind_range(const Kind& kind) {
  return std::visit(
      Overloaded{
          [](BoolKind) -> std::string { return ""; },
          [](IntegerKind k) { return from_to(std::to_string(k.min), std::to_string(k.max)); },
          [](SizeKind k) { return from_to(quote(format_size(k.min)), quote(format_size(k.max))); },
          [](const DurationKind& k) {
            const std::string range =
                from_to(quote(format_duration(k.min)), quote(format_duration(k.max)));
            return k.zero_allowed ? range + ", or \"0s\"" : range;
          },
          [](ChoiceKind k) { return join_choices(k.names); },
          [](TextKind k) -> std::string {
            switch (k.form) {
              case TextKind::Form::kAny:
                return "up to 4096 bytes";
              case TextKind::Form::kNotEmpty:
                return "1 to 4096 bytes";
              case TextKind::Form::kAddress:
                return "an IPv4 or IPv6 address without brackets";
              case TextKind::Form::kAddressOrStar:
                return "\"*\", or an IPv4 or IPv6 address without brackets";
              case TextKind::Form::kFileMode:
                return "three octal digits, as \"660\"";
            }
            return "";
          }},
      kind);
}

std::string kind_allowed(const Kind& kind) {
  if (std::holds_alternative<BoolKind>(kind)) return "true or false";
  if (std::holds_alternative<ChoiceKind>(kind)) return kind_range(kind);
  std::string text = std::holds_alternative<IntegerKind>(kind) ? "an " : "a ";
  text += kind_name(kind);
  text += ", " + kind_range(kind);
  if (const auto* any = std::get_if<TextKind>(&kind);
      any != nullptr && any->form < TextKind::Form::kAddress) {
    text += " of UTF-8 without control characters";
  }
  if (std::holds_alternative<SizeKind>(kind)) text += ", or the number of bytes";
  return text;
}

bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) {
      quoted += "\\x" + hex2(c);
    } else if (is_control(c)) {
      quoted += "\\u00" + hex2(c);
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted += '"';
}

std::string quote_short(std::string_view text) {
  if (text.size() <= kMessageTextBytesMax) return quote(text);
  std::size_t cut = kMessageTextBytesMax;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80)
    --cut;
  return quote(text.substr(0, cut)) + "...";
}

}  // namespace pulsewheel

// What a key's value may be: its kind, its range, how it is read, printed and explained.
// Internal to config/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace pulsewheel {

/// A value as a source gave it, before anybody knows which key it is for.
struct ForeignType {
  std::string_view name;  // "float", "array": a TOML type that no key takes
};
using RawValue = std::variant<bool, std::int64_t, std::string, ForeignType>;

/// A value that fits its kind: bool; an integer, a size in bytes or the index of a choice; a
/// duration; text.
using Value = std::variant<bool, std::int64_t, std::chrono::nanoseconds, std::string>;

struct BoolKind {};

struct IntegerKind {
  std::int64_t min;
  std::int64_t max;
};

struct SizeKind {  // bytes
  std::int64_t min;
  std::int64_t max;
};

struct DurationKind {
  std::chrono::nanoseconds min;
  std::chrono::nanoseconds max;
  bool zero_allowed = false;  // "0s" besides, where it means off
};

/// The value is the index in `names`, which must be that of the enumerator.
struct ChoiceKind {
  std::span<const std::string_view> names;
};

struct TextKind {
  enum class Form : std::uint8_t { kAny, kNotEmpty, kAddress, kAddressOrStar, kFileMode };
  Form form = Form::kAny;
};

using Kind = std::variant<BoolKind, IntegerKind, SizeKind, DurationKind, ChoiceKind, TextKind>;

/// Longest text value, in bytes: PATH_MAX, since most are paths.
inline constexpr std::size_t kTextBytesMax = 4'096;

/// Why a value was not taken: half a sentence.
struct Rejection {
  std::string reason;
};

[[nodiscard]] std::variant<Value, Rejection> parse_value(const Kind& kind, const RawValue& raw);

/// Whether `raw` has the TOML type that `kind` is written in; bare text can stand for the others.
[[nodiscard]] bool takes_type_of(const Kind& kind, const RawValue& raw) noexcept;

/// As TOML: `true`, `5`, `"30s"`, `"16KiB"`, `"linger"`. Requires a value of this kind.
[[nodiscard]] std::string format_value(const Kind& kind, const Value& value);

/// For messages: `5`, `"abc"`, `array`. Long text is cut; always one line.
[[nodiscard]] std::string format_raw(const RawValue& raw);

/// "duration"
[[nodiscard]] std::string_view kind_name(const Kind& kind) noexcept;

/// `"10ms" to "10s"`; empty for a bool.
[[nodiscard]] std::string kind_range(const Kind& kind);

/// What a wrong value's message says is allowed: `a duration, "10ms" to "10s"`.
[[nodiscard]] std::string kind_allowed(const Kind& kind);

/// Whether `c` is a control character of ASCII.
[[nodiscard]] bool is_control(char c) noexcept;

/// `text` as a TOML basic string, with quotes. What is not UTF-8 shows as \xNN, which TOML does not
/// know: only messages ever hold such text.
[[nodiscard]] std::string quote(std::string_view text);

/// The same, with no more than about 80 bytes of `text`, for messages.
[[nodiscard]] std::string quote_short(std::string_view text);

}  // namespace pulsewheel

#include "config/units.h"

#include <array>
#include <charconv>
#include <limits>

namespace pulsewheel {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
  bool written;  // whether format_duration() uses it
};

// Greatest first: a duration names its units in this order.
constexpr std::array kDurationUnits{
    Unit{"d", 86'400'000'000'000, false},  // "24h" is clearer than "1d" beside "30h"
    Unit{"h", 3'600'000'000'000, true},
    Unit{"m", 60'000'000'000, true},
    Unit{"s", 1'000'000'000, true},
    Unit{"ms", 1'000'000, true},
    Unit{"us", 1'000, true},
    Unit{"ns", 1, true},
};

constexpr std::array kSizeUnits{
    Unit{"TiB", std::int64_t{1} << 40, true},
    Unit{"GiB", std::int64_t{1} << 30, true},
    Unit{"MiB", std::int64_t{1} << 20, true},
    Unit{"KiB", std::int64_t{1} << 10, true},
    Unit{"B", 1, true},
};

/// Takes a run of digits off the front of `text`. nullopt if there is none or it overflows.
std::optional<std::int64_t> take_count(std::string_view& text) {
  // from_chars would take a minus sign too.
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return count;
}

std::optional<std::int64_t> multiply(std::int64_t count, std::int64_t factor) {
  if (count > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
  return count * factor;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  auto unit = kDurationUnits.begin();
  while (!text.empty()) {
    const auto count = take_count(text);
    if (!count) return std::nullopt;
    const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
    while (unit != kDurationUnits.end() && unit->name != name)
      ++unit;
    if (unit == kDurationUnits.end()) return std::nullopt;
    const auto part = multiply(*count, unit->factor);
    if (!part || *part > std::numeric_limits<std::int64_t>::max() - total) return std::nullopt;
    total += *part;
    text.remove_prefix(name.size());
    ++unit;
  }
  return std::chrono::nanoseconds{total};
}

std::string format_duration(std::chrono::nanoseconds value) {
  if (value == std::chrono::nanoseconds::zero()) return "0s";
  std::string text;
  std::int64_t rest = value.count();
  for (const Unit& unit : kDurationUnits) {
    if (!unit.written || rest < unit.factor) continue;
    text += std::to_string(rest / unit.factor);
    text += unit.name;
    rest %= unit.factor;
  }
  return text;
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  const auto count = take_count(text);
  if (!count) return std::nullopt;
  for (const Unit& unit : kSizeUnits) {
    if (unit.name == text) return multiply(*count, unit.factor);
  }
  return std::nullopt;
}

std::string format_size(std::int64_t bytes) {
  for (const Unit& unit : kSizeUnits) {
    if (bytes != 0 && bytes % unit.factor == 0) {
      return std::to_string(bytes / unit.factor).append(unit.name);
    }
  }
  return "0B";
}

}  // namespace pulsewheel

// Durations and sizes as operators write them: "1m30s", "256MiB".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsewheel {

/// Reads one or more counts with a unit, each unit at most once and the greater one first: d, h,
/// m, s, ms, us, ns ("24h", "1m30s", "1s500ms"). No sign, no fraction, no space. nullopt for
/// anything else, and for more than 292 years.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// The shortest text that parse_duration() reads back, with hours as the greatest unit; "0s" for
/// none. Requires value >= 0.
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds value);

/// Reads a count of bytes with a unit of B, KiB, MiB, GiB or TiB ("256MiB"). nullopt for anything
/// else, and for more than 2^63 - 1 bytes.
[[nodiscard]] std::optional<std::int64_t> parse_size(std::string_view text);

/// In the greatest unit that needs no fraction. Requires bytes >= 0.
[[nodiscard]] std::string format_size(std::int64_t bytes);

}  // namespace pulsewheel

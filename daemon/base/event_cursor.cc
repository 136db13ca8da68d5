#include "daemon/base/event_cursor.h"

#include <charconv>
#include <system_error>

namespace pulsewheel {

namespace {

/// All of `text` as a number.
std::optional<std::uint64_t> parse_number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<EventCursor> EventCursor::parse(std::string_view text) noexcept {
  const auto dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto epoch = parse_number(text.substr(0, dash));
  const auto seq = parse_number(text.substr(dash + 1));
  if (!epoch || !seq) return std::nullopt;
  return EventCursor{*epoch, *seq};
}

std::string EventCursor::to_string() const {
  return std::to_string(epoch) + "-" + std::to_string(seq);
}

}  // namespace pulsewheel

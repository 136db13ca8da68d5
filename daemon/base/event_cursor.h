// EventCursor: a place in the order of all edges of a node.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsewheel {

/// Behind the edge `seq` of `epoch`; seq 0 is in front of an epoch's first one. Ordered as edges
/// are. As text "EPOCH-SEQ", as in "3-17".
struct EventCursor {
  std::uint64_t epoch = 0;
  std::uint64_t seq = 0;

  /// Nullopt unless `text` is two decimal numbers of 64 bits with a '-' between them.
  [[nodiscard]] static std::optional<EventCursor> parse(std::string_view text) noexcept;
  [[nodiscard]] std::string to_string() const;

  friend auto operator<=>(const EventCursor&, const EventCursor&) = default;
};

}  // namespace pulsewheel

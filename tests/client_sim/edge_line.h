// One line of the daemon's event log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/client_sim/judge.h"

namespace pulsewheel::sim {

struct EdgeLine {
  std::uint64_t epoch = 0;
  std::uint64_t seq = 0;
  std::string_view uid;  // as written, percent-encoded
  ObservedEdge::Kind kind = ObservedEdge::Kind::kOnline;
  Reason reason = Reason::kOther;
};

/// Reads `line` (without its newline). The daemon's own layout takes one scan without allocation;
/// any other JSON object with the same members is read too, into `scratch`. `out.uid` points into
/// the line or into `scratch`. False when it is no edge.
[[nodiscard]] bool parse_edge_line(std::string_view line, EdgeLine& out, std::string& scratch);

/// The daemon writes a line of another kind where its log had to drop edges (a full or stuck
/// disk). How many they were; nullopt when `line` is none of these.
[[nodiscard]] std::optional<std::uint64_t> parse_gap_line(std::string_view line);

}  // namespace pulsewheel::sim

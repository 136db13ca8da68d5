#include "daemon/events/edge_line.h"

#include <string_view>

#include "daemon/base/put_text.h"

namespace pulsewheel {
namespace {

constexpr std::size_t kFixedBytes =
    std::string_view(R"({"seq":,"epoch":,"uid":"","kind":"","reason":"","at":"","last_seen":"",)"
                     R"("sessions":})")
        .size() +
    1;
constexpr std::size_t kNameBytesMax = 16;  // of a kind or a reason
static_assert(kFixedBytes + 3 * kDigitsMax + 2 * kNameBytesMax + 2 * Rfc3339Writer::kSize +
                  255 * kPercentExpansion <=
              EdgeLineWriter::kLineBytesMax);

}  // namespace

char* EdgeLineWriter::write_edge(const Edge& edge, std::uint64_t epoch, std::uint64_t seq,
                                 const WallClockMapping& clock, char* out) noexcept {
  out = put(out, R"({"seq":)");
  out = put(out, seq);
  out = put(out, R"(,"epoch":)");
  out = put(out, epoch);
  out = put(out, R"(,"uid":")");
  out = write_percent_encoded(out, edge.uid);
  out = put(out, R"(","kind":")");
  out = put(out, to_string(edge.kind));
  out = put(out, R"(","reason":")");
  out = put(out, to_string(edge.reason));
  out = put(out, R"(","at":")");
  out = at_.write(clock.to_wall(edge.at), out);
  out = put(out, R"(","last_seen":)");
  if (edge.last_seen == kLastSeenUnknown) {
    out = put(out, "null");
  } else {
    out = put(out, "\"");
    out = last_seen_.write(clock.to_wall(edge.last_seen), out);
    out = put(out, "\"");
  }
  out = put(out, R"(,"sessions":)");
  out = put(out, edge.sessions);
  return put(out, "}\n");
}

char* EdgeLineWriter::write_gap(std::uint64_t dropped, std::uint64_t first_seq,
                                std::uint64_t last_seq, char* out) noexcept {
  out = put(out, R"({"gap":true,"dropped":)");
  out = put(out, dropped);
  out = put(out, R"(,"first_seq":)");
  out = put(out, first_seq);
  out = put(out, R"(,"last_seq":)");
  out = put(out, last_seq);
  return put(out, "}\n");
}

}  // namespace pulsewheel

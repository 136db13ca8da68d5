#include "tests/client_sim/edge_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace pulsewheel::sim {
namespace {

/// Takes fixed text and values off the front of a line; once something does not match, all
/// further calls fail.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  Scanner& expect(std::string_view text) {
    if (rest_.starts_with(text)) {
      rest_.remove_prefix(text.size());
    } else {
      fine_ = false;
    }
    return *this;
  }
  Scanner& number(std::uint64_t& out) {
    const auto parsed = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (parsed.ec != std::errc{}) {
      fine_ = false;
    } else {
      rest_.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest_.data()));
    }
    return *this;
  }
  /// Up to the next quote; a backslash is not for this scanner.
  Scanner& text(std::string_view& out) {
    const std::size_t end = rest_.find('"');
    if (end == std::string_view::npos) {
      fine_ = false;
      return *this;
    }
    out = rest_.substr(0, end);
    if (out.find('\\') != std::string_view::npos) fine_ = false;
    rest_.remove_prefix(end);
    return *this;
  }
  /// Everything matched, and nothing is left.
  [[nodiscard]] bool done() const noexcept { return fine_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool fine_ = true;
};

bool set_kind(std::string_view kind, EdgeLine& out) noexcept {
  out.kind = kind == "online" ? ObservedEdge::Kind::kOnline : ObservedEdge::Kind::kOffline;
  return kind == "online" || kind == "offline";
}

Reason reason_of(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 6> kNames = {"login",      "timeout", "logout",
                                                      "disconnect", "kicked",  "shutdown"};
  static_assert(static_cast<std::size_t>(Reason::kOther) == kNames.size());
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return static_cast<Reason>(found - kNames.begin());
}

bool scan(std::string_view line, EdgeLine& out) {
  std::string_view kind;
  std::string_view reason;
  std::string_view time;
  std::uint64_t sessions = 0;
  Scanner scanner(line);
  scanner.expect(R"({"seq":)").number(out.seq).expect(R"(,"epoch":)").number(out.epoch);
  scanner.expect(R"(,"uid":")").text(out.uid).expect(R"(","kind":")").text(kind);
  scanner.expect(R"(","reason":")").text(reason).expect(R"(","at":")").text(time);
  // To the very end: half a line with a whole one behind it must not pass for one edge.
  scanner.expect(R"(","last_seen":")").text(time).expect(R"(","sessions":)").number(sessions);
  if (!scanner.expect("}").done()) return false;
  out.reason = reason_of(reason);
  return set_kind(kind, out);
}

bool parse_json(std::string_view line, EdgeLine& out, std::string& scratch) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  try {
    out.seq = object.at("seq").get<std::uint64_t>();
    out.epoch = object.at("epoch").get<std::uint64_t>();
    scratch = object.at("uid").get<std::string>();
    out.uid = scratch;
    out.reason = reason_of(object.at("reason").get_ref<const std::string&>());
    return set_kind(object.at("kind").get_ref<const std::string&>(), out);
  } catch (const nlohmann::json::exception&) {
    return false;  // a member is missing or of another type
  }
}

}  // namespace

std::optional<std::uint64_t> parse_gap_line(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.value("gap", nlohmann::json()).is_boolean()) {
    return std::nullopt;
  }
  const auto dropped = object.find("dropped");
  if (dropped == object.end() || !dropped->is_number_unsigned()) return std::nullopt;
  return dropped->get<std::uint64_t>();
}

bool parse_edge_line(std::string_view line, EdgeLine& out, std::string& scratch) {
  return scan(line, out) || parse_json(line, out, scratch);
}

}  // namespace pulsewheel::sim

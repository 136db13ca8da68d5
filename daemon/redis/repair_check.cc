#include "daemon/redis/repair_check.h"

#include <charconv>

namespace pulsewheel {
namespace {

/// A whole number as Lua has them exactly.
std::optional<std::int64_t> parse_number(std::string_view text) {
  constexpr std::int64_t kMax = std::int64_t{1} << 53;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < 0 || value > kMax) return std::nullopt;
  return value;
}

/// Calls `visit(tag)` for each "node:epoch".
template <class Visit>
void for_each_owner(std::string_view owners, Visit visit) {
  while (!owners.empty()) {
    const std::size_t comma = owners.find(',');
    visit(owners.substr(0, comma));
    owners.remove_prefix(comma == std::string_view::npos ? owners.size() : comma + 1);
  }
}

std::string_view name_of(std::string_view owner) noexcept {
  return owner.substr(0, owner.find(':'));
}

}  // namespace

bool is_held_by(std::string_view owners, std::string_view name) noexcept {
  bool held = false;
  for_each_owner(owners, [&](std::string_view owner) { held = held || name_of(owner) == name; });
  return held;
}

bool is_held_only_by(std::string_view owners, std::string_view name) noexcept {
  bool only = !owners.empty();
  for_each_owner(owners, [&](std::string_view owner) { only = only && name_of(owner) == name; });
  return only;
}

bool is_held_by(std::string_view owners, const RingNode& node) {
  const std::string tag = node.tag();
  bool held = false;
  for_each_owner(owners, [&](std::string_view owner) { held = held || owner == tag; });
  return held;
}

std::optional<std::chrono::milliseconds> parse_unix_ms(std::string_view text) {
  const auto number = parse_number(text);
  if (!number) return std::nullopt;
  return std::chrono::milliseconds{*number};
}

std::optional<std::chrono::milliseconds> parse_redis_time(const RedisReply& reply) {
  if (!reply.is_array() || reply.elements.size() != 2) return std::nullopt;
  const auto seconds = parse_number(reply.elements[0].text);
  const auto micros = parse_number(reply.elements[1].text);
  if (!seconds || !micros) return std::nullopt;
  return std::chrono::milliseconds{*seconds * 1'000 + *micros / 1'000};
}

bool is_scan_page(const RedisReply& reply) noexcept {
  return reply.is_array() && reply.elements.size() == 2 && reply.elements[0].is_string() &&
         reply.elements[1].is_array();
}

bool is_filed_right(const FiledUser& filed, const ExpectedUser& expected, const RingLayout& layout,
                    const std::vector<std::string>& slots, const RingNode& node) {
  std::size_t selves = 0;  // this node, in whatever epoch
  bool is_ours = false;
  bool has_others = false;
  for_each_owner(filed.owners, [&](std::string_view owner) {
    const bool is_self = name_of(owner) == node.name;
    selves += is_self ? 1 : 0;
    is_ours = is_ours || owner == node.tag();
    has_others = has_others || !is_self;
  });
  if (!is_ours || selves != 1 || !filed.slot || !filed.deadline) return false;

  const auto deadline = parse_unix_ms(*filed.deadline);
  if (!deadline) return false;
  if (slots[layout.slot_of(*deadline)] != *filed.slot) return false;
  const auto wanted = layout.deadline(expected.now, expected.remaining);
  const bool is_beyond = expected.remaining > layout.span();
  const auto earliest =
      wanted - expected.slack - (is_beyond ? expected.refile_period : std::chrono::milliseconds{0});
  // Whoever is due is about to go, however long ago that was.
  const bool is_late_enough = *deadline >= earliest || expected.remaining.count() <= 0;
  return is_late_enough && (has_others || *deadline <= wanted + expected.slack);
}

}  // namespace pulsewheel

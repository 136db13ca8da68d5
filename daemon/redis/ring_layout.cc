#include "daemon/redis/ring_layout.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace pulsewheel {
namespace {

std::vector<std::string> fixed_keys(const RingNames& names) {
  return {names.ring, names.index, names.deadlines(), names.owners(), names.events(), names.hand()};
}

}  // namespace

bool RingNode::is_valid_name(std::string_view name) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

RingLayout::RingLayout(RingNames names, std::size_t slots)
    : names_(std::move(names)), slots_(slots) {
  if (slots_ != kSlotsDefault && slots_ != kSlotsDocumented) {
    throw std::invalid_argument("a ring of " + std::to_string(slots_) +
                                " slots: 32 are allowed, or the 31 of the documented list");
  }
  const auto keys = fixed_keys(names_);
  if (std::set(keys.begin(), keys.end()).size() != keys.size() ||
      std::find(keys.begin(), keys.end(), "") != keys.end()) {
    throw std::invalid_argument("the names of the keys in Redis must differ and not be empty");
  }
  if (const auto problem = problem_of(default_slot_names())) throw std::invalid_argument(*problem);
}

std::vector<std::string> RingLayout::default_slot_names() const {
  std::vector<std::string> slots;
  for (std::size_t i = 0; i < slots_; ++i)
    slots.push_back(names_.slot_prefix + std::to_string(i));
  return slots;
}

std::optional<std::string> RingLayout::problem_of(const std::vector<std::string>& found) const {
  const std::string list = "the ring '" + names_.ring + "' in Redis ";
  if (found.size() != slots_) {
    return list + "has " + std::to_string(found.size()) + " slots and " + std::to_string(slots_) +
           " are configured: nothing was changed in it";
  }
  const auto keys = fixed_keys(names_);
  std::set<std::string> seen;
  for (const std::string& slot : found) {
    if (slot.empty()) return list + "has a slot without a name";
    if (!seen.insert(slot).second) return list + "has the slot '" + slot + "' twice";
    if (std::find(keys.begin(), keys.end(), slot) != keys.end() ||
        slot.starts_with(names_.node_prefix())) {
      return list + "has a slot '" + slot + "', which is the name of another key of ours";
    }
  }
  return std::nullopt;
}

std::optional<std::string> RingLayout::warning() const {
  if (slots_ != kSlotsDocumented) return std::nullopt;
  return "a ring of 31 slots holds timeouts of up to 29 s: a reader of it that looks at no "
         "deadline "
         "sees longer ones end early; 32 slots hold 30 s";
}

std::chrono::milliseconds RingLayout::deadline(std::chrono::milliseconds now,
                                               std::chrono::milliseconds remaining) const noexcept {
  return now + std::clamp(remaining, std::chrono::milliseconds{0}, span());
}

std::size_t RingLayout::slot_of(std::chrono::milliseconds deadline) const noexcept {
  const auto second = std::chrono::floor<std::chrono::seconds>(deadline).count();
  return (static_cast<std::size_t>(second) + 1) % slots_;
}

}  // namespace pulsewheel

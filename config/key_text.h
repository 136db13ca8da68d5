// A key in words, for each kind of document. Internal to config/.
#pragma once

#include <cctype>
#include <string>
#include <variant>

#include "config/keys.h"
#include "config/value.h"

namespace pulsewheel {

/// "Duration, "10ms" to "10s". Default "1s". A change takes a restart."
template <class Owner>
std::string key_facts(const Key<Owner>& key) {
  std::string text{kind_name(key.kind)};
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (const std::string range = kind_range(key.kind); !range.empty()) {
    text += (std::holds_alternative<ChoiceKind>(key.kind) ? ": " : ", ") + range;
  }
  text += ". Default " + format_value(key.kind, key.get(Owner{})) + ". ";
  return text + (key.reloadable ? "A reload applies it." : "A change takes a restart.");
}

}  // namespace pulsewheel

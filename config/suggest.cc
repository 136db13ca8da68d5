#include "config/suggest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "config/keys.h"

namespace pulsewheel {
namespace {

/// Longer names have no near key, and would cost time.
constexpr std::size_t kNameBytesMax = 64;

/// Levenshtein's distance, O(a.size() * b.size()).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// How far `name` is from a key. The right leaf in the wrong section counts as one step, and so
/// does a variable's name, in which underscores stand for dots.
std::size_t distance(std::string_view name, std::string_view key) {
  if (leaf_of(name) == leaf_of(key)) return section_of(name) == section_of(key) ? 0 : 1;
  std::string flat_key{key};
  std::replace(flat_key.begin(), flat_key.end(), '.', '_');
  std::size_t least = std::min(edit_distance(name, key), edit_distance(name, flat_key) + 1);
  if (section_of(name) == section_of(key)) {
    least = std::min(least, edit_distance(leaf_of(name), leaf_of(key)));
  }
  return least;
}

/// `listener.3.` of "listener.3.prot", so that the suggestion names the same element.
std::string listener_prefix(std::string_view name) {
  const std::size_t begin = kListenerSection.size() + 1;
  const std::size_t end = name.find_first_not_of("0123456789", begin);
  const bool numbered = section_of(name) == kListenerSection && end != std::string_view::npos &&
                        end > begin && name[end] == '.';
  return numbered ? std::string{name.substr(0, end + 1)} : "listener.0.";
}

/// Everything that could have been meant, as it would be written instead of `name`.
std::vector<std::string> candidates(std::string_view name) {
  std::vector<std::string> all;
  for (const Key<Config>& key : section_keys())
    all.emplace_back(key.name);
  for (const Key<Config::Listener>& key : listener_keys()) {
    all.push_back(listener_prefix(name).append(key.name));
  }
  if (name.find('.') == std::string_view::npos) {
    for (const Section& section : sections())
      all.emplace_back(section.name);
  }
  return all;
}

/// `enabled, address, port`; empty when there is no such section.
std::string list_leaves(std::string_view section) {
  std::string list;
  const auto add = [&](std::string_view leaf) {
    if (!list.empty()) list += ", ";
    list += leaf;
  };
  for (const Key<Config>& key : section_keys()) {
    if (section_of(key.name) == section) add(leaf_of(key.name));
  }
  if (section == kListenerSection) {
    for (const Key<Config::Listener>& key : listener_keys())
      add(key.name);
  }
  return list;
}

}  // namespace

std::string nearest_key(std::string_view name) {
  if (name.size() > kNameBytesMax) return "";
  // Two letters of a short name may be wrong by accident; half of a long one is another word.
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  std::string nearest;
  for (std::string& candidate : candidates(name)) {
    const std::size_t steps = distance(name, candidate);
    if (steps >= least) continue;
    least = steps;
    nearest = std::move(candidate);
  }
  return nearest;
}

std::string unknown_key_problem(std::string_view name) {
  const std::string leaves = list_leaves(section_of(name));
  if (name == kListenerSection) {
    return "listener is an array of 1 to 16 tables [[listener]] with the keys " + leaves +
           " (listener.0.port on the command line)";
  }
  if (section_of(name) == name && !leaves.empty()) {
    return std::string{name} + " is a table with the keys " + leaves;
  }
  const std::string problem = "unknown key " + quote_short(name);
  if (const std::string nearest = nearest_key(name); !nearest.empty()) {
    return problem + "; did you mean " + quote(nearest) + "?";
  }
  if (leaves.empty()) return problem;
  return problem + "; [" + std::string{section_of(name)} + "] has " + leaves;
}

std::string variable_of_key(std::string_view key) {
  std::string name{kVariablePrefix};
  for (const char c : key) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

}  // namespace pulsewheel

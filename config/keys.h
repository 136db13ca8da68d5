// The one table of configuration keys. Loading, printing, documentation and differences all come
// from it, so they cannot disagree. Internal to config/.
#pragma once

#include <span>
#include <string_view>

#include "config/config.h"
#include "config/value.h"

namespace pulsewheel {

/// One key, and where its value lives in an `Owner`.
template <class Owner>
struct Key {
  std::string_view name;  // of Config: "presence.tick"; of Config::Listener: "port"
  Kind kind;
  bool reloadable;
  std::string_view doc;
  Value (*get)(const Owner& owner);
  void (*set)(Owner& owner, const Value& value);  // requires a value of this kind
};

/// A table of the file.
struct Section {
  std::string_view name;
  std::string_view doc;
};

/// The name of the array of tables whose elements kListenerKeys describes.
inline constexpr std::string_view kListenerSection = "listener";

/// In the order in which they are printed; kListenerSection is one of them.
[[nodiscard]] std::span<const Section> sections() noexcept;

/// The keys of all sections but kListenerSection, section by section in the order of sections().
[[nodiscard]] std::span<const Key<Config>> section_keys() noexcept;

/// The keys of one element of [[listener]].
[[nodiscard]] std::span<const Key<Config::Listener>> listener_keys() noexcept;

/// "presence" of "presence.tick".
[[nodiscard]] constexpr std::string_view section_of(std::string_view key) noexcept {
  return key.substr(0, key.find('.'));
}

/// "tick" of "presence.tick".
[[nodiscard]] constexpr std::string_view leaf_of(std::string_view key) noexcept {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace pulsewheel

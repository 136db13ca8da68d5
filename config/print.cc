// Everything that turns the table of keys, and a Config, into text for people.

#include <algorithm>

#include "config/config.h"
#include "config/key_text.h"
#include "config/keys.h"

namespace pulsewheel {
namespace {

constexpr std::size_t kLineWidth = 100;

/// `doc` as comment lines no longer than kLineWidth.
void append_comment(std::string& text, std::string_view doc) {
  while (!doc.empty()) {
    std::size_t length = doc.size();
    if (length > kLineWidth - 2) length = doc.rfind(' ', kLineWidth - 2);
    text.append("# ").append(doc.substr(0, length)) += '\n';
    doc.remove_prefix(std::min(doc.size(), length + 1));
  }
}

template <class Owner>
std::string assignment(const Key<Owner>& key, const Owner& owner) {
  return std::string{leaf_of(key.name)} + " = " + format_value(key.kind, key.get(owner)) + '\n';
}

template <class Owner>
void append_documented(std::string& text, const Key<Owner>& key) {
  text += '\n';
  append_comment(text, key.doc);
  append_comment(text, key_facts(key));
  text += '#' + assignment(key, Owner{});
}

template <class Owner>
KeyInfo key_info(const Key<Owner>& key, std::string name) {
  return {std::move(name),
          std::string{kind_name(key.kind)},
          format_value(key.kind, key.get(Owner{})),
          kind_range(key.kind),
          std::string{key.doc},
          key.reloadable};
}

/// Calls `on_key(key)` for the section's keys; for [[listener]] calls `on_listener()` instead.
template <class OnKey, class OnListener>
void for_section(const Section& section, const OnKey& on_key, const OnListener& on_listener) {
  if (section.name == kListenerSection) {
    on_listener();
    return;
  }
  for (const Key<Config>& key : section_keys()) {
    if (section_of(key.name) == section.name) on_key(key);
  }
}

}  // namespace

std::string print_config(const Config& config) {
  std::string text;
  for (const Section& section : sections()) {
    if (!text.empty()) text += '\n';
    const std::string name{section.name};
    if (section.name != kListenerSection) text += "[" + name + "]\n";
    for_section(
        section, [&](const Key<Config>& key) { text += assignment(key, config); },
        [&] {
          for (std::size_t i = 0; i < config.listeners.size(); ++i) {
            text += (i > 0 ? "\n[[" : "[[") + name + "]]\n";
            for (const auto& key : listener_keys())
              text += assignment(key, config.listeners[i]);
          }
        });
  }
  return text;
}

std::string print_documented_defaults() {
  std::string text;
  append_comment(text,
                 "Configuration of pulsewheeld. Each key stands here with its default, commented "
                 "out.");
  append_comment(text,
                 "Stronger than this file are environment variables (PULSEWHEEL_PRESENCE_TICK for "
                 "tick in [presence]), and stronger than both is --set presence.tick=100ms on the "
                 "command line. A duration is written as \"1m30s\" with the units h, m, s, ms and "
                 "us; a size as \"16KiB\" with B, KiB, MiB and GiB.");
  for (const Section& section : sections()) {
    text += "\n\n";
    append_comment(text, section.doc);
    const std::string name{section.name};
    if (section.name != kListenerSection) text += "[" + name + "]\n";
    for_section(
        section, [&](const Key<Config>& key) { append_documented(text, key); },
        [&] {
          text += "#[[" + name + "]]\n";
          for (const auto& key : listener_keys())
            append_documented(text, key);
        });
  }
  return text;
}

std::vector<KeyInfo> config_keys() {
  std::vector<KeyInfo> keys;
  for (const Section& section : sections()) {
    for_section(
        section,
        [&](const Key<Config>& key) { keys.push_back(key_info(key, std::string{key.name})); },
        [&] {
          for (const auto& key : listener_keys()) {
            keys.push_back(key_info(key, "listener.N." + std::string{key.name}));
          }
        });
  }
  return keys;
}

std::vector<std::string> diff(const Config& old_config, const Config& new_config) {
  std::vector<std::string> names;
  const auto diff_listeners = [&] {
    if (old_config.listeners.size() != new_config.listeners.size()) {
      names.emplace_back(kListenerSection);
      return;
    }
    for (std::size_t i = 0; i < old_config.listeners.size(); ++i) {
      for (const auto& key : listener_keys()) {
        if (key.get(old_config.listeners[i]) == key.get(new_config.listeners[i])) continue;
        names.push_back("listener." + std::to_string(i) + "." + std::string{key.name});
      }
    }
  };
  for (const Section& section : sections()) {
    for_section(
        section,
        [&](const Key<Config>& key) {
          if (key.get(old_config) != key.get(new_config)) names.emplace_back(key.name);
        },
        diff_listeners);
  }
  return names;
}

std::string value_text(const Config& config, std::string_view key) {
  if (key == kListenerSection) return std::to_string(config.listeners.size());
  for (const Key<Config>& known : section_keys()) {
    if (known.name == key) return format_value(known.kind, known.get(config));
  }
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    for (const auto& known : listener_keys()) {
      if (key != "listener." + std::to_string(i) + "." + std::string{known.name}) continue;
      return format_value(known.kind, known.get(config.listeners[i]));
    }
  }
  return "";
}

bool reload_applies(std::string_view key) noexcept {
  for (const Key<Config>& known : section_keys()) {
    if (known.name == key) return known.reloadable;
  }
  return false;  // no listener is opened or closed by a reload
}

}  // namespace pulsewheel

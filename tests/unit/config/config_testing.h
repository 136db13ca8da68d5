// What the tests of the configuration share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace pulsewheel {

/// The name that the tests give to text that stands for a file.
inline constexpr std::string_view kFileName = "test.toml";

[[nodiscard]] inline Config load_text(std::string_view text) {
  return load_config_text(text, {std::string{kFileName}, {}, {}});
}

[[nodiscard]] inline Config load_sets(std::vector<std::string> sets) {
  return load_config({"", std::move(sets), {}});
}

using Environment = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] inline Config load_env(Environment env) {
  return load_config({"", {}, std::move(env)});
}

/// What `load` complains about; nothing when it does not.
template <class Load>
[[nodiscard]] std::vector<std::string> problems_of(const Load& load) {
  try {
    static_cast<void>(load());
    return {};
  } catch (const ConfigError& error) {
    return error.problems();
  }
}

[[nodiscard]] inline std::vector<std::string> problems_of_text(std::string_view text) {
  return problems_of([&] { return load_text(text); });
}

[[nodiscard]] inline std::vector<std::string> problems_of_sets(std::vector<std::string> sets) {
  return problems_of([&] { return load_sets(std::move(sets)); });
}

[[nodiscard]] inline std::vector<std::string> problems_of_env(Environment env) {
  return problems_of([&] { return load_env(std::move(env)); });
}

}  // namespace pulsewheel

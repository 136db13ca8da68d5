#include "config/config.h"

#include <unistd.h>

namespace pulsewheel {
namespace {

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<std::string> problems)
    : std::runtime_error(join_lines(problems)), problems_(std::move(problems)) {}

std::string event_log_path(const Config& config) {
  if (!config.events.enabled) return "";
  if (!config.events.path.empty()) return config.events.path;
  return config.server.state_dir + "/events.jsonl";
}

std::uint64_t presence_users_max(const Config& config) noexcept {
  if (config.presence.users_max != 0) return config.presence.users_max;
  return std::uint64_t{2} * config.server.max_connections;
}

std::vector<std::pair<std::string, std::string>> read_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace pulsewheel

#include "daemon/server/reload.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/server/options.h"

namespace pulsewheel {
namespace {

constexpr log::Kind kReload = log::Kind::unlimited("reload");

void tell_problems(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems)
    log::error(kReload, "{}", problem);
  log::error(kReload, "the configuration was not reloaded: everything stays as it was");
}

/// Of a token file that has the same name and another token.
ReloadReport::Change token_change() {
  return {"http.token_file", "the token in it", "another one"};
}

ReloadReport compare(const Config& running, const Config& wanted) {
  ReloadReport report;
  for (const std::string& key : diff(running, wanted)) {
    auto& changes = reload_applies(key) ? report.changed : report.needs_restart;
    changes.push_back({key, value_text(running, key), value_text(wanted, key)});
  }
  return report;
}

void tell_changes(const ReloadReport& report) {
  for (const auto& [key, before, after] : report.changed)
    log::info(kReload, "{}: {} is now {}", key, before, after);
  for (const auto& [key, before, after] : report.needs_restart)
    log::warn(kReload, "{}: {} stays, {} takes a restart", key, before, after);
  log::info(kReload, "configuration reloaded; keys changed: {}, waiting for a restart: {}",
            report.changed.size(), report.needs_restart.size());
}

}  // namespace

Reloader::Reloader(ConfigSource source, const Config& running)
    : source_(std::move(source)), http_token_(pulsewheel::http_token(running)) {
  count_success();
}

Reloader::~Reloader() {
  if (reserve_ >= 0) ::close(reserve_);
}

void Reloader::reserve_descriptor() noexcept {
  if (reserve_ < 0) reserve_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void Reloader::reload(const Config& running, const std::function<void(Config)>& take_over) {
  std::optional<Config> next = read(running);
  if (!next) {
    counters_.last_successful.set(0);
    counters_.failed.add();
    return;
  }
  take_over(std::move(*next));
  count_success();
  counters_.succeeded.add();
}

std::optional<Config> Reloader::read(const Config& running) {
  try {
    auto [wanted, token] = load();
    Config next = apply_reload(running, wanted);
    report_ = compare(running, wanted);
    if (wanted.http.token_file == running.http.token_file && token != http_token_) {
      report_.changed.push_back(token_change());
    }
    http_token_ = std::move(token);
    tell_changes(report_);
    return next;
  } catch (const ConfigError& error) {
    report_ = {.problems = error.problems(), .changed = {}, .needs_restart = {}};
  } catch (const std::exception& error) {
    report_ = {.problems = {error.what()}, .changed = {}, .needs_restart = {}};
  }
  tell_problems(report_.problems);
  return std::nullopt;
}

Reloader::Loaded Reloader::load() {
  /// Takes a descriptor into reserve again, also when the load throws.
  struct Refill {
    Reloader& reloader;
    ~Refill() { reloader.reserve_descriptor(); }
  };
  const Refill refill{*this};
  if (reserve_ >= 0) ::close(std::exchange(reserve_, -1));
  Config config = load_config(source_);
  check_config(config);
  BearerToken token = pulsewheel::http_token(config);
  return {std::move(config), std::move(token)};
}

void Reloader::count_success() noexcept {
  using std::chrono::duration_cast;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  counters_.last_successful.set(1);
  counters_.last_success_unix_s.set(duration_cast<std::chrono::seconds>(since_1970).count());
}

}  // namespace pulsewheel

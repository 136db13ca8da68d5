// Reloader: the configuration read anew while the daemon runs (SIGHUP).
#pragma once

#include <functional>
#include <optional>

#include "config/config.h"
#include "daemon/admin/bearer_token.h"
#include "daemon/admin/reports.h"
#include "daemon/base/counters.h"

namespace pulsewheel {

/// Written by the main thread, read by any.
struct ReloadCounters {
  Counter succeeded;
  Counter failed;
  Gauge last_successful;      // 1 or 0; the load at the start counts
  Gauge last_success_unix_s;  // when the configuration that holds was loaded
};

/// Reads the sources of the configuration again, and says in the log what came of it: problem by
/// problem where it is wrong, else key by key what has changed and what takes a restart.
///
/// A wrong configuration changes nothing. A reload needs one descriptor, and has to work when there
/// is none left: that is when an operator wants other limits. So one is kept in reserve, and given
/// back for the moment of reading. Main thread; blocks on the disk that has the file.
class Reloader {
 public:
  /// `source`: what `running` was loaded from. Reads http.token_file; throws ConfigError.
  Reloader(ConfigSource source, const Config& running);
  ~Reloader();
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;

  /// Opens the reserve. Early, so that its number is low (a limit on descriptors is one on their
  /// numbers), but only when shards have separated their descriptor tables, or it would be in
  /// theirs too.
  void reserve_descriptor() noexcept;

  /// Has `take_over` take over what holds from now on, `running` with the changes that need no
  /// restart, and counts behind it: whoever sees the count meets the new values. `take_over` is not
  /// called when `running` stays.
  void reload(const Config& running, const std::function<void(Config)>& take_over);

  /// What the last reload() found.
  [[nodiscard]] const ReloadReport& report() const noexcept { return report_; }

  /// What http.token_file held at the last successful reload; before one, at the start. Read with
  /// the configuration, since there may be no descriptor to read it later.
  [[nodiscard]] const BearerToken& http_token() const noexcept { return http_token_; }

  [[nodiscard]] const ReloadCounters& counters() const noexcept { return counters_; }

 private:
  struct Loaded {
    Config config;
    BearerToken http_token;
  };
  [[nodiscard]] std::optional<Config> read(const Config& running);
  [[nodiscard]] Loaded load();
  void count_success() noexcept;

  const ConfigSource source_;
  int reserve_ = -1;
  BearerToken http_token_;
  ReloadReport report_;
  ReloadCounters counters_;
};

}  // namespace pulsewheel

// StatusSource: what the HTTP port may know about the daemon. The server implements it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace prometheus {
struct MetricFamily;
}

namespace pulsewheel {

/// One session of a user, ready for output. Times are Unix milliseconds.
struct SessionReport {
  std::uint64_t id = 0;
  std::uint32_t shard = 0;
  std::string device;  // raw bytes, like the uid; encoded where it is written
  bool lingering = false;
  std::int64_t login_at_ms = 0;
  std::int64_t last_seen_ms = 0;
  std::int64_t deadline_ms = 0;
  std::uint32_t timeout_ms = 0;
};

struct UserReport {
  std::string state;  // "online", "offline", "unknown"
  std::optional<std::int64_t> since_ms;
  std::optional<std::int64_t> last_seen_ms;
  std::vector<SessionReport> sessions;
};

/// What a kick did.
struct KickReport {
  bool was_online = false;
  std::size_t kicked_sessions = 0;  // live ones; 0 for a user who only lingered
};

/// Called on the HTTP thread. Nothing here blocks on a shard: what a shard has to say arrives by
/// callback, on the HTTP thread again, or as nullopt after the source's own time limit.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  /// Every shard has turned lately. Cheap; no callback.
  [[nodiscard]] virtual bool live() const = 0;
  /// Listening and not draining. When false, `why` gets one short sentence.
  [[nodiscard]] virtual bool ready(std::string& why) const = 0;
  /// The answer of /v1/status.
  [[nodiscard]] virtual nlohmann::json status() const = 0;
  /// All metrics, from per-thread counters. Any thread.
  [[nodiscard]] virtual std::vector<prometheus::MetricFamily> collect() const = 0;

  using UserCallback = std::function<void(std::optional<UserReport>)>;
  virtual void async_user(std::string uid, UserCallback done) = 0;

  /// Makes a user offline at once and closes the user's sessions. After a nullopt it may still
  /// happen.
  using KickCallback = std::function<void(std::optional<KickReport>)>;
  virtual void async_kick(std::string uid, KickCallback done) = 0;
};

}  // namespace pulsewheel

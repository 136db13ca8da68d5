// StatusSource: what the HTTP port may know about the daemon. The server implements it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "daemon/admin/reports.h"

namespace prometheus {
struct MetricFamily;
}

namespace pulsewheel {

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

  /// What `callback`s below get is nullopt when a shard did not answer in time.
  template <class Report>
  using Callback = std::function<void(std::optional<Report>)>;

  using UserCallback = Callback<UserReport>;
  virtual void async_user(std::string uid, UserCallback done) = 0;

  /// Makes a user offline at once and closes the user's sessions. After a nullopt it may still
  /// happen.
  using KickCallback = Callback<KickReport>;
  virtual void async_kick(std::string uid, KickCallback done) = 0;

  /// Pauses a user's expiry for `length` at most. After a nullopt it may still happen, here and in
  /// what follows.
  virtual void async_hold(std::string uid, std::chrono::milliseconds length,
                          Callback<HoldReport> done) = 0;
  virtual void async_release(std::string uid, Callback<ReleaseReport> done) = 0;

  /// Begins to stop the daemon in order: clients leave over the drain window. Again: no effect.
  virtual void async_drain(Callback<DrainReport> done) = 0;
  /// Reads the configuration again, as on HUP. Nullopt while the daemon stops, too.
  virtual void async_reload(Callback<ReloadReport> done) = 0;

  /// As many lines as uids, in their order. Holds no shard up for longer than a portion.
  virtual void async_query(std::vector<std::string> uids, Callback<std::vector<UserLine>> done) = 0;

  /// The next `limit` users who are online, from `cursor` on: UserPage::next_cursor of the page
  /// before, or empty. Who is online from the first page to the last is in one page, once. False,
  /// and no callback: no cursor of this run of the daemon.
  [[nodiscard]] virtual bool async_list(std::string_view cursor, std::size_t limit,
                                        Callback<UserPage> done) = 0;

  virtual void async_explain(std::string uid, Callback<Explanation> done) = 0;

  virtual void async_wheel(Callback<WheelReport> done) = 0;
};

}  // namespace pulsewheel

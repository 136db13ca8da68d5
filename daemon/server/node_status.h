// NodeStatus: the node as the HTTP port sees it. Reads counters, and asks shards by post.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/admin/http_server.h"
#include "daemon/admin/status_source.h"
#include "daemon/base/time.h"
#include "daemon/events/event_log.h"
#include "daemon/events/sequencer.h"
#include "daemon/redis/mirror.h"
#include "daemon/server/event_feed.h"
#include "daemon/server/node_control.h"
#include "daemon/server/node_users.h"
#include "daemon/server/options.h"
#include "daemon/server/reload.h"
#include "daemon/server/shard.h"
#include "daemon/server/snapshotter.h"

namespace pulsewheel {

/// Numbers over all shards.
struct NodeTotals {
  std::uint64_t connections = 0, accepted = 0, logins = 0, keepalives = 0, messages = 0;
  std::uint64_t users_online = 0, users_lingering = 0, users_offline = 0;
  std::uint64_t edges_online = 0, edges_offline = 0;
};

/// Made before the shards' threads run, wired up by attach() before the HTTP thread does. Its
/// functions are for the HTTP thread, except where said. Outlives the HTTP thread; what it posted
/// to a shard holds only what lives as long as the shards.
class NodeStatus final : public StatusSource {
 public:
  enum class Phase : std::uint8_t { kStarting, kServing, kDraining };

  NodeStatus(std::vector<Shard*> shards, const Sequencer& sequencer, const NodeFacts& facts,
             Duration tick);

  /// Where callbacks run, and the counters of what else there is; `event_log` and `mirror` may be
  /// null.
  void attach(HttpServer& http, NodeControl& control, const EventLog* event_log,
              const RedisMirror* mirror, const ReloadCounters& reloads);
  /// Before the other.
  void attach(const EventFeed& event_feed) { event_feed_ = &event_feed; }
  /// The counters of what writes snapshots; none without a call.
  void attach(const SnapshotCounters& snapshots) noexcept { snapshots_ = &snapshots; }
  void set_phase(Phase phase) noexcept { phase_.store(phase); }  // any thread

  [[nodiscard]] NodeTotals totals() const noexcept;  // any thread
  [[nodiscard]] const std::vector<Shard*>& shards() const noexcept { return shards_; }

  [[nodiscard]] bool live() const override;
  [[nodiscard]] bool ready(std::string& why) const override;
  [[nodiscard]] nlohmann::json status() const override;
  [[nodiscard]] std::vector<prometheus::MetricFamily> collect() const override;
  void async_user(std::string uid, UserCallback done) override;
  void async_kick(std::string uid, KickCallback done) override;
  void async_hold(std::string uid, std::chrono::milliseconds length,
                  Callback<HoldReport> done) override;
  void async_release(std::string uid, Callback<ReleaseReport> done) override;
  void async_drain(Callback<DrainReport> done) override;
  void async_reload(Callback<ReloadReport> done) override;
  void async_query(std::vector<std::string> uids, Callback<std::vector<UserLine>> done) override;
  [[nodiscard]] bool async_list(std::string_view cursor, std::size_t limit,
                                Callback<UserPage> done) override;
  void async_explain(std::string uid, Callback<Explanation> done) override;
  void async_wheel(Callback<WheelReport> done) override;

  /// A shard that has not turned for so long after being asked to is dead.
  static constexpr Duration kLiveLimit = std::chrono::seconds{5};

 private:
  /// One shard's answer to "do you turn?". Written by the shard, read and sent by HTTP.
  struct Pulse {
    std::atomic<bool> asked{false};
    MonoTime asked_at{};
  };

  const std::vector<Shard*> shards_;
  const Sequencer& sequencer_;
  const std::uint64_t epoch_;
  const MonoTime grace_end_;
  const Duration tick_;
  const DescriptorPlan plan_;
  NodeUsers users_;
  const MonoTime started_ = MonoClock::now();
  HttpServer* http_ = nullptr;
  NodeControl* control_ = nullptr;
  const EventLog* event_log_ = nullptr;
  const EventFeed* event_feed_ = nullptr;
  const RedisMirror* mirror_ = nullptr;
  const ReloadCounters* reloads_ = nullptr;
  const SnapshotCounters* snapshots_ = nullptr;
  std::atomic<Phase> phase_{Phase::kStarting};
  mutable std::vector<Pulse> pulses_;
};

}  // namespace pulsewheel

#include "daemon/server/node_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/build_info.h"
#include "daemon/server/http_reply.h"

namespace pulsewheel {
namespace {

std::uint64_t as_count(const Gauge& gauge) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(gauge.value(), 0));
}

WheelReport::OfShard wheel_report(const Shard::WheelView& view, ShardIndex shard) {
  WheelReport::OfShard out{.shard = shard,
                           .tick = view.now.count,
                           .clock_tick = view.clock.count,
                           .armed = view.armed,
                           .levels = {}};
  for (std::size_t level = 0; level < TimeWheel::kLevels; ++level) {
    const auto& counts = view.counts[level];
    out.levels.push_back({.ticks_per_slot = TimeWheel::ticks_per_slot(level),
                          .hand = view.hands[level],
                          .counts = {counts.begin(), counts.end()}});
  }
  return out;
}

nlohmann::json redis_status(const RedisMirror* mirror) {
  if (mirror == nullptr) return {{"mode", "off"}};
  const MirrorCounters& counters = mirror->counters();
  return {{"mode", mirror->hand_counters() != nullptr ? "shared" : "mirror"},
          {"connection", to_string(mirror->client_state())},
          {"writing", counters.joined.value() == 1},
          {"queued", counters.queued.value()},
          {"repairs", counters.repairs.value()},
          {"differences", counters.differences.value()},
          {"lost_edges", counters.lost_edges.value() + mirror->dropped_edges()}};
}

nlohmann::json snapshot_status(const SnapshotCounters* counters) {
  if (counters == nullptr) return {{"enabled", false}};
  const std::int64_t written_at = counters->written_at_ns.value();
  nlohmann::json age;  // null: none yet
  if (written_at != 0) {
    age = std::chrono::duration<double>(MonoClock::now() - MonoTime{Duration{written_at}}).count();
  }
  return {{"enabled", true},
          {"age_s", age},
          {"users", counters->users.value()},
          {"bytes", counters->bytes.value()},
          {"failures", counters->failures.value()},
          {"restored",
           {{"online", counters->restored_online.value()},
            {"offline", counters->restored_offline.value()}}}};
}

}  // namespace

NodeStatus::NodeStatus(std::vector<Shard*> shards, const Sequencer& sequencer,
                       const NodeFacts& facts, Duration tick)
    : shards_(std::move(shards)),
      sequencer_(sequencer),
      epoch_(facts.epoch),
      grace_end_(facts.grace_end),
      tick_(tick),
      plan_(facts.plan),
      users_(shards_, facts.epoch),
      pulses_(shards_.size()) {}

void NodeStatus::attach(HttpServer& http, NodeControl& control, const EventLog* event_log,
                        const RedisMirror* mirror, const ReloadCounters& reloads) {
  http_ = &http;
  users_.attach(http, event_feed_->ring());
  control_ = &control;
  event_log_ = event_log;
  mirror_ = mirror;
  reloads_ = &reloads;
}

NodeTotals NodeStatus::totals() const noexcept {
  NodeTotals totals;
  for (const Shard* shard : shards_) {
    const ShardCounters& counters = shard->counters();
    totals.connections += as_count(counters.sessions.sessions);
    totals.accepted += counters.sessions.accepted.value();
    totals.logins += counters.sessions.logins_accepted.value();
    totals.keepalives += counters.sessions.keepalives.value();
    totals.messages += counters.sessions.messages.value();
    totals.users_online += as_count(counters.users_online);
    totals.users_lingering += as_count(counters.users_lingering);
    totals.users_offline += as_count(counters.users_offline);
    for (const Counter& edge : counters.edges[0])
      totals.edges_online += edge.value();
    for (const Counter& edge : counters.edges[1])
      totals.edges_offline += edge.value();
  }
  return totals;
}

bool NodeStatus::live() const {
  const MonoTime now = MonoClock::now();
  bool live = true;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    Pulse& pulse = pulses_[i];
    if (pulse.asked.load(std::memory_order_acquire)) {
      live = live && now - pulse.asked_at < kLiveLimit;
      continue;
    }
    pulse.asked_at = now;
    pulse.asked.store(true, std::memory_order_release);
    shards_[i]->post([&pulse] { pulse.asked.store(false, std::memory_order_release); });
  }
  return live;
}

bool NodeStatus::ready(std::string& why) const {
  switch (phase_.load()) {
    case Phase::kStarting:
      why = "starting: the listeners are not open yet";
      return false;
    case Phase::kDraining:
      why = "draining: the server is about to stop";
      return false;
    case Phase::kServing:
      break;
  }
  return true;
}

nlohmann::json NodeStatus::status() const {
  const NodeTotals totals = this->totals();
  const Sequencer::Stats edges = sequencer_.stats();
  DurationHistogram::Snapshot lateness;
  DurationHistogram::Snapshot loop_delay;
  std::uint64_t stalls = 0;
  for (const Shard* shard : shards_) {
    lateness.merge(shard->counters().lateness.snapshot());
    loop_delay.merge(shard->counters().loop_delay.snapshot());
    stalls += shard->counters().stalls.value();
  }
  const MonoTime now = MonoClock::now();
  const char* phase = "serving";
  std::string why;
  if (!ready(why)) phase = phase_.load() == Phase::kStarting ? "starting" : "draining";
  return {{"phase", phase},
          {"version", build_info().version},
          {"epoch", epoch_},
          {"uptime_s", to_seconds(now - started_)},
          {"restart_grace_s", to_seconds(now < grace_end_ ? grace_end_ - now : Duration{0})},
          {"shards", shards_.size()},
          {"tick_s", to_seconds(tick_)},
          {"connections", totals.connections},
          {"users",
           {{"online", totals.users_online},
            {"lingering", totals.users_lingering},
            {"offline_remembered", totals.users_offline}}},
          {"packets",
           {{"logins", totals.logins},
            {"keepalives", totals.keepalives},
            {"messages", totals.messages}}},
          {"edges",
           {{"last_seq", edges.last_seq},
            {"online", totals.edges_online},
            {"offline", totals.edges_offline},
            {"dropped", edges.dropped}}},
          {"lateness_s", {{"min", to_seconds(lateness.min)}, {"max", to_seconds(lateness.max)}}},
          {"loop_delay_s", {{"max", to_seconds(loop_delay.max)}}},
          {"stalls", stalls},
          {"redis", redis_status(mirror_)},
          {"snapshot", snapshot_status(snapshots_)}};
}

void NodeStatus::async_user(std::string uid, UserCallback done) {
  users_.user(std::move(uid), std::move(done));
}

void NodeStatus::async_kick(std::string uid, KickCallback done) {
  users_.kick(std::move(uid), std::move(done));
}

void NodeStatus::async_hold(std::string uid, std::chrono::milliseconds length,
                            Callback<HoldReport> done) {
  users_.hold(std::move(uid), length, std::move(done));
}

void NodeStatus::async_release(std::string uid, Callback<ReleaseReport> done) {
  users_.release(std::move(uid), std::move(done));
}

void NodeStatus::async_drain(Callback<DrainReport> done) {
  using Reply = HttpReply<DrainReport>;
  const auto reply = Reply::start(*http_, NodeUsers::kAnswerLimit, std::move(done));
  control_->request_drain([reply](DrainReport report) {
    Reply::post(reply, [report] { return std::optional(report); });
  });
}

void NodeStatus::async_reload(Callback<ReloadReport> done) {
  using Reply = HttpReply<ReloadReport>;
  const auto reply = Reply::start(*http_, NodeUsers::kAnswerLimit, std::move(done));
  control_->request_reload([reply](std::optional<ReloadReport> report) {
    Reply::post(reply, [report = std::move(report)] { return report; });
  });
}

void NodeStatus::async_query(std::vector<std::string> uids, Callback<std::vector<UserLine>> done) {
  users_.query(std::move(uids), std::move(done));
}

bool NodeStatus::async_list(std::string_view cursor, std::size_t limit, Callback<UserPage> done) {
  return users_.list(cursor, limit, std::move(done));
}

void NodeStatus::async_explain(std::string uid, Callback<Explanation> done) {
  users_.explain(std::move(uid), std::move(done));
}

void NodeStatus::async_wheel(Callback<WheelReport> done) {
  struct Look {
    WheelReport report;
    std::atomic<std::size_t> shards_missing;
  };
  using Reply = HttpReply<WheelReport>;
  const auto reply = Reply::start(*http_, NodeUsers::kAnswerLimit, std::move(done));
  const auto look = std::make_shared<Look>();
  look->report.tick_s = std::chrono::duration<double>(tick_).count();
  look->report.shards.resize(shards_.size());
  look->shards_missing.store(shards_.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    shards_[i]->post([&shard = *shards_[i], i, look, reply] {
      look->report.shards[i] = wheel_report(shard.view_wheel(), static_cast<ShardIndex>(i));
      if (look->shards_missing.fetch_sub(1) > 1) return;
      Reply::post(reply, [look] { return std::move(look->report); });
    });
  }
}

}  // namespace pulsewheel

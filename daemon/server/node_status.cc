#include "daemon/server/node_status.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/build_info.h"
#include "daemon/base/log.h"

namespace pulsewheel {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

std::uint64_t as_count(const Gauge& gauge) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(gauge.value(), 0));
}

std::int64_t unix_ms(const WallClockMapping& clock, MonoTime time) {
  return duration_cast<milliseconds>(clock.to_wall(time).time_since_epoch()).count();
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
      pulses_(shards_.size()) {}

void NodeStatus::attach(HttpServer& http, const EventLog* event_log, const RedisMirror* mirror,
                        const ReloadCounters& reloads) {
  http_ = &http;
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

std::size_t NodeStatus::home_of(std::string_view uid) const noexcept {
  return home_shard_of(uid, shards_.front()->options().registry.hash_seed, shards_.size());
}

/// The callback of one request, with its time limit. HTTP thread, but for post().
template <class Report>
struct NodeStatus::Reply {
  using Callback = std::function<void(std::optional<Report>)>;

  Reply(HttpServer& server, Callback callback)
      : http(server), done(std::move(callback)), limit(server.executor(), kAnswerLimit) {}

  static std::shared_ptr<Reply> start(HttpServer& http, Callback callback) {
    auto reply = std::make_shared<Reply>(http, std::move(callback));
    reply->limit.async_wait([reply](const boost::system::error_code& error) {
      if (!error && reply->done) std::exchange(reply->done, nullptr)(std::nullopt);
    });
    return reply;
  }
  /// Makes the report on the HTTP thread and hands it over, unless the time is up. Any thread.
  template <class MakeReport>
  static void post(const std::shared_ptr<Reply>& reply, MakeReport make_report) {
    boost::asio::post(reply->http.executor(), [reply, make_report = std::move(make_report)] {
      reply->limit.cancel();
      if (reply->done) std::exchange(reply->done, nullptr)(make_report());
    });
  }

  HttpServer& http;
  Callback done;  // empty once called
  boost::asio::steady_timer limit;
};

/// One user as the home shard and the sessions' shards know it.
struct NodeStatus::UserLook {
  std::string uid;
  UserView view;
  std::vector<std::vector<Shard::LiveSession>> live;  // by shard
  std::atomic<std::size_t> shards_missing{0};
  std::function<void(std::shared_ptr<UserLook>)> then;
};

/// Calls `then` when everything is known, on the thread of one of the shards.
void NodeStatus::look_at_user(std::string uid,
                              std::function<void(std::shared_ptr<UserLook>)> then) {
  auto look = std::make_shared<UserLook>();
  look->uid = std::move(uid);
  look->then = std::move(then);
  Shard& home = *shards_[home_of(look->uid)];
  home.post([this, &home, look] {
    look->view = home.find_user(look->uid);
    ask_sessions(look);
  });
}

/// On the home shard: one post per shard that holds live sessions of the user.
void NodeStatus::ask_sessions(const std::shared_ptr<UserLook>& look) {
  look->live.resize(shards_.size());
  std::size_t shards = 0;
  for (const UserSession& session : look->view.sessions) {
    if (session.lingering) continue;
    auto& of_shard = look->live[session.session.shard];
    if (of_shard.empty()) ++shards;
    of_shard.push_back(
        {.session = session.session, .last_packet = {}, .timeout = {}, .deadline = {}});
  }
  if (shards == 0) return look->then(look);
  look->shards_missing.store(shards);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (look->live[i].empty()) continue;
    shards_[i]->post([this, i, look] {
      shards_[i]->read_sessions(look->live[i]);
      if (look->shards_missing.fetch_sub(1) == 1) look->then(look);
    });
  }
}

namespace {

UserReport make_report(const UserView& view,
                       const std::vector<std::vector<Shard::LiveSession>>& live) {
  const WallClockMapping clock;
  UserReport report;
  report.state = to_string(view.state);
  if (view.since) report.since_ms = unix_ms(clock, *view.since);
  std::optional<MonoTime> last_seen = view.last_seen;
  for (const UserSession& session : view.sessions) {
    SessionReport out{.id = session.id,
                      .shard = session.session.shard,
                      .device = session.device,
                      .lingering = session.lingering,
                      .login_at_ms = unix_ms(clock, session.login_at),
                      .last_seen_ms = 0,
                      .deadline_ms = 0,
                      .timeout_ms = 0};
    MonoTime last_packet = session.last_packet;
    MonoTime deadline = session.deadline;
    Duration timeout = session.lingering ? deadline - last_packet : Duration{0};
    for (const Shard::LiveSession& found : live[session.session.shard]) {
      if (found.session != session.session || !found.found) continue;
      last_packet = found.last_packet;
      deadline = found.deadline;
      timeout = found.timeout;
    }
    out.last_seen_ms = unix_ms(clock, last_packet);
    if (deadline != MonoTime{}) out.deadline_ms = unix_ms(clock, deadline);
    out.timeout_ms = static_cast<std::uint32_t>(duration_cast<milliseconds>(timeout).count());
    last_seen = last_seen ? std::max(*last_seen, last_packet) : last_packet;
    report.sessions.push_back(std::move(out));
  }
  if (last_seen) report.last_seen_ms = unix_ms(clock, *last_seen);
  return report;
}

}  // namespace

void NodeStatus::async_user(std::string uid, UserCallback done) {
  const auto reply = Reply<UserReport>::start(*http_, std::move(done));
  look_at_user(std::move(uid), [reply](const std::shared_ptr<UserLook>& look) {
    Reply<UserReport>::post(reply, [look] { return make_report(look->view, look->live); });
  });
}

/// The home shard knows logins and ends, not the packets in between: asks the sessions first, so
/// that the edge's last_seen is true.
void NodeStatus::async_kick(std::string uid, KickCallback done) {
  const auto reply = Reply<KickReport>::start(*http_, std::move(done));
  look_at_user(std::move(uid), [this, reply](const std::shared_ptr<UserLook>& look) {
    Shard& home = *shards_[home_of(look->uid)];
    home.post([&home, reply, look] {
      MonoTime last_packet = MonoTime::min();
      for (const auto& of_shard : look->live) {
        for (const Shard::LiveSession& session : of_shard) {
          if (session.found) last_packet = std::max(last_packet, session.last_packet);
        }
      }
      const auto kicked = home.kick_user(look->uid, last_packet);
      if (kicked) log::info("kick", {{"uid", log::Uid{look->uid}}}, "kicked: {} sessions", *kicked);
      const KickReport report{.was_online = kicked.has_value(),
                              .kicked_sessions = kicked.value_or(0)};
      Reply<KickReport>::post(reply, [report] { return report; });
    });
  });
}

}  // namespace pulsewheel

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

}  // namespace

NodeStatus::NodeStatus(std::vector<Shard*> shards, const Sequencer& sequencer, std::uint64_t epoch,
                       Duration tick)
    : shards_(std::move(shards)),
      sequencer_(sequencer),
      epoch_(epoch),
      tick_(tick),
      pulses_(shards_.size()) {}

void NodeStatus::attach(HttpServer& http, const EventLog* event_log,
                        const ReloadCounters& reloads) {
  http_ = &http;
  event_log_ = event_log;
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
  const auto seconds = [](Duration d) { return std::chrono::duration<double>(d).count(); };
  const char* phase = "serving";
  std::string why;
  if (!ready(why)) phase = phase_.load() == Phase::kStarting ? "starting" : "draining";
  return {{"phase", phase},
          {"version", build_info().version},
          {"epoch", epoch_},
          {"uptime_s", seconds(MonoClock::now() - started_)},
          {"shards", shards_.size()},
          {"tick_s", seconds(tick_)},
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
           {{"last_seq", edges.edges + edges.dropped},
            {"online", totals.edges_online},
            {"offline", totals.edges_offline},
            {"dropped", edges.dropped}}},
          {"lateness_s", {{"min", seconds(lateness.min)}, {"max", seconds(lateness.max)}}},
          {"loop_delay_s", {{"max", seconds(loop_delay.max)}}},
          {"stalls", stalls}};
}

std::size_t NodeStatus::home_of(std::string_view uid) const noexcept {
  return home_shard_of(uid, shards_.front()->options().registry.hash_seed, shards_.size());
}

/// One look-up on its way: HTTP thread, home shard, the sessions' shards, HTTP thread.
struct NodeStatus::UserQuestion {
  UserQuestion(HttpServer& http, UserCallback callback)
      : done(std::move(callback)), limit(http.executor()) {}

  std::string uid;
  UserCallback done;                // empty once called; HTTP thread
  boost::asio::steady_timer limit;  // HTTP thread
  UserView view;
  std::vector<std::vector<Shard::LiveSession>> live;  // by shard
  std::atomic<std::size_t> shards_missing{0};
};

void NodeStatus::async_user(std::string uid, UserCallback done) {
  auto question = std::make_shared<UserQuestion>(*http_, std::move(done));
  question->uid = std::move(uid);
  question->limit.expires_after(kAnswerLimit);
  question->limit.async_wait([question](const boost::system::error_code& error) {
    if (!error && question->done) std::exchange(question->done, nullptr)(std::nullopt);
  });
  const std::size_t home = home_of(question->uid);
  shards_[home]->post([this, home, question] {
    question->view = shards_[home]->find_user(question->uid);
    ask_sessions(question);
  });
}

/// On the home shard: one post per shard that holds live sessions of the user.
void NodeStatus::ask_sessions(std::shared_ptr<UserQuestion> question) {
  question->live.resize(shards_.size());
  std::size_t shards = 0;
  for (const UserSession& session : question->view.sessions) {
    if (session.lingering) continue;
    auto& of_shard = question->live[session.session.shard];
    if (of_shard.empty()) ++shards;
    of_shard.push_back({.session = session.session, .last_packet = {}, .timeout = {}});
  }
  if (shards == 0) return answer(question);
  question->shards_missing.store(shards);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (question->live[i].empty()) continue;
    shards_[i]->post([this, i, question] {
      shards_[i]->read_sessions(question->live[i]);
      if (question->shards_missing.fetch_sub(1) == 1) answer(question);
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
    for (const Shard::LiveSession& found : live[session.session.shard]) {
      if (found.session != session.session || !found.found) continue;
      last_packet = found.last_packet;
      deadline = found.last_packet + found.timeout;
    }
    out.last_seen_ms = unix_ms(clock, last_packet);
    if (deadline != MonoTime{}) {
      out.deadline_ms = unix_ms(clock, deadline);
      out.timeout_ms =
          static_cast<std::uint32_t>(duration_cast<milliseconds>(deadline - last_packet).count());
    }
    last_seen = last_seen ? std::max(*last_seen, last_packet) : last_packet;
    report.sessions.push_back(std::move(out));
  }
  if (last_seen) report.last_seen_ms = unix_ms(clock, *last_seen);
  return report;
}

}  // namespace

void NodeStatus::async_kick(std::string uid, KickCallback done) {
  /// HTTP thread, home shard, HTTP thread.
  struct Order {
    KickCallback done;                // empty once called; HTTP thread
    boost::asio::steady_timer limit;  // HTTP thread
  };
  const auto order = std::make_shared<Order>(
      Order{std::move(done), boost::asio::steady_timer(http_->executor(), kAnswerLimit)});
  order->limit.async_wait([order](const boost::system::error_code& error) {
    if (!error && order->done) std::exchange(order->done, nullptr)(std::nullopt);
  });
  Shard& home = *shards_[home_of(uid)];
  home.post([this, &home, uid = std::move(uid), order] {
    const std::optional<std::size_t> kicked = home.kick_user(uid);
    const KickReport report{.was_online = kicked.has_value(),
                            .kicked_sessions = kicked.value_or(0)};
    if (report.was_online) {
      log::info("kick", {{"uid", log::Uid{uid}}}, "kicked: {} sessions", report.kicked_sessions);
    }
    boost::asio::post(http_->executor(), [order, report] {
      order->limit.cancel();
      if (order->done) std::exchange(order->done, nullptr)(report);
    });
  });
}

void NodeStatus::answer(const std::shared_ptr<UserQuestion>& question) {
  boost::asio::post(http_->executor(), [question] {
    question->limit.cancel();
    if (!question->done) return;
    std::exchange(question->done, nullptr)(make_report(question->view, question->live));
  });
}

}  // namespace pulsewheel

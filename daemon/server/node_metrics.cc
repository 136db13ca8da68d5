// The part of NodeStatus that makes /metrics.
#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/admin/metrics.h"
#include "daemon/admin/process_metrics.h"
#include "daemon/base/log.h"
#include "daemon/base/memory_reserve.h"
#include "daemon/server/node_status.h"

namespace pulsewheel {
namespace {

using Families = std::vector<prometheus::MetricFamily>;
using Shards = std::vector<Shard*>;

/// The sum over all shards of what `value` reads from one.
template <class Read>
double sum(const Shards& shards, Read read) {
  double total = 0;
  for (const Shard* shard : shards)
    total += static_cast<double>(read(shard->counters()));
  return total;
}

DurationHistogram::Snapshot merged(const Shards& shards,
                                   DurationHistogram ShardCounters::*histogram) {
  DurationHistogram::Snapshot all;
  for (const Shard* shard : shards)
    all.merge((shard->counters().*histogram).snapshot());
  return all;
}

MetricLabels label(std::string name, std::string_view value) {
  return {{std::move(name), std::string(value)}};
}

void append_connections(const Shards& shards, Families& out) {
  auto connections = gauge_family("pulsewheel_connections", "Open client connections by shard.");
  for (const Shard* shard : shards) {
    add_series(connections, static_cast<double>(shard->counters().sessions.sessions.value()),
               label("shard", std::to_string(shard->options().index)));
  }
  out.push_back(std::move(connections));
  const auto total = [&](Counter SessionCounters::*counter) {
    return static_cast<std::uint64_t>(
        sum(shards, [=](const ShardCounters& c) { return (c.sessions.*counter).value(); }));
  };
  out.push_back(counter_family("pulsewheel_connections_accepted_total", "Connections accepted.",
                               total(&SessionCounters::accepted)));
  out.push_back(counter_family("pulsewheel_received_bytes_total", "Bytes read from clients.",
                               total(&SessionCounters::bytes_received)));
  out.push_back(counter_family("pulsewheel_sent_bytes_total", "Bytes written to clients.",
                               total(&SessionCounters::bytes_sent)));
  out.push_back(
      counter_family("pulsewheel_reprieves_total",
                     "Deadlines put off by a tick because unread bytes lay in the socket.",
                     total(&SessionCounters::reprieves)));

  auto packets = counter_family("pulsewheel_packets_total", "Valid packets from clients by type.");
  add_series(packets, static_cast<double>(total(&SessionCounters::logins_accepted)),
             label("type", "login"));
  add_series(packets, static_cast<double>(total(&SessionCounters::keepalives)),
             label("type", "keepalive"));
  add_series(packets, static_cast<double>(total(&SessionCounters::messages)),
             label("type", "message"));
  add_series(packets, static_cast<double>(total(&SessionCounters::logouts)),
             label("type", "logout"));
  out.push_back(std::move(packets));

  auto logins = counter_family("pulsewheel_logins_total", "Logins by result.");
  add_series(logins, static_cast<double>(total(&SessionCounters::logins_accepted)),
             label("result", "accepted"));
  add_series(logins, static_cast<double>(total(&SessionCounters::logins_refused)),
             label("result", "refused"));
  out.push_back(std::move(logins));

  out.push_back(gauge_family(
      "pulsewheel_partial_frame_bytes", "Heap taken by long frames that are not complete yet.",
      sum(shards, [](const ShardCounters& c) { return c.sessions.spill_bytes.value(); })));
  out.push_back(gauge_family(
      "pulsewheel_backlog_bytes", "Bytes waiting for clients that do not read.",
      sum(shards, [](const ShardCounters& c) { return c.sessions.backlog_bytes.value(); })));
}

void append_ends(const Shards& shards, Families& out) {
  auto closes = counter_family("pulsewheel_sessions_closed_total", "Sessions ended by reason.");
  for (std::size_t i = 0; i < kCloseReasonCount; ++i) {
    add_series(closes,
               sum(shards, [i](const ShardCounters& c) { return c.sessions.closes[i].value(); }),
               label("reason", to_string(static_cast<CloseReason>(i))));
  }
  out.push_back(std::move(closes));

  auto refused = counter_family("pulsewheel_refusals_total", "ERROR frames sent by code.");
  for (const proto::ErrorCode code : proto::kErrorCodes) {
    const std::size_t i = refusal_index(code);
    add_series(refused,
               sum(shards, [i](const ShardCounters& c) { return c.sessions.refusals[i].value(); }),
               label("code", proto::to_string(code)));
  }
  out.push_back(std::move(refused));

  out.push_back(counter_family(
      "pulsewheel_refused_busy_total", "Connections refused because their shard was full.",
      static_cast<std::uint64_t>(
          sum(shards, [](const ShardCounters& c) { return c.refused_busy.value(); }))));

  out.push_back(counter_family(
      "pulsewheel_turned_away_total",
      "Connections told to come back later for want of descriptors or memory.",
      static_cast<std::uint64_t>(
          sum(shards, [](const ShardCounters& c) { return c.accepts.turned_away.value(); }))));

  auto accept_errors = counter_family("pulsewheel_accept_errors_total", "Failed accepts by errno.");
  const auto& table = shards.front()->counters().accepts.errors;
  for (std::size_t i = 0; i < table.size(); ++i) {
    add_series(
        accept_errors,
        sum(shards, [i](const ShardCounters& c) { return c.accepts.errors[i].count.value(); }),
        label("errno", table[i].name));
  }
  out.push_back(std::move(accept_errors));
}

void append_users(const Shards& shards, Families& out) {
  auto users = gauge_family("pulsewheel_users",
                            "Users by state; lingering ones are online without a connection.");
  add_series(users, sum(shards, [](const ShardCounters& c) { return c.users_online.value(); }),
             label("state", "online"));
  add_series(users, sum(shards, [](const ShardCounters& c) { return c.users_lingering.value(); }),
             label("state", "lingering"));
  add_series(users, sum(shards, [](const ShardCounters& c) { return c.users_offline.value(); }),
             label("state", "offline_remembered"));
  out.push_back(std::move(users));

  out.push_back(
      gauge_family("pulsewheel_users_held", "Users whose expiry an operator has paused.",
                   sum(shards, [](const ShardCounters& c) { return c.users_held.value(); })));

  auto edges = counter_family("pulsewheel_edges_total", "Changes of a user's state.");
  for (const EdgeKind kind : {EdgeKind::kOnline, EdgeKind::kOffline}) {
    for (std::size_t reason = 0; reason < kEdgeReasonCount; ++reason) {
      const bool is_login = static_cast<EdgeReason>(reason) == EdgeReason::kLogin;
      if (is_login != (kind == EdgeKind::kOnline)) continue;
      const std::size_t k = kind == EdgeKind::kOnline ? 0 : 1;
      add_series(edges,
                 sum(shards, [=](const ShardCounters& c) { return c.edges[k][reason].value(); }),
                 {{"kind", std::string(to_string(kind))},
                  {"reason", std::string(to_string(static_cast<EdgeReason>(reason)))}});
    }
  }
  out.push_back(std::move(edges));
}

void append_loop(const Shards& shards, Families& out) {
  const auto lateness = merged(shards, &ShardCounters::lateness);
  const auto loop_delay = merged(shards, &ShardCounters::loop_delay);
  out.push_back(histogram_family("pulsewheel_expiry_lateness_seconds",
                                 "Time from a user's deadline to the offline decision.", lateness));
  out.push_back(gauge_family("pulsewheel_expiry_lateness_min_seconds",
                             "Smallest lateness since the start; below 0 would be early.",
                             to_seconds(lateness.min)));
  out.push_back(gauge_family("pulsewheel_expiry_lateness_max_seconds",
                             "Largest lateness since the start.", to_seconds(lateness.max)));
  out.push_back(histogram_family("pulsewheel_loop_delay_seconds",
                                 "Length of a loop round: how long an event may have waited.",
                                 loop_delay));
  out.push_back(gauge_family("pulsewheel_loop_delay_max_seconds",
                             "Longest loop round since the start.", to_seconds(loop_delay.max)));
  const auto wakeup_delay = merged(shards, &ShardCounters::wakeup_delay);
  out.push_back(histogram_family("pulsewheel_wakeup_delay_seconds",
                                 "How late a loop round began for which a deadline had asked.",
                                 wakeup_delay));
  out.push_back(gauge_family("pulsewheel_wakeup_delay_max_seconds",
                             "Largest wake-up delay since the start.",
                             to_seconds(wakeup_delay.max)));
  out.push_back(histogram_family("pulsewheel_expiry_round_seconds",
                                 "Time that a loop round spent on expired timers.",
                                 merged(shards, &ShardCounters::expiry)));
  const auto count = [&](Counter ShardCounters::*counter) {
    return static_cast<std::uint64_t>(
        sum(shards, [=](const ShardCounters& c) { return (c.*counter).value(); }));
  };
  out.push_back(counter_family("pulsewheel_loop_rounds_total", "Loop rounds of all shards.",
                               count(&ShardCounters::rounds)));
  out.push_back(counter_family("pulsewheel_stalls_total",
                               "Rounds that began so late that input was drained before expiry.",
                               count(&ShardCounters::stalls)));
  out.push_back(counter_family("pulsewheel_fences_total",
                               "Drains of the whole node before users expired.",
                               count(&ShardCounters::fences)));
}

void append_timers(const Shards& shards, Families& out) {
  out.push_back(
      gauge_family("pulsewheel_timers_armed",
                   "Deadlines that wait on the wheels: of connections, of lingering users, and of "
                   "timers with callbacks.",
                   sum(shards, [](const ShardCounters& c) { return c.timers_armed.value(); })));
  double armed = 0;
  double fired = 0;
  double failed = 0;
  for (const Shard* shard : shards) {
    armed += static_cast<double>(shard->timer_counts().armed.value());
    fired += static_cast<double>(shard->timer_counts().fired.value());
    failed += static_cast<double>(shard->timer_counts().failed.value());
  }
  out.push_back(
      gauge_family("pulsewheel_service_timers_armed", "Armed timers with callbacks.", armed));
  out.push_back(counter_family("pulsewheel_service_timers_fired_total", "Timer callbacks run.",
                               static_cast<std::uint64_t>(fired)));
  out.push_back(counter_family("pulsewheel_service_timers_failed_total",
                               "Timer callbacks that threw.", static_cast<std::uint64_t>(failed)));
}

void append_events(const Sequencer& sequencer, const EventLog* event_log, Families& out) {
  const Sequencer::Stats edges = sequencer.stats();
  out.push_back(gauge_family("pulsewheel_sequencer_queued_edges",
                             "Edges on their way from the shards to the sequencer.",
                             static_cast<double>(edges.queued)));
  out.push_back(counter_family("pulsewheel_sequencer_dropped_edges_total",
                               "Edges that no sink got: too many were on their way.",
                               edges.dropped));
  if (event_log == nullptr) return;
  const EventLog::Stats log = event_log->stats();
  out.push_back(counter_family("pulsewheel_event_log_written_total",
                               "Edges written to the event log.", log.written));
  out.push_back(counter_family("pulsewheel_event_log_dropped_total",
                               "Edges missing in the event log.", log.dropped));
  out.push_back(counter_family("pulsewheel_event_log_errors_total",
                               "Failed writes of the event log.", log.errors));
  out.push_back(gauge_family("pulsewheel_event_log_queued",
                             "Edges that wait to be written to the event log.",
                             static_cast<double>(log.queued)));
}

void append_redis_client(const RedisCounters& client, Families& out) {
  out.push_back(gauge_family("pulsewheel_redis_up", "1 while Redis is connected and answers.",
                             static_cast<double>(client.up.value())));
  out.push_back(counter_family("pulsewheel_redis_connections_total",
                               "Connections to Redis that stood.", client.connections.value()));
  out.push_back(counter_family("pulsewheel_redis_commands_total", "Commands sent to Redis.",
                               client.commands.value()));
  out.push_back(counter_family("pulsewheel_redis_scripts_resent_total",
                               "Scripts whose source Redis had to be sent.",
                               client.scripts_resent.value()));
  out.push_back(gauge_family("pulsewheel_redis_commands_in_flight",
                             "Commands that Redis has not answered yet.",
                             static_cast<double>(client.commands_in_flight.value())));
  out.push_back(counter_family("pulsewheel_redis_written_bytes_total", "Bytes written to Redis.",
                               client.bytes_written.value()));
  out.push_back(counter_family("pulsewheel_redis_read_bytes_total", "Bytes read from Redis.",
                               client.bytes_read.value()));
  out.push_back(histogram_family("pulsewheel_redis_round_trip_seconds",
                                 "Time from a command's submission to its reply.",
                                 client.round_trip.snapshot()));
  auto errors = counter_family("pulsewheel_redis_errors_total",
                               "Commands refused, and connections to Redis failed or lost.");
  for (const RedisErrcFacts& facts : redis_errcs()) {
    if (facts.error == RedisErrc::kNone) continue;
    add_series(errors, static_cast<double>(client.of(facts.error).value()),
               label("kind", facts.metric));
  }
  out.push_back(std::move(errors));
  auto rejected = counter_family("pulsewheel_redis_error_replies_total",
                                 "Commands that Redis answered with an error.");
  for (const ReplyErrorFacts& facts : reply_errors())
    add_series(rejected, static_cast<double>(client.of(facts.error).value()),
               label("kind", facts.metric));
  out.push_back(std::move(rejected));
}

void append_redis_mirror(const RedisMirror& mirror, Families& out) {
  const MirrorCounters& counters = mirror.counters();
  out.push_back(gauge_family("pulsewheel_redis_joined",
                             "1 while the ring in Redis is usable and this node writes to it.",
                             static_cast<double>(counters.joined.value())));
  out.push_back(gauge_family("pulsewheel_redis_refused",
                             "1 while the ring in Redis must not be written to: see the log.",
                             static_cast<double>(counters.refused.value())));
  out.push_back(gauge_family("pulsewheel_redis_queued", "Changes that wait to be written to Redis.",
                             static_cast<double>(counters.queued.value())));
  out.push_back(gauge_family("pulsewheel_redis_queued_bytes", "About how much memory they take.",
                             static_cast<double>(counters.queued_bytes.value())));
  auto changes = counter_family("pulsewheel_redis_changes_total", "Changes written to Redis.");
  add_series(changes, static_cast<double>(counters.moved.value()), label("kind", "move"));
  add_series(changes, static_cast<double>(counters.added.value()), label("kind", "add"));
  add_series(changes, static_cast<double>(counters.removed.value()), label("kind", "remove"));
  out.push_back(std::move(changes));
  out.push_back(counter_family("pulsewheel_redis_batches_total",
                               "Calls of scripts that wrote these changes.",
                               counters.batches.value()));
  out.push_back(counter_family("pulsewheel_redis_lost_edges_total",
                               "Edges that the stream in Redis does not have.",
                               counters.lost_edges.value() + mirror.dropped_edges()));
  out.push_back(counter_family("pulsewheel_redis_dropped_batches_total",
                               "Batches of news that did not fit into the way to the mirror.",
                               mirror.dropped_batches()));
  out.push_back(gauge_family("pulsewheel_redis_differences",
                             "Differences from memory that the last comparison with Redis found.",
                             static_cast<double>(counters.differences.value())));
  out.push_back(counter_family("pulsewheel_redis_repaired_total",
                               "Differences that comparisons have found and repaired.",
                               counters.repaired.value()));
  out.push_back(counter_family("pulsewheel_redis_repairs_total",
                               "Comparisons with Redis that came to their end.",
                               counters.repairs.value()));
  out.push_back(counter_family("pulsewheel_redis_rejected_changes_total",
                               "Changes that Redis would not take, left to a repair.",
                               counters.rejected.value()));
  out.push_back(histogram_family("pulsewheel_redis_lag_seconds",
                                 "Time from a shard's hand-over of a change to Redis' reply.",
                                 counters.lag.snapshot()));
}

void append_redis_hand(const RingHandCounters& hand, Families& out) {
  out.push_back(counter_family("pulsewheel_redis_claims_total",
                               "Times that the ring's hand was asked to move, and answered.",
                               hand.claims.value()));
  out.push_back(counter_family("pulsewheel_redis_claim_failures_total",
                               "Times that it did not answer, or with an error.",
                               hand.failures.value()));
  out.push_back(counter_family("pulsewheel_redis_claimed_users_total",
                               "Users whom no node held and who went offline by this node's hand.",
                               hand.claimed_users.value()));
  out.push_back(counter_family("pulsewheel_redis_refiled_users_total",
                               "Users whom this node's hand found due and left in the ring.",
                               hand.refiled_users.value()));
  out.push_back(histogram_family("pulsewheel_redis_hand_lateness_seconds",
                                 "Time, by Redis' clock, from the begin of a slot's second until "
                                 "this node read the slot.",
                                 hand.lateness.snapshot()));
}

void append_reloads(const ReloadCounters& reloads, Families& out) {
  out.push_back(gauge_family("pulsewheel_config_last_reload_successful",
                             "1 unless the last reload of the configuration was refused.",
                             static_cast<double>(reloads.last_successful.value())));
  out.push_back(gauge_family("pulsewheel_config_last_reload_success_timestamp_seconds",
                             "Unix time at which the configuration that holds was loaded.",
                             static_cast<double>(reloads.last_success_unix_s.value())));
  auto results = counter_family("pulsewheel_config_reloads_total", "Reloads by result.");
  add_series(results, static_cast<double>(reloads.succeeded.value()), label("result", "success"));
  add_series(results, static_cast<double>(reloads.failed.value()), label("result", "failure"));
  out.push_back(std::move(results));
}

void append_snapshots(const SnapshotCounters& snapshots, Families& out) {
  const auto last_duration = Duration{snapshots.duration_ns.value()};
  out.push_back(counter_family("pulsewheel_snapshot_writes_total", "Snapshots written.",
                               snapshots.written.value()));
  out.push_back(counter_family("pulsewheel_snapshot_failures_total",
                               "Snapshots that could not be written; the one before stays.",
                               snapshots.failures.value()));
  if (const std::int64_t written_at = snapshots.written_at_ns.value(); written_at != 0) {
    out.push_back(gauge_family("pulsewheel_snapshot_age_seconds",
                               "Time since the last snapshot was on disk. Grows while nothing "
                               "changes and nobody is connected.",
                               to_seconds(MonoClock::now() - MonoTime{Duration{written_at}})));
  }
  out.push_back(gauge_family("pulsewheel_snapshot_duration_seconds",
                             "Time that the last snapshot took, from the first look at a user "
                             "until it was on disk.",
                             to_seconds(last_duration)));
  out.push_back(gauge_family("pulsewheel_snapshot_bytes", "Size of the last snapshot.",
                             static_cast<double>(snapshots.bytes.value())));
  out.push_back(gauge_family("pulsewheel_snapshot_users",
                             "Users in the last snapshot, online and offline.",
                             static_cast<double>(snapshots.users.value())));
  auto restored = gauge_family("pulsewheel_snapshot_restored_users",
                               "Users whom this start took from a snapshot.");
  add_series(restored, static_cast<double>(snapshots.restored_online.value()),
             label("state", "online"));
  add_series(restored, static_cast<double>(snapshots.restored_offline.value()),
             label("state", "offline"));
  out.push_back(std::move(restored));
}

void append_log(Families& out) {
  const log::Stats stats = log::stats();
  auto lines = counter_family("pulsewheel_log_lines_total",
                              "Lines of the daemon's own log: written, dropped because the "
                              "destination was too slow, or kept back by the rate limit.");
  add_series(lines, static_cast<double>(stats.written), label("result", "written"));
  add_series(lines, static_cast<double>(stats.overrun), label("result", "overrun"));
  add_series(lines, static_cast<double>(stats.suppressed), label("result", "suppressed"));
  out.push_back(std::move(lines));
  out.push_back(counter_family("pulsewheel_log_errors_total",
                               "Failed attempts to open or write the daemon's own log.",
                               stats.errors));
}

}  // namespace

std::vector<prometheus::MetricFamily> NodeStatus::collect() const {
  Families out;
  out.push_back(gauge_family("pulsewheel_serving",
                             "1 while clients may come: neither starting nor draining.",
                             phase_.load() == Phase::kServing ? 1 : 0));
  append_connections(shards_, out);
  out.push_back(gauge_family("pulsewheel_connections_limit",
                             "Client connections that this node lets in at most.",
                             static_cast<double>(plan_.max_connections)));
  append_ends(shards_, out);
  append_users(shards_, out);
  append_loop(shards_, out);
  out.push_back(gauge_family("pulsewheel_tick_seconds",
                             "Length of a tick: a decision is on time up to so much late.",
                             to_seconds(tick_)));
  append_timers(shards_, out);
  append_events(sequencer_, event_log_, out);
  if (mirror_ != nullptr) {
    append_redis_client(mirror_->client_counters(), out);
    append_redis_mirror(*mirror_, out);
    if (const auto* hand = mirror_->hand_counters()) append_redis_hand(*hand, out);
  }
  if (reloads_ != nullptr) append_reloads(*reloads_, out);
  if (snapshots_ != nullptr) append_snapshots(*snapshots_, out);
  append_log(out);
  if (http_ != nullptr) append_http_families(http_->counters(), out);
  if (event_feed_ != nullptr) {
    out.push_back(counter_family("pulsewheel_event_resyncs_total",
                                 "Times that a follower of events was told to resync.",
                                 event_feed_->resyncs().value()));
  }
  out.push_back(gauge_family("pulsewheel_node_epoch", "Grows with every start of this node.",
                             static_cast<double>(epoch_)));
  out.push_back(gauge_family("pulsewheel_memory_short",
                             "1 while nobody new is let in for want of memory.",
                             memory_reserve::spent() ? 1 : 0));
  out.push_back(build_info_family());
  // The first table, and one for each shard that has left it.
  append_process_families(plan_.per_shard ? plan_.shards + 1 : 1, out);
  return out;
}

}  // namespace pulsewheel

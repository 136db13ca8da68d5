#include "tests/client_sim/report.h"

#include <array>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

namespace pulsewheel::sim {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Lateness::Summary& summary) {
  return {{"min", summary.min},
          {"p50", summary.p50},
          {"p99", summary.p99},
          {"p999", summary.p999},
          {"max", summary.max}};
}

Json daemon_json(const Figures& figures) {
  Json out = Json::object();
  if (figures.daemon) {
    const DaemonFigures& daemon = *figures.daemon;
    out["rss_bytes"] = daemon.rss_bytes;
    out["base_rss_bytes"] = daemon.base_rss_bytes;
    out["rss_per_connection"] = daemon.rss_per_connection;
    out["cpu_seconds"] = daemon.cpu_seconds;
    out["cpu_percent"] = daemon.cpu_percent;
    out["cpu_us_per_keepalive"] = daemon.cpu_us_per_keepalive;
  }
  if (figures.metrics) {
    out["lateness_s"] = to_json(figures.metrics->lateness_s);
    out["loop_delay_s"] = to_json(figures.metrics->loop_delay_s);
    out["wakeup_delay_s"] = to_json(figures.metrics->wakeup_delay_s);
  }
  return out;
}

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}

std::string fixed(double number, int decimals) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(decimals) << number;
  return out.str();
}

constexpr std::array<const char*, kChurnActs> kActNames = {"reconnects", "resets", "takeovers",
                                                           "logouts", "silences"};

Json churn_json(const Figures& figures) {
  Json out = Json::object();
  for (std::size_t act = 0; act < kChurnActs; ++act)
    out[kActNames[act]] = figures.churned[act];
  return out;
}

Json cut_json(const CutFigures& cut) {
  return {{"connections", cut.connections},
          {"back", cut.back},
          {"late", cut.late},
          {"slowest_s", cut.slowest_seconds}};
}

Json restart_json(const RestartFigures& restart) {
  return {{"killed", restart.killed},
          {"away_s", restart.away_seconds},
          {"clients", restart.clients},
          {"back", restart.back},
          {"slowest_s", restart.slowest_seconds},
          {"online_edges", restart.online_edges},
          {"offline_edges", restart.offline_edges},
          {"repeated_edges", restart.repeated_edges},
          {"epochs_continued", restart.epochs_continued},
          {"epochs_restarted", restart.epochs_restarted}};
}

/// null, and no 0, where nothing could be compared.
Json differences_json(const RingFigures& ring) {
  return ring.at_end ? Json(ring.at_end->total()) : Json();
}

Json ring_json(const RingFigures& ring) {
  Json out = Json::object();
  if (ring.at_end) {
    out["online"] = ring.at_end->online;
    out["offline"] = ring.at_end->offline;
    out["unclear"] = ring.at_end->unclear;
    for (std::size_t fault = 0; fault < kRingFaults; ++fault)
      out[std::string(to_string(static_cast<RingFault>(fault)))] = ring.at_end->by_fault[fault];
  }
  out["settled_s"] = ring.settled_seconds;
  out["examples"] = ring.examples;
  out["checks"] = ring.checks;
  out["failed_checks"] = ring.failed_checks;
  out["differing_checks"] = ring.differing_checks;
  out["differences_max"] = ring.differences_max;
  out["slowest_s"] = ring.slowest_seconds;
  return out;
}

class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  void row(const std::string& name, const std::string& value, const std::string& remark = "") {
    out_ << "  " << std::left << std::setw(24) << name << std::right << std::setw(14) << value;
    if (!remark.empty()) out_ << "  " << remark;
    out_ << '\n';
  }
  void row(const std::string& name, std::uint64_t value, const std::string& remark = "") {
    row(name, grouped(value), remark);
  }
  void row(const std::string& name, const Lateness::Summary& s) {
    row(name, fixed(s.max, 3) + " s",
        "max; min " + fixed(s.min, 3) + ", p50 " + fixed(s.p50, 3) + ", p99 " + fixed(s.p99, 3) +
            ", p99.9 " + fixed(s.p999, 3));
  }

 private:
  std::ostream& out_;
};

void print_load(Table& table, const Figures& figures) {
  table.row("connections", figures.connections, "of " + grouped(figures.users) + " users");
  table.row("connect rate", fixed(figures.connect_rate, 0) + " /s", "connected and logged in");
  table.row("logins", figures.logins);
  table.row("keepalives", figures.keepalives, grouped(figures.keepalive_acks) + " acknowledged");
  table.row("messages", figures.messages);
  std::uint64_t acts = 0;
  std::string remark;
  for (std::size_t act = 0; act < kChurnActs; ++act) {
    acts += figures.churned[act];
    remark += (act == 0 ? "" : ", ") + grouped(figures.churned[act]) + " " + kActNames[act];
  }
  if (acts != 0) table.row("churn", acts, remark);
  if (figures.cut) {
    table.row("cut connections", figures.cut->connections,
              grouped(figures.cut->back) + " came back, the last after " +
                  fixed(figures.cut->slowest_seconds, 3) + " s; " + grouped(figures.cut->late) +
                  " too late");
  }
  if (figures.restart) {
    const RestartFigures& restart = *figures.restart;
    table.row(restart.killed ? "killed and restarted" : "restarted",
              fixed(restart.away_seconds, 3) + " s",
              "away; " + grouped(restart.back) + " of " + grouped(restart.clients) +
                  " clients came back, the last " + fixed(restart.slowest_seconds, 3) +
                  " s after it listened");
    table.row("edges since then", restart.online_edges + restart.offline_edges,
              grouped(restart.offline_edges) + " offline, " + grouped(restart.repeated_edges) +
                  " repeated; numbers " +
                  (restart.epochs_restarted > 0   ? "from 1 in a new epoch"
                   : restart.epochs_continued > 0 ? "went on"
                                                  : "not seen"));
  }
  table.row("refused logins", figures.refusals);
  table.row("unexpected closes", figures.unexpected_closes);
}

void print_judgement(Table& table, const Figures& figures) {
  if (!figures.judged) {
    table.row("edges", "not judged", "no event log to follow: see --edges");
    return;
  }
  const Verdict& verdict = figures.verdict;
  table.row("online edges", verdict.online_edges);
  table.row("offline edges", verdict.offline_edges);
  table.row("false offline", verdict.false_offline);
  table.row("missed offline", verdict.missed_offline);
  table.row("late offline", verdict.late_offline);
  table.row("missing online", verdict.missing_online);
  table.row("duplicate edges", verdict.duplicate_edges + figures.reordered_edges,
            grouped(figures.reordered_edges) + " of them out of order");
  table.row("wrong reasons", verdict.wrong_reasons);
  if (verdict.untold_takeovers != 0) table.row("untold takeovers", verdict.untold_takeovers);
  if (figures.skipped_edges != 0) table.row("missing numbers", figures.skipped_edges);
  if (figures.dropped_edges != 0) table.row("edges the log lost", figures.dropped_edges);
  if (figures.unreadable_lines != 0) table.row("unreadable lines", figures.unreadable_lines);
  table.row("lateness", verdict.lateness.summary());
  if (figures.stalls != 0) {
    table.row("lateness after freeze", verdict.lateness_after_stall.summary());
    table.row("due while frozen", verdict.lateness_after_stall.count(),
              "users; their lateness counts from SIGCONT");
  }
}

void print_ring(Table& table, const RingFigures& ring) {
  if (ring.at_end) {
    const RingDifferences& end = *ring.at_end;
    std::string remark = "of " + grouped(end.online) + " online and " + grouped(end.offline) +
                         " offline, " + fixed(ring.settled_seconds, 1) + " s after the end";
    for (std::size_t fault = 0; fault < kRingFaults; ++fault) {
      if (end.by_fault[fault] == 0) continue;
      remark += "; " + grouped(end.by_fault[fault]) + " " +
                std::string(to_string(static_cast<RingFault>(fault)));
    }
    table.row("Redis differences", end.total(), remark);
  } else {
    table.row("Redis differences", "unknown", "the ring could not be read at the end");
  }
  for (const std::string& example : ring.examples)
    table.row("", "", example);
  table.row("Redis checks", ring.checks,
            grouped(ring.differing_checks) + " with differences, at most " +
                grouped(ring.differences_max) + "; " + grouped(ring.failed_checks) +
                " failed; the slowest took " + fixed(ring.slowest_seconds, 2) + " s");
}

void print_daemon(Table& table, const Figures& figures) {
  if (figures.daemon) {
    const DaemonFigures& daemon = *figures.daemon;
    table.row("daemon memory", fixed(static_cast<double>(daemon.rss_bytes) / 1e6, 1) + " MB",
              fixed(static_cast<double>(daemon.base_rss_bytes) / 1e6, 1) + " MB without clients");
    table.row("memory per connection", fixed(daemon.rss_per_connection, 0) + " B");
    table.row("daemon CPU", fixed(daemon.cpu_percent, 1) + " %",
              "of one core after the ramp; " + fixed(daemon.cpu_us_per_keepalive, 1) +
                  " us per keepalive");
  }
  if (figures.metrics) {
    table.row("daemon's own lateness", figures.metrics->lateness_s);
    table.row("daemon's loop delay", figures.metrics->loop_delay_s);
    table.row("daemon's wake-up delay", figures.metrics->wakeup_delay_s);
  }
}

}  // namespace

std::string to_json(const Figures& figures) {
  const Verdict& verdict = figures.verdict;
  Json out;
  out["connections"] = figures.connections;
  out["users"] = figures.users;
  out["logins"] = figures.logins;
  out["keepalives"] = figures.keepalives;
  out["keepalive_acks"] = figures.keepalive_acks;
  out["messages"] = figures.messages;
  out["refusals"] = figures.refusals;
  out["unexpected_closes"] = figures.unexpected_closes;
  out["connect_rate"] = figures.connect_rate;
  out["seconds"] = figures.seconds;
  out["judged"] = figures.judged;
  out["online_edges"] = verdict.online_edges;
  out["offline_edges"] = verdict.offline_edges;
  out["false_offline"] = verdict.false_offline;
  out["missed_offline"] = verdict.missed_offline;
  out["late_offline"] = verdict.late_offline;
  out["missing_online"] = verdict.missing_online;
  out["duplicate_edges"] = verdict.duplicate_edges + figures.reordered_edges;
  out["reordered_edges"] = figures.reordered_edges;
  out["dropped_edges"] = figures.dropped_edges;
  out["skipped_edges"] = figures.skipped_edges;
  out["wrong_reasons"] = verdict.wrong_reasons;
  out["untold_takeovers"] = verdict.untold_takeovers;
  out["unreadable_lines"] = figures.unreadable_lines;
  out["lateness_s"] = to_json(verdict.lateness.summary());
  out["stalls"] = figures.stalls;
  out["offline_after_stall"] = verdict.lateness_after_stall.count();
  out["lateness_after_stall_s"] = to_json(verdict.lateness_after_stall.summary());
  out["churn"] = churn_json(figures);
  if (figures.cut) out["cut"] = cut_json(*figures.cut);
  if (figures.restart) out["restart"] = restart_json(*figures.restart);
  if (figures.ring) {
    out["redis_differences"] = differences_json(*figures.ring);
    out["redis"] = ring_json(*figures.ring);
  }
  out["daemon"] = daemon_json(figures);
  out["troubles"] = figures.troubles;
  return out.dump(2) + "\n";
}

void print_table(std::ostream& out, const Figures& figures) {
  Table table(out);
  out << '\n';
  print_load(table, figures);
  print_judgement(table, figures);
  if (figures.ring) print_ring(table, *figures.ring);
  print_daemon(table, figures);
  for (const auto& [text, count] : figures.troubles) {
    out << "  " << grouped(count) << " x " << text << '\n';
  }
  out << '\n';
}

}  // namespace pulsewheel::sim

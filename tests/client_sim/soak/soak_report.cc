#include "tests/client_sim/soak/soak_report.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>

namespace pulsewheel::sim {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Footprint& footprint) {
  return {{"rss_bytes", footprint.rss_bytes},
          {"descriptors", footprint.descriptors},
          {"threads", footprint.threads},
          {"connections", footprint.connections},
          {"users_online", footprint.users_online},
          {"users_remembered", footprint.users_remembered},
          {"partial_frame_bytes", footprint.partial_frame_bytes},
          {"backlog_bytes", footprint.backlog_bytes},
          {"timers_armed", footprint.timers_armed},
          {"service_timers_armed", footprint.service_timers_armed},
          {"edges_queued", footprint.edges_queued}};
}

Json to_json(const FaultDriver::Counts& counts) {
  Json out = Json::object();
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind)
    out[std::string(to_string(static_cast<FaultKind>(kind)))] = counts.begun[kind];
  out["users_kicked"] = counts.kicks;
  out["kicks_refused"] = counts.kicks_refused;
  out["strangers_not_closed"] = counts.unclosed;
  out["left_out"] = counts.left_out;
  return out;
}

Json to_json(const CycleFigures& cycle) {
  const Verdict& verdict = cycle.verdict;
  return {{"logins", cycle.totals.progress.logins},
          {"refusals", cycle.totals.refusals},
          {"unexpected_closes", cycle.totals.unexpected_closes},
          {"keepalives", cycle.totals.progress.keepalives},
          {"messages", cycle.totals.messages},
          {"resets", cycle.totals.cut},
          {"online_edges", verdict.online_edges},
          {"offline_edges", verdict.offline_edges},
          {"violations", cycle.violations()},
          {"false_offline", verdict.false_offline},
          {"missed_offline", verdict.missed_offline},
          {"late_offline", verdict.late_offline},
          {"missing_online", verdict.missing_online},
          {"duplicate_edges", verdict.duplicate_edges},
          {"wrong_reasons", verdict.wrong_reasons},
          {"untold_takeovers", verdict.untold_takeovers},
          {"reordered_edges", cycle.reordered_edges},
          {"skipped_edges", cycle.skipped_edges},
          {"dropped_edges", cycle.dropped_edges},
          {"unreadable_lines", cycle.unreadable_lines},
          {"troubles", cycle.troubles}};
}

void print_row(std::ostream& out, const char* what, double base, double end) {
  out << "  " << what << ": " << base << " -> " << end << '\n';
}

/// " 2 false_offline, 1 late_offline".
std::string kinds_of(const CycleFigures& cycle) {
  const Verdict& verdict = cycle.verdict;
  const std::pair<const char*, std::uint64_t> kinds[] = {
      {"false_offline", verdict.false_offline},       {"missed_offline", verdict.missed_offline},
      {"late_offline", verdict.late_offline},         {"missing_online", verdict.missing_online},
      {"duplicate_edges", verdict.duplicate_edges},   {"wrong_reasons", verdict.wrong_reasons},
      {"untold_takeovers", verdict.untold_takeovers}, {"reordered_edges", cycle.reordered_edges},
      {"skipped_edges", cycle.skipped_edges},         {"dropped_edges", cycle.dropped_edges},
      {"unreadable_lines", cycle.unreadable_lines}};
  std::string out;
  for (const auto& [kind, count] : kinds) {
    if (count == 0) continue;
    if (!out.empty()) out += ',';
    out += ' ' + std::to_string(count) + ' ' + kind;
  }
  return out;
}

}  // namespace

void judge_cycle(const std::string& name, const CycleFigures& cycle,
                 const FaultDriver::Counts& faults, std::vector<std::string>& failures) {
  const Verdict& verdict = cycle.verdict;
  if (cycle.violations() != 0) {
    failures.push_back(std::to_string(cycle.violations()) + " violations in the " + name + ":" +
                       kinds_of(cycle));
  }
  if (verdict.online_edges != verdict.offline_edges) {
    failures.push_back(std::to_string(verdict.online_edges) + " online and " +
                       std::to_string(verdict.offline_edges) + " offline edges in the " + name +
                       ", at whose end everybody had left");
  }
  if (verdict.kicked_edges != faults.kicks) {
    failures.push_back(std::to_string(faults.kicks) + " users kicked and " +
                       std::to_string(verdict.kicked_edges) + " edges that say so in the " + name);
  }
  if (faults.unclosed != 0) {
    failures.push_back(std::to_string(faults.unclosed) +
                       " strangers whom the daemon did not close in the " + name);
  }
}

std::string to_json(const SoakFigures& figures) {
  Json out;
  out["passed"] = figures.passed();
  out["failures"] = figures.failures;
  out["seed"] = figures.seed;
  out["minutes"] = figures.minutes;
  out["violations"] = figures.rehearsal.violations() + figures.soak.violations();
  out["base"] = to_json(figures.base);
  out["end"] = to_json(figures.end);
  out["faults"] = to_json(figures.faults);
  out["soak"] = to_json(figures.soak);
  out["rehearsal"] = to_json(figures.rehearsal);
  out["rehearsal_faults"] = to_json(figures.rehearsed);
  return out.dump(2) + "\n";
}

void print_table(std::ostream& out, const SoakFigures& figures) {
  out << "\n  logins: " << figures.soak.totals.progress.logins
      << ", edges: " << figures.soak.verdict.online_edges << " online, "
      << figures.soak.verdict.offline_edges << " offline, violations: " << figures.soak.violations()
      << "\n  faults:";
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
    out << (kind == 0 ? " " : ", ") << figures.faults.begun[kind] << ' '
        << to_string(static_cast<FaultKind>(kind));
  }
  out << "\n  users kicked: " << figures.faults.kicks
      << ", faults left out: " << figures.faults.left_out << '\n';
  for (const auto& [text, count] : figures.soak.troubles)
    out << "  " << count << " x " << text << '\n';
  out << "\n  after the rehearsal -> at the end\n";
  const Footprint& base = figures.base;
  const Footprint& end = figures.end;
  print_row(out, "resident memory, MB", static_cast<double>(base.rss_bytes) / 1e6,
            static_cast<double>(end.rss_bytes) / 1e6);
  print_row(out, "descriptors", static_cast<double>(base.descriptors),
            static_cast<double>(end.descriptors));
  print_row(out, "threads", static_cast<double>(base.threads), static_cast<double>(end.threads));
  print_row(out, "timers armed", base.timers_armed, end.timers_armed);
  print_row(out, "service timers armed", base.service_timers_armed, end.service_timers_armed);
  print_row(out, "connections", base.connections, end.connections);
  print_row(out, "users online", base.users_online, end.users_online);
  print_row(out, "partial frames and backlog, B", base.partial_frame_bytes + base.backlog_bytes,
            end.partial_frame_bytes + end.backlog_bytes);
  out << '\n';
  for (const std::string& failure : figures.failures)
    out << "  FAILED: " << failure << '\n';
}

}  // namespace pulsewheel::sim

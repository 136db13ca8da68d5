#include "tests/integration/faults/fault_test.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <stdexcept>

#include "daemon/base/percent.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {

std::vector<std::string> fault_sets(std::vector<std::string> more) {
  std::vector<std::string> sets{"presence.timeout=" + std::to_string(kTimeout.count()) + "s",
                                "presence.timeout_min=1s",
                                "presence.tick=50ms",
                                "server.max_connections=6000",
                                "server.fd_tables=shared",
                                "server.login_timeout=60s"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::map<std::string, EdgeCount> count_edges(const Daemon& daemon) {
  std::map<std::string, EdgeCount> counts;
  for (const auto& edge : daemon.edges()) {
    EdgeCount& count = counts[edge.at("uid")];
    ++(edge.at("kind") == "online" ? count.online : count.offline);
  }
  return counts;
}

EdgeCount count_all_edges(const Daemon& daemon) {
  EdgeCount sum;
  for (const auto& [uid, count] : count_edges(daemon)) {
    sum.online += count.online;
    sum.offline += count.offline;
  }
  return sum;
}

EdgeCount wait_for_edge_count(const Daemon& daemon, EdgeCount expected) {
  static_cast<void>(daemon.wait_for_edges(expected.online + expected.offline));
  return count_all_edges(daemon);
}

nlohmann::json user(const Daemon& daemon, const std::string& uid) {
  return nlohmann::json::parse(daemon.get("/v1/users/" + percent_encode(uid)).body);
}

std::string state_of(const Daemon& daemon, const std::string& uid) {
  return user(daemon, uid).at("state");
}

double wall_seconds(const nlohmann::json& edge, const char* field) {
  std::istringstream text(edge.at(field).get<std::string>());  // 2026-01-02T03:04:05.678901Z
  std::tm time{};
  double fraction = 0;
  text >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S") >> fraction;
  if (!text) throw std::runtime_error("no time: " + text.str());
  return static_cast<double>(::timegm(&time)) + fraction;
}

double silence_of(const nlohmann::json& edge) {
  return wall_seconds(edge, "at") - wall_seconds(edge, "last_seen");
}

bool reset_and_log_in_again(Swarm& swarm, const std::string& prefix, std::size_t users) {
  swarm.reset_all();
  for (std::size_t i = 0; i < users; ++i)
    swarm.reconnect(i);
  if (!swarm.all_connected()) return false;
  for (std::size_t i = 0; i < users; ++i)
    swarm.send_login(i, prefix + "-" + std::to_string(i));
  return true;
}

void send_last_packets_together(const Daemon& daemon, Swarm& swarm) {
  daemon.signal(SIGSTOP);
  swarm.send_all(proto::encode_keepalive(proto::kNoReply));
  daemon.signal(SIGCONT);
}

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t memory_kib(pid_t pid, const std::string& line) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string text; std::getline(status, text);) {
    if (text.rfind(line + ":", 0) == 0) return std::stoul(text.substr(line.size() + 1));
  }
  throw std::runtime_error("no " + line + " of process " + std::to_string(pid));
}

bool grew_at_most(pid_t pid, std::size_t before_kib, std::size_t room_kib) {
  return kUnderSanitizer || memory_kib(pid, "VmRSS") <= before_kib + room_kib;
}

std::chrono::milliseconds cpu_time(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // the name may hold anything
  constexpr int kFieldsBetween = 11;                            // state to cmajflt
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i)
    fields >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  fields >> user >> system;
  return std::chrono::milliseconds{(user + system) * 1'000 / ::sysconf(_SC_CLK_TCK)};
}

void limit_running(pid_t pid, int resource, std::uint64_t limit) {
  rlimit64 now{};
  const auto kind = static_cast<__rlimit_resource>(resource);
  ::prlimit64(pid, kind, nullptr, &now);
  now.rlim_cur = limit;
  if (::prlimit64(pid, kind, &now, nullptr) != 0) throw std::runtime_error("prlimit failed");
}

}  // namespace pulsewheel::test

#include "tests/client_sim/fleet.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "daemon/base/descriptor_tables.h"
#include "daemon/base/thread.h"
#include "tests/client_sim/program.h"

namespace pulsewheel::sim {
namespace {

/// Descriptors of a table that are no connections: standard streams, epoll, and some room.
constexpr std::uint64_t kReserve = 16;
/// Below this one thread is enough, and leaves the other CPU to the daemon.
constexpr std::uint32_t kConnectionsOfOneThread = 5'000;
/// All workers together have this many logins unanswered at most: what a daemon's accept queue
/// takes. A full queue drops the SYN, and the next one comes a second later.
constexpr std::uint32_t kLoginsPendingMax = 1'024;
constexpr std::uint32_t kLoginsPendingMin = 16;

/// Of the threads with the clients: a third of the weight of the daemon's.
constexpr int kClientsNice = 5;

std::uint32_t divide_up(std::uint64_t n, std::uint64_t parts) {
  return static_cast<std::uint32_t>((n + parts - 1) / parts);
}

std::uint32_t threads_for(const Options& options, std::uint64_t per_table) {
  const std::uint32_t needed = divide_up(options.connections, per_table);
  std::uint32_t wanted = options.threads;
  if (wanted == 0 && options.connections > kConnectionsOfOneThread) {
    wanted = std::min(2U, std::max(1U, std::thread::hardware_concurrency()));
  }
  return std::max({needed, wanted, 1U});
}

}  // namespace

Fleet::Fleet(const Options& options, const JudgeRules& rules, const Endpoint& target,
             const UidNames& names, RunControl& control)
    : control_(control) {
  const std::uint64_t limit = raise_descriptor_limit();
  const std::uint32_t devices = options.devices;
  if (limit < kReserve + devices) {
    throw UsageError("the limit of " + std::to_string(limit) +
                     " descriptors is too low: at least " + std::to_string(kReserve + devices));
  }
  const std::uint64_t per_table = (limit - kReserve) / devices * devices;
  const std::uint32_t users = divide_up(options.connections, devices);
  users_per_worker_ = divide_up(users, threads_for(options, per_table));
  tables_needed_ = options.connections > per_table;

  const std::uint32_t clients_per_worker = users_per_worker_ * devices;
  const std::uint32_t workers = divide_up(options.connections, clients_per_worker);
  for (std::uint32_t i = 0; i < workers; ++i) {
    Worker::Setup setup;
    setup.options = &options;
    setup.target = &target;
    setup.names = &names;
    setup.rules = rules;
    setup.first_client = i * clients_per_worker;
    setup.clients = std::min(clients_per_worker, options.connections - setup.first_client);
    setup.logins_pending_max = std::max(kLoginsPendingMin, kLoginsPendingMax / workers);
    const double share = static_cast<double>(setup.clients) / options.connections;
    setup.ramp = options.ramp * share;
    setup.churn = churn_rate_of(options) * share;
    workers_.push_back(std::make_unique<Worker>(setup, control));
  }
}

Fleet::~Fleet() {
  if (threads_.empty()) return;
  control_.enter(Phase::kEnd, MonoClock::now());
  join();
}

void Fleet::start() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i] { run_worker(*workers_[i], i); });
  }
}

void Fleet::join() {
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
}

void Fleet::run_worker(Worker& worker, std::size_t number) {
  set_thread_name("clients-" + std::to_string(number));
  block_all_signals_in_this_thread();
  // Clients do not run on a server's processors. Here they do, and step back a little: what is
  // measured is the daemon, not its competition with a hundred thousand phones for two cores.
  ::setpriority(PRIO_PROCESS, 0, kClientsNice);
  // A worker inherits the standard streams and nothing else.
  const std::error_code failure = separate_descriptor_table(STDERR_FILENO + 1);
  if (failure && tables_needed_) {
    control_.fail(kExitSystem,
                  "so many connections need a descriptor table for each thread, and "
                  "close_range failed: " +
                      failure.message());
    return;
  }
  worker.run();
}

std::vector<EdgeInbox*> Fleet::inboxes() {
  std::vector<EdgeInbox*> out;
  for (const auto& worker : workers_)
    out.push_back(&worker->inbox());
  return out;
}

std::vector<RecordDesk*> Fleet::desks() {
  std::vector<RecordDesk*> out;
  for (const auto& worker : workers_)
    out.push_back(&worker->desk());
  return out;
}

Fleet::Totals Fleet::totals() const {
  Totals sum;
  for (const auto& worker : workers_) {
    const WorkerStats& stats = worker->stats();
    sum.progress.connected += stats.connected.value();
    sum.progress.logins += stats.logins.value();
    sum.progress.keepalives += stats.keepalives.value();
    sum.progress.online += stats.online.value();
    sum.progress.offline_edges += stats.offline_edges.value();
    sum.progress.violations += stats.violations.value();
    sum.first_logins += stats.first_logins.value();
    sum.refusals += stats.refusals.value();
    sum.unexpected_closes += stats.unexpected_closes.value();
    sum.keepalive_acks += stats.keepalive_acks.value();
    sum.messages += stats.messages.value();
    for (std::size_t act = 0; act < kChurnActs; ++act)
      sum.churned[act] += stats.churned[act].value();
    sum.cut += stats.cut.value();
    sum.back += stats.back.value();
    sum.back_late += stats.back_late.value();
    sum.slowest_back =
        std::max(sum.slowest_back, Duration{stats.slowest_back_ns.load(std::memory_order_relaxed)});
    sum.last_first_login =
        std::max(sum.last_first_login,
                 MonoTime{Duration{stats.last_first_login_ns.load(std::memory_order_relaxed)}});
  }
  return sum;
}

Verdict Fleet::verdict() const {
  Verdict sum;
  for (const auto& worker : workers_)
    sum.merge(worker->verdict());
  return sum;
}

}  // namespace pulsewheel::sim

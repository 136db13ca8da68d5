#include "tests/client_sim/soak/soak.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/client_sim/daemon_process.h"
#include "tests/client_sim/daemon_usage.h"
#include "tests/client_sim/program.h"
#include "tests/client_sim/soak/cycle.h"
#include "tests/client_sim/soak/fault_driver.h"
#include "tests/client_sim/soak/faults.h"
#include "tests/client_sim/soak/footprint.h"
#include "tests/client_sim/soak/soak_report.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTurn = 10ms;
constexpr Duration kProgressInterval = 10s;
constexpr Duration kRampLimit = 60s;
/// How long leaving may take: the timeout of those who leave by silence, and their close.
constexpr Duration kLeaveLimit = 60s;
/// How long the daemon may take until nothing is left of those who have gone.
constexpr Duration kQuietLimit = 60s;
constexpr Duration kQuietPoll = 250ms;
/// How long a base line must not move: longer than the retention of offline users, whose timer is
/// the last to go.
constexpr Duration kRest = 3s;

/// The soak cannot go on; what() says why.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The steps of a soak, in order. Main thread.
class Soak {
 public:
  explicit Soak(const SoakOptions& options);
  int execute();

 private:
  void start_daemon();
  CycleFigures run_cycle(const std::string& name, std::vector<Fault> plan, Duration length,
                         FaultDriver::Counts& counts);
  void wait_for_logins(Cycle& cycle);
  void hold(Cycle& cycle, FaultDriver& driver, Duration length);
  void wait_for_leave(Cycle& cycle);
  /// Waits until nothing is left of anybody, and, with a base line, until nothing has grown.
  Footprint wait_until_quiet(const Footprint* base);
  void turn();
  void show(Cycle& cycle, const FaultDriver* driver, Duration length);
  [[nodiscard]] int conclude();

  const SoakOptions& options_;
  SoakFigures figures_;
  Options client_options_;
  std::unique_ptr<DaemonProcess> daemon_;
  Endpoint target_;
  std::string cycle_name_;
  std::uint64_t cycles_ = 0;
  MonoTime cycle_began_;
  MonoTime shown_at_;
  std::set<std::string> told_;  // troubles that were shown as they came
};

Soak::Soak(const SoakOptions& options) : options_(options) {
  figures_.seed = options.seed ? *options.seed : std::random_device{}();
  figures_.minutes = to_seconds(options.length) / 60;
}

int Soak::execute() {
  catch_interrupts();
  std::fprintf(stderr, "soak: %.1f minutes, seed %llu\n", figures_.minutes,
               static_cast<unsigned long long>(figures_.seed));
  try {
    start_daemon();
    const Footprint fresh = wait_until_quiet(nullptr);
    std::vector<Fault> rehearsal = plan_rehearsal(options_.connections);
    const Duration rehearsal_length = end_of(rehearsal);
    figures_.rehearsal =
        run_cycle("rehearsal", std::move(rehearsal), rehearsal_length, figures_.rehearsed);
    figures_.base = wait_until_quiet(nullptr);
    // A daemon that ran out of descriptors takes its spare ones again when it next accepts.
    figures_.base.descriptors = std::max(figures_.base.descriptors, fresh.descriptors);
    figures_.soak =
        run_cycle("soak", plan_faults(figures_.seed, options_.length, options_.connections),
                  options_.length, figures_.faults);
    figures_.end = wait_until_quiet(&figures_.base);
  } catch (const Stopped& stopped) {
    figures_.failures.emplace_back(stopped.what());
  }
  if (daemon_) {
    const std::string how = daemon_->stop();
    if (!how.empty()) figures_.failures.push_back(how);
  }
  return conclude();
}

void Soak::start_daemon() {
  client_options_ = client_options(options_, figures_.seed, options_.length);
  DaemonProcess::Setup setup;
  setup.program = options_.daemon;
  setup.connections = options_.connections;
  setup.sets = client_options_.sets;
  setup.keep_folder = options_.keep;
  daemon_ = std::make_unique<DaemonProcess>(setup);
  if (options_.keep) std::fprintf(stderr, "soak: state in %s\n", daemon_->folder().c_str());
  if (daemon_->http().empty()) throw Unavailable("the daemon has no HTTP port to be measured by");
  target_ = resolve(daemon_->target());
}

CycleFigures Soak::run_cycle(const std::string& name, std::vector<Fault> plan, Duration length,
                             FaultDriver::Counts& counts) {
  cycle_name_ = name;
  client_options_.duration = length;
  Cycle cycle(client_options_, target_, daemon_->edge_files().front(),
              2 * figures_.seed + cycles_++);
  cycle.start();
  wait_for_logins(cycle);
  cycle_began_ = shown_at_ = MonoClock::now();
  cycle.go_steady(cycle_began_);
  FaultDriver::Setup setup;
  setup.daemon = daemon_->pid();
  setup.target = &target_;
  setup.http = daemon_->http();
  setup.config_file = daemon_->folder() / "pulsewheel.toml";
  setup.event_log = daemon_->edge_files().front();
  setup.seed = figures_.seed;
  setup.verbose = options_.verbose;
  FaultDriver driver(std::move(setup), std::move(plan), cycle.control(), cycle_began_);
  hold(cycle, driver, length);
  driver.finish();
  counts = driver.counts();
  wait_for_leave(cycle);
  CycleFigures figures = cycle.finish();
  judge_cycle(name, figures, counts, figures_.failures);
  return figures;
}

void Soak::wait_for_logins(Cycle& cycle) {
  const MonoTime limit = MonoClock::now() + kRampLimit;
  while (!cycle.all_logged_in()) {
    turn();
    if (const auto failure = cycle.control().failure()) throw Stopped(failure->why);
    if (MonoClock::now() > limit) {
      throw Stopped(std::to_string(cycle.totals().first_logins) + " of " +
                    std::to_string(options_.connections) + " clients could log in within " +
                    std::to_string(kRampLimit / 1s) + " s");
    }
  }
}

void Soak::hold(Cycle& cycle, FaultDriver& driver, Duration length) {
  while (true) {
    turn();
    const MonoTime now = MonoClock::now();
    driver.step(now);
    show(cycle, &driver, length);
    // The last strangers may stay a little longer: they have a limit of their own.
    if (now >= cycle_began_ + length && driver.is_over()) return;
    if (const auto failure = cycle.control().failure()) throw Stopped(failure->why);
  }
}

void Soak::wait_for_leave(Cycle& cycle) {
  const MonoTime began = MonoClock::now();
  cycle.leave(began);
  while (!cycle.has_left(MonoClock::now())) {
    turn();
    if (MonoClock::now() > began + kLeaveLimit) {
      throw Stopped("after " + std::to_string(kLeaveLimit / 1s) + " s " +
                    std::to_string(cycle.totals().progress.connected) +
                    " clients that left had not been closed");
    }
  }
}

Footprint Soak::wait_until_quiet(const Footprint* base) {
  const MonoTime limit = MonoClock::now() + kQuietLimit;
  MonoTime rests_since = MonoClock::now();
  Footprint last;
  std::vector<std::string> moved;
  while (true) {
    turn();
    std::this_thread::sleep_for(kQuietPoll);
    const auto now = read_footprint(daemon_->pid(), daemon_->http());
    if (!now) throw Stopped("the daemon does not answer at /metrics as it should");
    std::vector<std::string> left = leftovers(*now);
    if (base != nullptr) {
      const auto grown = growth(*base, *now);
      left.insert(left.end(), grown.begin(), grown.end());
    }
    // A base line that still moves is none: a timer may be armed that finds nothing to do.
    std::vector<std::string> moves = growth(last, *now);
    if (moves.empty()) moves = growth(*now, last);
    if (!moves.empty()) {
      rests_since = MonoClock::now();
      moved = std::move(moves);
    }
    const bool rests = base != nullptr || MonoClock::now() >= rests_since + kRest;
    if (left.empty() && rests) return *now;
    last = *now;
    if (MonoClock::now() <= limit) continue;
    for (const std::string& what : left)
      figures_.failures.push_back("after the " + cycle_name_ + ": " + what);
    if (left.empty()) {
      figures_.failures.push_back("the base line does not come to rest: " + moved.front());
    }
    return *now;
  }
}

void Soak::turn() {
  std::this_thread::sleep_for(kTurn);
  if (interrupted()) throw Stopped("interrupted");
  std::string why;
  if (!daemon_->running(why)) throw Stopped("the daemon " + why);
}

void Soak::show(Cycle& cycle, const FaultDriver* driver, Duration length) {
  const MonoTime now = MonoClock::now();
  if (now < shown_at_ + kProgressInterval) return;
  shown_at_ = now;
  const Fleet::Totals totals = cycle.totals();
  std::uint64_t faults = 0;
  for (const std::uint64_t begun : driver->counts().begun)
    faults += begun;
  const auto usage = read_usage(daemon_->pid());
  std::fprintf(stderr,
               "%s %.0f of %.0f s  connected %lld  logins %llu  offline edges %lld  faults %llu  "
               "daemon %.1f MB  violations %lld\n",
               cycle_name_.c_str(), to_seconds(now - cycle_began_), to_seconds(length),
               static_cast<long long>(totals.progress.connected),
               static_cast<unsigned long long>(totals.progress.logins),
               static_cast<long long>(totals.progress.offline_edges),
               static_cast<unsigned long long>(faults),
               usage ? static_cast<double>(usage->rss_bytes) / 1e6 : 0,
               static_cast<long long>(totals.progress.violations));
  for (const auto& [text, count] : cycle.control().troubles()) {
    if (told_.insert(text).second) std::fprintf(stderr, "soak: %s\n", text.c_str());
  }
}

int Soak::conclude() {
  print_table(std::cout, figures_);
  if (!options_.report.empty()) {
    std::ofstream file(options_.report);
    file << to_json(figures_) << std::flush;
    if (!file) {
      std::fprintf(stderr, "pulsewheel-soak: cannot write %s\n", options_.report.c_str());
      return kExitCannotWrite;
    }
  }
  std::fprintf(stderr, "soak: %s, seed %llu\n", figures_.passed() ? "passed" : "failed",
               static_cast<unsigned long long>(figures_.seed));
  return figures_.passed() ? kExitFine : kExitPromiseBroken;
}

}  // namespace

int soak(const SoakOptions& options) {
  return Soak(options).execute();
}

}  // namespace pulsewheel::sim

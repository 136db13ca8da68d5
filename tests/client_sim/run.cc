#include "tests/client_sim/run.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client_sim/daemon_freeze.h"
#include "tests/client_sim/daemon_process.h"
#include "tests/client_sim/daemon_usage.h"
#include "tests/client_sim/edge_follower.h"
#include "tests/client_sim/fleet.h"
#include "tests/client_sim/program.h"
#include "tests/client_sim/progress.h"
#include "tests/client_sim/report.h"
#include "tests/client_sim/ring_verifier.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLookInterval = 50ms;
/// A ramp in which nobody new could log in for this long has failed.
constexpr Duration kRampStall = 15s;
/// Between start and the measurement of the memory without clients, and between the end of the
/// ramp and the one with all: what is still being allocated or freed settles.
constexpr Duration kMemorySettles = 500ms;
/// How long the event log may take to be read up to the end of the run.
constexpr Duration kCatchUpLimit = 10s;

std::uint32_t users_of(const Options& options) noexcept {
  return (options.connections + options.devices - 1) / options.devices;
}

/// How long a run lasts after the ramp, if nothing is owed beyond.
Duration planned_length(const Options& options) {
  Duration planned = std::max({options.duration, options.stop_all_at.value_or(Duration::zero()),
                               options.freeze_at.value_or(Duration::zero()) + options.freeze_for});
  planned = std::max(planned, restart_time_of(options).value_or(Duration::zero()));
  if (options.cut_all_at) {
    // Everybody's deadline has passed before the end: a client that did not come back is seen.
    planned = std::max(planned, *options.cut_all_at + expected_timeout_of(options) +
                                    tick_of(options) + options.slack + options.grace);
  }
  return planned;
}

/// What the spawned daemon is told: the user's sets count more.
std::vector<std::string> sets_for_daemon(const Options& options) {
  std::vector<std::string> sets;
  if (!options.verify_redis.empty()) {
    sets = {"redis.mode=mirror", "redis.url=" + options.verify_redis};
  }
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  return sets;
}

RingKeys ring_keys_of(const Options& options) {
  const RingKeys usual;
  return {value_of(options.sets, "redis.list_key").value_or(usual.list),
          value_of(options.sets, "redis.index_key").value_or(usual.index),
          value_of(options.sets, "redis.key_prefix").value_or(usual.prefix)};
}

/// The steps of a run, in order. Main thread.
class Run {
 public:
  explicit Run(const Options& options);
  int execute();

 private:
  void find_daemon();
  void follow_edges(std::vector<std::string> files);
  void verify_ring();
  void measure_base();
  [[nodiscard]] bool ramp();
  [[nodiscard]] bool hold();
  void follow_script(MonoTime now);
  void reload_daemon(const TimedReload& reload);
  void restart_daemon();
  void finish();
  void collect_figures();
  void collect_restart(const Fleet::Totals& totals);
  [[nodiscard]] int conclude();

  /// Waits a little, shows progress, and looks for what ends a run. False: it is over.
  [[nodiscard]] bool pause(const std::string& what, double share);
  [[nodiscard]] std::optional<ProcessUsage> usage() const;
  void fail(int exit_code, const std::string& why) { control_.fail(exit_code, why); }

  const Options& options_;
  JudgeRules rules_;
  UidNames names_;
  RunControl control_;
  std::unique_ptr<DaemonProcess> daemon_;
  Endpoint target_;
  std::string http_;
  std::optional<pid_t> pid_;
  std::optional<DaemonFreeze> freeze_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<EdgeFollower> follower_;
  std::unique_ptr<RingVerifier> verifier_;
  Progress progress_;

  std::size_t next_reload_ = 0;
  bool froze_ = false;
  std::optional<DaemonRestart> restart_;
  Fleet::Totals before_restart_;
  MonoTime ramp_began_;
  MonoTime steady_began_;
  MonoTime ended_;
  std::optional<ProcessUsage> base_, full_, steady_start_, end_;
  std::uint64_t packets_at_steady_start_ = 0;
  Figures figures_;
};

Run::Run(const Options& options) : options_(options), names_(std::random_device{}()) {
  rules_.tick = tick_of(options);
  rules_.slack = options.slack;
  rules_.grace = options.grace;
  rules_.drain = options.drain;
  rules_.restart_grace = restart_grace_of(options);
  rules_.snapshot_age = snapshot_age_of(options);
  // A spawned daemon has no operator but the simulator.
  rules_.kicks_are_ours = options.spawn.has_value();
  rules_.offline_on_disconnect = value_of(options.sets, "presence.on_disconnect") == "offline";
}

int Run::execute() {
  catch_interrupts();
  find_daemon();
  measure_base();
  if (ramp()) static_cast<void>(hold());
  finish();
  return conclude();
}

void Run::find_daemon() {
  std::vector<std::string> edges = options_.edges;
  std::string target = options_.target;
  http_ = options_.metrics;
  if (options_.pid) pid_ = static_cast<pid_t>(*options_.pid);
  if (options_.spawn) {
    DaemonProcess::Setup setup;
    setup.program = options_.spawn->empty() ? default_daemon_program() : *options_.spawn;
    setup.connections = options_.connections;
    setup.sets = sets_for_daemon(options_);
    setup.keep_folder = options_.keep;
    daemon_ = std::make_unique<DaemonProcess>(setup);
    target = daemon_->target();
    pid_ = daemon_->pid();
    if (http_.empty()) http_ = daemon_->http();
    if (edges.empty()) edges = daemon_->edge_files();
    if (options_.keep) progress_.say("state folder: " + daemon_->folder().string());
  }
  target_ = resolve(target);
  fleet_ = std::make_unique<Fleet>(options_, rules_, target_, names_, control_);
  figures_.judged = !edges.empty();
  if (figures_.judged) follow_edges(std::move(edges));
  if (!options_.verify_redis.empty()) verify_ring();
}

void Run::verify_ring() {
  RingVerifier::Setup setup;
  setup.address = RedisAddress::parse(options_.verify_redis);
  setup.keys = ring_keys_of(options_);
  setup.rules.tick = rules_.tick;
  setup.rules.slack = rules_.slack;
  setup.desks = fleet_->desks();
  setup.names = &names_;
  setup.users = users_of(options_);
  verifier_ = std::make_unique<RingVerifier>(std::move(setup), control_);
  verifier_->start();
}

void Run::follow_edges(std::vector<std::string> files) {
  EdgeFollower::Setup setup;
  setup.paths = std::move(files);
  setup.from_start = options_.spawn.has_value();
  setup.names = &names_;
  setup.inboxes = fleet_->inboxes();
  setup.users_per_inbox = fleet_->users_per_worker();
  follower_ = std::make_unique<EdgeFollower>(std::move(setup));
}

std::optional<ProcessUsage> Run::usage() const {
  return pid_ ? read_usage(*pid_) : std::nullopt;
}

void Run::measure_base() {
  if (pid_) std::this_thread::sleep_for(kMemorySettles);
  base_ = usage();
}

bool Run::pause(const std::string& what, double share) {
  std::this_thread::sleep_for(kLookInterval);
  progress_.show(what, share, fleet_->totals().progress, MonoClock::now());
  if (interrupted()) {
    progress_.say("pulsewheel-sim: interrupted; what follows is judged up to here");
    return false;
  }
  std::string why;
  if (daemon_ && !daemon_->running(why)) fail(kExitPromiseBroken, "the daemon " + why);
  return !control_.failure();
}

bool Run::ramp() {
  ramp_began_ = MonoClock::now();
  fleet_->start();
  std::uint64_t known = 0;
  MonoTime progressed = ramp_began_;
  const Duration patience =
      kRampStall +
      (options_.ramp > 0
           ? std::chrono::round<Duration>(std::chrono::duration<double>(1 / options_.ramp))
           : Duration::zero());
  while (true) {
    const std::uint64_t logged_in = fleet_->totals().first_logins;
    const MonoTime now = MonoClock::now();
    if (logged_in == options_.connections) break;
    if (logged_in != known) progressed = now;
    known = logged_in;
    if (now - progressed > patience) {
      const auto troubles = control_.troubles();
      fail(kExitUnavailable, std::to_string(logged_in) + " of " +
                                 std::to_string(options_.connections) +
                                 " clients could log in to " + target_.text +
                                 (troubles.empty() ? "" : "; " + troubles.begin()->first));
      return false;
    }
    if (!pause("ramp", static_cast<double>(logged_in) / options_.connections)) return false;
  }
  steady_began_ = MonoClock::now();
  control_.enter(Phase::kSteady, steady_began_);
  return true;
}

bool Run::hold() {
  const Fleet::Totals at_start = fleet_->totals();
  packets_at_steady_start_ = at_start.progress.keepalives + at_start.messages;
  figures_.connections = static_cast<std::uint64_t>(at_start.progress.connected);
  steady_start_ = usage();
  const Duration planned = planned_length(options_);
  while (true) {
    const MonoTime now = MonoClock::now();
    if (!full_ && now - steady_began_ >= std::min(kMemorySettles, planned / 2)) full_ = usage();
    follow_script(now);
    const MonoTime until = std::max(steady_began_ + planned, control_.owed_until());
    if (now >= until) return true;
    if (!pause("run", to_seconds(now - steady_began_) / to_seconds(until - steady_began_)))
      return false;
  }
}

void Run::follow_script(MonoTime now) {
  const Duration elapsed = now - steady_began_;
  if (options_.freeze_at && !froze_ && elapsed >= *options_.freeze_at) {
    froze_ = true;
    freeze_.emplace(*pid_, control_);
    freeze_->begin();
  }
  if (freeze_ && freeze_->lasts() && elapsed >= *options_.freeze_at + options_.freeze_for) {
    freeze_->end();
    // Who was due meanwhile, and whoever's last packet is read only now and who stays silent.
    control_.owe_until(MonoClock::now() + expected_timeout_of(options_) + rules_.tick +
                       rules_.slack + rules_.drain + rules_.grace);
  }
  if (options_.cut_all_at && control_.cuts() == 0 && elapsed >= *options_.cut_all_at) {
    control_.cut(100);
  }
  const auto& reloads = options_.reloads;
  while (next_reload_ < reloads.size() && elapsed >= reloads[next_reload_].at)
    reload_daemon(reloads[next_reload_++]);
  if (const auto at = restart_time_of(options_); at && !restart_ && elapsed >= *at) {
    restart_daemon();
  }
  if (options_.stop_all_at && control_.phase() == Phase::kSteady &&
      elapsed >= *options_.stop_all_at) {
    // Until the workers have said what they owe, nothing may end the run.
    control_.owe_until(now + 1s);
    control_.enter(Phase::kSilence, now);
  }
}

void Run::reload_daemon(const TimedReload& reload) {
  const std::string refusal = daemon_->reload(reload.key, reload.value);
  if (!refusal.empty()) fail(kExitUsage, "--reload-daemon: " + refusal);
}

/// The clients go on meanwhile.
void Run::restart_daemon() {
  before_restart_ = fleet_->totals();
  restart_ = DaemonRestart{
      .killed = options_.kill_at.has_value(), .left = MonoClock::now(), .started = {}, .back = {}};
  control_.daemon_leaves(restart_->left);
  if (restart_->killed) {
    daemon_->kill();
  } else if (const std::string how = daemon_->stop(); !how.empty()) {
    fail(kExitPromiseBroken, how);
  }
  std::this_thread::sleep_for(options_.down_for);
  restart_->started = MonoClock::now();
  daemon_->start_again();
  restart_->back = MonoClock::now();
  pid_ = daemon_->pid();
  // What was measured of another process says nothing about this one.
  base_.reset();
  control_.daemon_is_back(*restart_);
  control_.owe_until(restart_->back + rules_.restart_grace + expected_timeout_of(options_) +
                     rules_.tick + rules_.slack + rules_.grace);
}

void Run::finish() {
  freeze_.reset();
  // While the clients go on: whoever is online stays so.
  if (verifier_ && !control_.failure()) figures_.ring = verifier_->settle();
  verifier_.reset();
  ended_ = MonoClock::now();
  end_ = usage();
  const MonoTime patience = ended_ + kCatchUpLimit;
  while (follower_ && follower_->caught_up() < ended_) {
    if (MonoClock::now() > patience) {
      fail(kExitSystem, "the event log could not be read up to the end of the run");
      break;
    }
    std::this_thread::sleep_for(5ms);
  }
  if (!http_.empty() && !control_.failure()) figures_.metrics = fetch_metrics(http_);
  control_.enter(Phase::kEnd, ended_);
  fleet_->join();
  collect_figures();
  follower_.reset();
  if (daemon_) {
    const std::string how = daemon_->stop();
    if (!how.empty()) fail(kExitPromiseBroken, how);
  }
}

void Run::collect_figures() {
  const Fleet::Totals totals = fleet_->totals();
  figures_.users = users_of(options_);
  figures_.logins = totals.progress.logins;
  figures_.keepalives = totals.progress.keepalives;
  figures_.keepalive_acks = totals.keepalive_acks;
  figures_.messages = totals.messages;
  figures_.refusals = totals.refusals;
  figures_.unexpected_closes = totals.unexpected_closes;
  if (totals.last_first_login > ramp_began_) {
    figures_.connect_rate = static_cast<double>(totals.first_logins) /
                            to_seconds(totals.last_first_login - ramp_began_);
  }
  figures_.verdict = fleet_->verdict();
  if (follower_) {
    figures_.reordered_edges = follower_->stats().reordered.value();
    figures_.dropped_edges = follower_->stats().dropped.value();
    figures_.unreadable_lines = follower_->stats().unreadable.value();
    const std::uint64_t skipped = follower_->stats().skipped.value();
    figures_.skipped_edges = skipped - std::min(skipped, figures_.dropped_edges);
  }
  figures_.stalls = control_.stall_steps() / 2 - control_.restarts();
  figures_.churned = totals.churned;
  if (options_.cut_all_at) {
    figures_.cut =
        CutFigures{totals.cut, totals.back, totals.back_late, to_seconds(totals.slowest_back)};
  }
  if (restart_) collect_restart(totals);
  figures_.troubles = control_.troubles();
  if (steady_began_ != MonoTime{}) figures_.seconds = to_seconds(ended_ - steady_began_);
  if (!base_ || !full_ || !steady_start_ || !end_) return;
  DaemonFigures daemon;
  daemon.base_rss_bytes = base_->rss_bytes;
  daemon.rss_bytes = full_->rss_bytes;
  daemon.rss_per_connection =
      (static_cast<double>(full_->rss_bytes) - static_cast<double>(base_->rss_bytes)) /
      static_cast<double>(std::max<std::uint64_t>(1, figures_.connections));
  daemon.cpu_seconds = end_->cpu_seconds;
  const double used = end_->cpu_seconds - steady_start_->cpu_seconds;
  const std::uint64_t packets =
      totals.progress.keepalives + totals.messages - packets_at_steady_start_;
  daemon.cpu_percent = used / figures_.seconds * 100;
  if (packets > 0) daemon.cpu_us_per_keepalive = used / static_cast<double>(packets) * 1e6;
  figures_.daemon = daemon;
}

void Run::collect_restart(const Fleet::Totals& totals) {
  RestartFigures restart;
  restart.killed = restart_->killed;
  restart.away_seconds = to_seconds(restart_->back - restart_->left);
  restart.clients = static_cast<std::uint64_t>(before_restart_.progress.connected);
  restart.back = totals.back;
  restart.slowest_seconds = std::max(0.0, to_seconds(totals.slowest_back) - restart.away_seconds);
  const Verdict& verdict = figures_.verdict;
  const ProgressFigures& before = before_restart_.progress;
  restart.offline_edges = verdict.offline_edges - static_cast<std::uint64_t>(before.offline_edges);
  restart.online_edges =
      verdict.online_edges - static_cast<std::uint64_t>(before.online + before.offline_edges);
  restart.repeated_edges = verdict.repeated_edges;
  if (follower_) {
    restart.epochs_continued = follower_->stats().continued.value();
    restart.epochs_restarted = follower_->stats().restarted.value();
  }
  figures_.restart = restart;
}

int Run::conclude() {
  const auto failure = control_.failure();
  if (failure) {
    progress_.say("pulsewheel-sim: " + failure->why);
    if (failure->exit_code == kExitUsage || failure->exit_code == kExitUnavailable) {
      return failure->exit_code;
    }
  }
  print_table(std::cout, figures_);
  if (!options_.report.empty()) {
    std::ofstream file(options_.report);
    file << to_json(figures_) << std::flush;
    if (!file) {
      progress_.say("pulsewheel-sim: cannot write " + options_.report);
      return kExitCannotWrite;
    }
  }
  if (failure) return failure->exit_code;
  if (!figures_.clean()) {
    progress_.say("pulsewheel-sim: a promise was broken");
    return kExitPromiseBroken;
  }
  return kExitFine;
}

}  // namespace

int run(const Options& options) {
  return Run(options).execute();
}

}  // namespace pulsewheel::sim

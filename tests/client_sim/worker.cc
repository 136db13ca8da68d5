#include "tests/client_sim/worker.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "tests/client_sim/program.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kEventsPerRound = 512;
/// The shortest sleep while only keepalives are due: what falls into it is sent together, which
/// costs a few milliseconds of punctuality and saves most of the wake-ups.
constexpr Duration kShortestSleep = 4ms;
/// The longest sleep: edges and phases are looked for between two.
constexpr Duration kLongestSleep = 20ms;
/// Between two steps of a ramp with a rate.
constexpr Duration kRampStep = 10ms;

std::uint32_t wish_of(const Options& options) {
  if (!options.timeout) return 0;  // the daemon's choice
  // The daemon makes a timeout of 1.5 times the wished interval.
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(*options.timeout * 2 / 3).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 1, UINT32_MAX));
}

/// How much later a client comes back whose user is just logging out elsewhere.
constexpr Duration kReturnPause = 50ms;

std::uint64_t events_due(double rate, Duration elapsed) noexcept {
  return static_cast<std::uint64_t>(rate * std::chrono::duration<double>(elapsed).count());
}

}  // namespace

Worker::Worker(const Setup& setup, RunControl& control)
    : setup_(setup),
      control_(control),
      judge_(setup.rules, (setup.clients + setup.options->devices - 1) / setup.options->devices,
             setup.options->devices),
      random_(setup.options->seed, setup.first_client),
      clients_(setup.clients),
      wish_ms_(wish_of(*setup.options)) {}

Worker::~Worker() {
  if (epoll_ >= 0) ::close(epoll_);
}

void Worker::run() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) {
    control_.fail(kExitSystem, "epoll_create1: " + std::generic_category().message(errno));
    return;
  }
  began_ = MonoClock::now();
  while (control_.phase() != Phase::kEnd) {
    wait_and_read();
    const MonoTime now = MonoClock::now();
    follow_control(now);
    take_edges();
    follow_phase(now);
    keep_appointments(now);
    tell_findings();
    if (const auto question = desk_.question()) {
      desk_.answer(*question, judge_.record(MonoClock::now()));
    }
  }
  follow_control(MonoClock::now());
  take_edges();
  verdict_ = judge_.finish(control_.phase_began());
  tell_findings();
  publish_verdict();
  for (const Client& client : clients_) {
    const auto& limit = setup_.options->back_within;
    if (limit && client.cut_at != MonoTime{} && control_.phase_began() > client.cut_at + *limit) {
      stats_.back_late.add();
    }
  }
  while (!superseded_.empty())
    end_superseded(superseded_.begin()->first, /*untold=*/false);
  // By RST: a port in TIME_WAIT is one less for the next run's addresses, for a minute.
  for (std::uint32_t i = 0; i < setup_.clients; ++i)
    drop_connection(i, /*abruptly=*/true);
}

void Worker::wait_and_read() {
  std::array<epoll_event, kEventsPerRound> events;
  const int ready = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                 wait_ms(MonoClock::now()));
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const auto index = static_cast<std::uint32_t>(event.data.u64);
    const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32);
    if (clients_[index].generation == generation) {
      on_ready(index, event.events);
    } else {
      on_superseded_ready(event.data.u64);
    }
  }
}

int Worker::wait_ms(MonoTime now) const noexcept {
  if (control_.phase() == Phase::kRamp && next_to_connect_ < setup_.clients &&
      logins_pending_ < setup_.logins_pending_max) {
    if (setup_.ramp == 0) return 0;
    return static_cast<int>(kRampStep / 1ms);
  }
  const Duration due =
      calendar_.next_due() == MonoTime::max() ? kLongestSleep : calendar_.next_due() - now;
  return static_cast<int>(std::clamp(due, kShortestSleep, kLongestSleep) / 1ms);
}

void Worker::follow_phase(MonoTime now) {
  switch (control_.phase()) {
    case Phase::kRamp:
      continue_ramp(now);
      break;
    case Phase::kSteady:
      if (!planned_) plan_habits(control_.phase_began());
      continue_churn(now);
      break;
    case Phase::kSilence:
      if (!silenced_) fall_silent_all();
      break;
    case Phase::kLeave:
      if (!silenced_) leave_all();
      break;
    case Phase::kEnd:
      break;
  }
}

void Worker::follow_control(MonoTime now) {
  for (; stall_steps_done_ < control_.stall_steps(); ++stall_steps_done_) {
    const MonoTime at = control_.stall_step(stall_steps_done_);
    if (stall_steps_done_ % 2 == 0) {
      judge_.daemon_stopped(at);
    } else {
      judge_.daemon_continued(at);
    }
  }
  const std::size_t restarts_before = restarts_done_;
  for (; restarts_done_ < control_.restarts(); ++restarts_done_)
    judge_.daemon_restarted(control_.restart(restarts_done_));
  const bool away = control_.daemon_is_away();
  // A short restart can be over before this worker comes to see it.
  if ((away || restarts_done_ > restarts_before) && !daemon_is_away_) await_restart(now);
  daemon_is_away_ = away;
  const bool doubted = control_.logins_doubted();
  judge_.doubt_logins(doubted);
  if (doubted) {
    for (const auto& [key, old] : superseded_)
      clients_[old.index].takeover_doubted = true;
  }
  if (const std::uint32_t cuts = control_.cuts(); cuts != cuts_done_) {
    cuts_done_ = cuts;
    if (control_.phase() == Phase::kSteady) cut(control_.cut_percent(), now);
  }
  if (control_.phase() == Phase::kSteady) kick_somebody(now);
}

void Worker::take_edges() {
  inbox_.take(edges_);
  if (edges_.empty()) return;
  for (const UserEdge& edge : edges_)
    judge_.edge(edge.user, edge.edge);
  edges_.clear();
  publish_verdict();
}

void Worker::publish_verdict() noexcept {
  const Verdict& found = judge_.verdict();
  const auto online = static_cast<std::int64_t>(found.online_edges);
  const auto offline = static_cast<std::int64_t>(found.offline_edges);
  stats_.online.set(online - offline);
  stats_.offline_edges.set(offline);
  stats_.violations.set(static_cast<std::int64_t>(found.violations()));
}

void Worker::tell_findings() {
  for (const Finding& finding : judge_.take_findings()) {
    UidNames::Buffer uid;
    control_.note_trouble(
        std::string(setup_.names->write(user_of(finding.user * setup_.options->devices), uid)) +
        ": " + finding.text);
  }
}

void Worker::keep_appointments(MonoTime now) {
  while (const auto due = calendar_.take_due(now)) {
    const Client& client = clients_[due->client];
    if (due->action == Action::kTakeoverDeadline) {
      check_takeover(*due, now);
      continue;
    }
    if (due->action != Action::kHabit && due->generation != client.generation) continue;
    if (silenced_) continue;
    switch (due->action) {
      case Action::kConnect:
        if (client.state != State::kAway) break;
        if (sibling_logs_out(due->client)) {
          calendar_.add(now + kReturnPause, *due);
        } else {
          connect(due->client);
        }
        break;
      case Action::kKeepalive:
        if (client.state == State::kLive && now >= client.keepalive_at) {
          send_packet(due->client, /*wants_reply=*/true);
        }
        break;
      case Action::kHabit:
        act_on_habit(due->client, now);
        break;
      case Action::kAnswerDeadline:
        if (client.state != State::kLive && client.state != State::kSilent) {
          on_lost(due->client, ETIMEDOUT);
        }
        break;
      case Action::kCloseDeadline:
        if (client.state == State::kSilent) on_lost(due->client, ETIMEDOUT);
        break;
      case Action::kTakeoverDeadline:
        break;
    }
  }
}

void Worker::continue_ramp(MonoTime now) {
  std::uint32_t allowed = setup_.clients;
  if (setup_.ramp > 0) {
    allowed = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(allowed, events_due(setup_.ramp, now - began_) + 1));
  }
  while (next_to_connect_ < allowed && logins_pending_ < setup_.logins_pending_max) {
    connect(next_to_connect_++);
  }
}

void Worker::schedule_keepalive(std::uint32_t index, MonoTime due) {
  clients_[index].keepalive_at = due;
  calendar_.add(due, {index, clients_[index].generation, Action::kKeepalive});
}

void Worker::come_back_after(std::uint32_t index, MonoTime now, Duration away) {
  calendar_.add(now + away, {index, clients_[index].generation, Action::kConnect});
}

std::uint32_t Worker::user_of(std::uint32_t index) const noexcept {
  return (setup_.first_client + index) / setup_.options->devices;
}

}  // namespace pulsewheel::sim

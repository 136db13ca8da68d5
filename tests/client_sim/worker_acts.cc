// What a Worker's clients do beside keeping alive: habits, churn, cuts, kicks, and leaving.
#include <algorithm>

#include "tests/client_sim/worker.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// How often a client is drawn for an act of churn before the act is left out.
constexpr int kChurnTriesMax = 16;
/// How long after a silent client should have come back the daemon may take to close its
/// connection: mass expiries close theirs at leisure.
constexpr Duration kCloseDeadline = 15s;
/// How long a user who is to be kicked does nothing else: the request, the edge, and a daemon that
/// is frozen meanwhile.
constexpr Duration kKickHold = 20s;

std::uint64_t acts_due(double rate, Duration elapsed) noexcept {
  return static_cast<std::uint64_t>(rate * std::chrono::duration<double>(elapsed).count());
}

Duration part_of(Duration whole, double share) noexcept {
  return std::chrono::round<Duration>(std::chrono::duration<double>(whole) * share);
}

}  // namespace

void Worker::plan_habits(MonoTime began) {
  planned_ = true;
  churned_until_ = began;
  const Options& options = *setup_.options;
  const Duration run =
      options.stop_all_at ? std::min(*options.stop_all_at, options.duration) : options.duration;
  churn_ends_ = began + run;
  for (std::uint32_t i = 0; i < setup_.clients; ++i)
    plan_habit(i, began, run);
}

void Worker::plan_habit(std::uint32_t index, MonoTime began, Duration run) {
  const Options& options = *setup_.options;
  const Habit habit = habit_of(options, user_of(index));
  if (habit == Habit::kSteady) return;
  const Client& client = clients_[index];
  SilenceWindow window{Duration::zero(), habit_window(run, timeout_of(client), setup_.rules)};
  if (habit == Habit::kFallSilent && options.freeze_at) {
    window = silence_before_freeze(*options.freeze_at, timeout_of(client),
                                   std::chrono::milliseconds{client.interval_ms});
  }
  const double moment = moment_of(options.seed, setup_.first_client + index);
  calendar_.add(began + window.begin + part_of(window.length, moment), {index, 0, Action::kHabit});
}

void Worker::act_on_habit(std::uint32_t index, MonoTime now) {
  Client& client = clients_[index];
  // On its way back from something else, or about to be thrown out.
  if (client.state != State::kLive || client.held_until > now) return;
  const Habit habit = habit_of(*setup_.options, user_of(index));
  const Duration away =
      away_for(habit, timeout_of(client), now - client.last_packet, setup_.rules, random_.unit());
  switch (habit) {
    case Habit::kSteady:
      break;
    case Habit::kFallSilent:
      fall_silent(index);
      break;
    case Habit::kDisconnectLong:
      control_.owe_until(client.last_packet + timeout_of(client) + allowance());
      [[fallthrough]];
    case Habit::kDisconnectBriefly:
      disconnect(index, /*abruptly=*/random_.happens(50), now, away);
      break;
    case Habit::kLogOut:
      client.back_at = now + away;
      send_logout(index);
      break;
  }
}

void Worker::continue_churn(MonoTime now) {
  const std::uint64_t due = acts_due(setup_.churn, std::min(now, churn_ends_) - churned_until_);
  if (now < churned_until_ || due == 0) return;
  // Not `now`: what is left of an act counts for the next one.
  churned_until_ += std::chrono::round<Duration>(
      std::chrono::duration<double>(static_cast<double>(due) / setup_.churn));
  for (std::uint64_t n = 0; n < due; ++n) {
    for (int tries = 0; tries < kChurnTriesMax; ++tries) {
      const std::uint32_t index = random_.below(setup_.clients);
      if (!may_churn(index, now)) continue;
      const bool mixed = setup_.options->churn_percent > 0;
      act_on_churn(index, mixed ? churn_act(random_.unit()) : ChurnAct::kReconnect, now);
      break;
    }
  }
}

bool Worker::may_churn(std::uint32_t index, MonoTime now) const noexcept {
  const bool stalled = judge_.is_stalled(now);
  const auto is_settled = [&](const Client& client) {
    if (client.state == State::kLive) return client.calm_until <= now && client.held_until <= now;
    const bool is_gone = client.state == State::kSilent || client.state == State::kAway ||
                         client.state == State::kGone;
    return is_gone && !stalled && client.last_packet + timeout_of(client) + allowance() < now;
  };
  const auto siblings = siblings_of(index);
  return is_calm(index, now) && std::all_of(siblings.begin(), siblings.end(), is_settled);
}

bool Worker::sibling_logs_out(std::uint32_t index) const noexcept {
  const auto siblings = siblings_of(index);
  return std::any_of(siblings.begin(), siblings.end(),
                     [](const Client& client) { return client.state == State::kLoggingOut; });
}

std::span<const Worker::Client> Worker::siblings_of(std::uint32_t index) const noexcept {
  const std::uint32_t devices = setup_.options->devices;
  const std::uint32_t first = index / devices * devices;
  return std::span(clients_).subspan(first, std::min(devices, setup_.clients - first));
}

void Worker::act_on_churn(std::uint32_t index, ChurnAct act, MonoTime now) {
  Client& client = clients_[index];
  stats_.churned[static_cast<std::size_t>(act)].add();
  const Duration since_packet = now - client.last_packet;
  const auto away = [&](Habit habit) {
    return away_for(habit, timeout_of(client), since_packet, setup_.rules, random_.unit());
  };
  switch (act) {
    case ChurnAct::kReconnect:
    case ChurnAct::kReset:
      disconnect(index, /*abruptly=*/act == ChurnAct::kReset || random_.happens(50), now,
                 std::min<Duration>(away(Habit::kDisconnectBriefly), 1s));
      break;
    case ChurnAct::kTakeOver:
      take_over(index);
      break;
    case ChurnAct::kLogOut:
      client.back_at = now;
      send_logout(index);
      break;
    case ChurnAct::kFallSilent:
      fall_silent_for(index, now, away(Habit::kDisconnectLong));
      break;
  }
}

void Worker::fall_silent(std::uint32_t index) {
  Client& client = clients_[index];
  client.state = State::kSilent;
  client.back_at = MonoTime{};
  control_.owe_until(client.last_packet + timeout_of(client) + allowance());
}

void Worker::fall_silent_for(std::uint32_t index, MonoTime now, Duration away) {
  fall_silent(index);
  Client& client = clients_[index];
  client.back_at = now + away;
  calendar_.add(client.back_at + kCloseDeadline,
                {index, client.generation, Action::kCloseDeadline});
}

void Worker::fall_silent_all() {
  silenced_ = true;
  for (std::uint32_t i = 0; i < setup_.clients; ++i) {
    if (clients_[i].state != State::kLive) continue;
    send_packet(i, /*wants_reply=*/false);
    if (clients_[i].state == State::kLive) fall_silent(i);
  }
}

void Worker::leave_all() {
  silenced_ = true;
  for (std::uint32_t i = 0; i < setup_.clients; ++i) {
    const Client& client = clients_[i];
    control_.owe_until(client.last_packet + timeout_of(client) + allowance());
    if (client.state != State::kLive) continue;
    switch (random_.below(3)) {
      case 0:
        send_logout(i);
        break;
      case 1:
        disconnect(i, /*abruptly=*/random_.happens(50));
        break;
      default:
        fall_silent(i);
    }
  }
}

void Worker::cut(double percent, MonoTime now) {
  std::vector<std::uint32_t> cut;
  for (std::uint32_t i = 0; i < setup_.clients; ++i) {
    Client& client = clients_[i];
    if (client.state != State::kLive || client.held_until > now || sibling_logs_out(i)) continue;
    if (!random_.happens(percent)) continue;
    // By RST: with FIN, all the ports would be in TIME_WAIT when they are needed again.
    disconnect(i, /*abruptly=*/true);
    client.cut_at = now;
    cut.push_back(i);
  }
  stats_.cut.add(cut.size());
  for (const std::uint32_t index : cut)
    connect(index);
}

/// Every connection is about to end.
void Worker::await_restart(MonoTime now) {
  for (Client& client : clients_) {
    client.is_doomed = true;
    if (client.state == State::kLive) client.cut_at = now;
  }
}

/// Whether the client's connection ends because the daemon has left.
bool Worker::is_left_alone(const Client& client) const {
  return client.is_doomed || control_.daemon_is_away() || control_.restarts() > restarts_done_;
}

void Worker::kick_somebody(MonoTime now) {
  if (!control_.take_kick_wish()) return;
  const std::uint32_t devices = setup_.options->devices;
  const std::uint32_t user = random_.below((setup_.clients + devices - 1) / devices);
  const std::uint32_t first = user * devices;
  const std::uint32_t end = std::min(first + devices, setup_.clients);
  for (std::uint32_t i = first; i < end; ++i) {
    if (!is_calm(i, now)) return;  // a wish that is lost: another comes
  }
  for (std::uint32_t i = first; i < end; ++i)
    clients_[i].held_until = now + kKickHold;
  judge_.kick_sent(user);
  UidNames::Buffer uid;
  control_.offer_kick(setup_.names->write(user_of(first), uid));
}

void Worker::disconnect(std::uint32_t index, bool abruptly) {
  Stamp stamp;
  stamp.before = MonoClock::now();
  drop_connection(index, abruptly);
  stamp.after = MonoClock::now();
  judge_.closed(index, stamp);
  clients_[index].state = State::kAway;
}

void Worker::disconnect(std::uint32_t index, bool abruptly, MonoTime now, Duration away) {
  disconnect(index, abruptly);
  come_back_after(index, now, away);
}

void Worker::take_over(std::uint32_t index) {
  Client& client = clients_[index];
  Superseded old{client.descriptor, index, /*told=*/false, {}};
  if (const auto start = partial_.find(index); start != partial_.end()) {
    old.input = std::move(start->second);
    partial_.erase(start);
  }
  superseded_.emplace(key_of(client.generation, index), std::move(old));
  client.descriptor = -1;
  client.superseded_generation = client.generation;
  client.superseded_until = client.last_packet + timeout_of(client);
  client.takeover_doubted = false;
  client.taking_over = true;
  connect(index);
}

}  // namespace pulsewheel::sim

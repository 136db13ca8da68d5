// The rounds of a virtual shard's loop, its mail, and what comes from outside. Its sessions stand
// in virtual_shard_sessions.cc.
#include "tests/sim/virtual_shard.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "daemon/base/check.h"

namespace pulsewheel::nodesim {
namespace {

constexpr std::size_t kAcceptQueueMax = 4'096;
/// As in Shard::unread_max().
constexpr std::size_t kHandlersMargin = 1'024;

/// Rounds for each of which Profile::stalls_inside_round is drawn once.
constexpr std::uint64_t kRoundsPerInnerStall = 2'000;

PresenceRegistry::Options registry_options(const Profile& p, ShardIndex index,
                                           std::uint32_t epoch) {
  return {.shard = index,
          .node_epoch = epoch,
          .linger = p.linger,
          .sessions_per_user_max = p.sessions_per_user_max,
          .offline_retention = p.retention,
          .offline_users_max = p.offline_users_max,
          .hash_seed = kHashSeed,
          .track_deadlines = p.track_deadlines};
}

}  // namespace

VirtualShard::VirtualShard(World& world, Network& network, MailCarrier& carrier, ShardIndex index,
                           std::uint32_t epoch, const Timeouts& timeouts)
    : world_(world),
      network_(network),
      carrier_(carrier),
      index_(index),
      epoch_(epoch),
      clock_(EventQueue::kStart, world.profile.tick),
      timeouts_(timeouts),
      now_(world.now()),
      outboxes_(world.profile.shards),
      held_back_(world.profile.shards),
      core_({.index = index,
             .shards = world.profile.shards,
             .clock = clock_,
             .registry = registry_options(world.profile, index, epoch),
             .expiry_budget = world.profile.expiry_budget},
            world.now(), *this, *this) {}

// --- What comes from outside --------------------------------------------------------------------

void VirtualShard::on_connect(Connection& connection) {
  connection.server = Connection::Server::kInAcceptQueue;
  accept_queue_.push_back(connection.ref());
  if (accept_ready_) return;
  accept_ready_ = true;
  add_handler({.kind = Handler::Kind::kAccept});
}

void VirtualShard::on_readable(const Connection& connection) {
  want_read(*slab_[connection.session]);
}

void VirtualShard::on_mail(MailBatch batch) {
  mailbox_.push_back(std::move(batch));
  add_handler({.kind = Handler::Kind::kMail});
}

void VirtualShard::post_kick(std::uint32_t user) {
  add_handler({.kind = Handler::Kind::kKick, .index = user});
}

void VirtualShard::post_hold_or_release(std::uint32_t user) {
  add_handler({.kind = Handler::Kind::kHold, .index = user});
}

void VirtualShard::post_reload(const Timeouts& timeouts) {
  reloaded_ = timeouts;
  add_handler({.kind = Handler::Kind::kReload});
}

// --- The loop -----------------------------------------------------------------------------------

void VirtualShard::add_handler(Handler handler) {
  ready_.push_back(handler);
  want_round();
}

void VirtualShard::want_round() {
  if (round_pending_ || in_round_) return;
  round_pending_ = true;
  push_event(EventKind::kRound,
             std::max(world_.now(), now_) + world_.random.in(world_.profile.round_latency));
}

void VirtualShard::push_event(EventKind kind, MonoTime at, std::uint32_t token) {
  world_.at(at, {.index = epoch_, .generation = token, .kind = kind, .shard = index_});
}

void VirtualShard::on_wake(std::uint32_t token) {
  if (token != wake_token_) return;
  wakeup_.reset();
  want_round();
}

void VirtualShard::on_round() {
  if (world_.now() < stalled_until_) return push_event(EventKind::kRound, stalled_until_);
  const Profile& p = world_.profile;
  ++world_.tally.rounds;
  round_pending_ = false;
  in_round_ = true;
  began_ = now_ = world_.now();

  if (!core_.has_work()) run_handler();
  const std::uint64_t stalls_before = world_.tally.stalls;
  core_.begin_round(world_.sabotage == Sabotage::kExpiresAhead ? began_ + milliseconds{5} : began_);
  if (world_.sabotage == Sabotage::kFenceWithoutReading) lie_about_reading();
  blind_ = world_.sabotage == Sabotage::kBlindStall && world_.tally.stalls != stalls_before;
  if (blind_) lie_about_reading();
  if (core_.accepting()) core_.on_accepts(p.accept_burst, accept_burst());
  poll_handlers();

  if (p.stall_every > Duration{0} && world_.random.below(kRoundsPerInnerStall) == 0 &&
      world_.random.chance(p.stalls_inside_round)) {
    const MonoTime until = now_ + world_.random.in(p.stall);
    world_.model.on_stall(until);
    return push_event(EventKind::kRestOfRound, until);
  }
  on_rest_of_round();
}

/// As if there had been nothing to read.
void VirtualShard::lie_about_reading() {
  if (!core_.accepting()) return;
  core_.on_accepts(kAcceptQueueMax, true);
  core_.on_poll(0, true);
}

void VirtualShard::on_rest_of_round() {
  now_ = std::max(now_, world_.now());
  core_.expire();
  core_.finish_due(now_);
  tell_edges();
  deliver_own_mail();
  if (!touched_.empty()) core_.note_touched(began_);
  tell_deadlines();
  flush_mail();
  in_round_ = false;
  sleep_until(core_.end_round());
}

bool VirtualShard::run_handler() {
  if (ready_.empty()) return false;
  const Handler handler = ready_.front();
  ready_.pop_front();
  now_ += world_.random.in(world_.profile.handler_cost);
  switch (handler.kind) {
    case Handler::Kind::kAccept:
      accept_ready_ = !accept_burst();
      if (accept_ready_) ready_.push_back(handler);
      break;
    case Handler::Kind::kRead:
      if (VirtualSession* session = find(handler.index, handler.generation)) read(*session);
      break;
    case Handler::Kind::kMail: {
      MailBatch batch = std::move(mailbox_.front());
      mailbox_.pop_front();
      deliver(std::move(batch));
      break;
    }
    case Handler::Kind::kKick:
      ++world_.tally.kicks;
      world_.model.on_kick(handler.index, core_.kick(uid_of(handler.index), now_), now_);
      tell_edges();
      world_.model.after_decision(now_);
      break;
    case Handler::Kind::kHold:
      hold_or_release(handler.index);
      break;
    case Handler::Kind::kReload:
      timeouts_ = reloaded_;
      next_renegotiated_ = 0;
      renegotiate_some();
      break;
  }
  return true;
}

void VirtualShard::poll_handlers() {
  const std::size_t max = world_.profile.handlers_max;
  std::size_t handlers = 0;
  while (handlers < max && run_handler())
    ++handlers;
  core_.on_poll(handlers, handlers < max);
}

bool VirtualShard::accept_burst() {
  for (std::size_t i = 0; i < world_.profile.accept_burst; ++i) {
    if (accept_queue_.empty()) return true;
    Connection* const connection = network_.find(accept_queue_.front());
    accept_queue_.pop_front();
    PULSEWHEEL_CHECK(connection != nullptr);
    accept(*connection);
  }
  return false;
}

void VirtualShard::sleep_until(const ShardCore::Next& next) {
  const bool holding = std::any_of(held_back_.begin(), held_back_.end(),
                                   [](const MailBatch& held) { return !held.empty(); });
  if (next.at_once || !ready_.empty() || holding) return want_round();
  if (next.wakeup == wakeup_) return;
  wakeup_ = next.wakeup;
  ++wake_token_;
  if (!wakeup_) return;
  const Duration late =
      world_.sabotage == Sabotage::kLateWakeup ? world_.profile.tick : Duration{0};
  push_event(EventKind::kWake, clock_.begin_of(*wakeup_) + late, wake_token_);
}

ShardHost::UnreadMax VirtualShard::unread_max() const noexcept {
  return {.accepts = kAcceptQueueMax, .handlers = 2 * sessions() + kHandlersMargin};
}

void VirtualShard::on_stall(Duration /*late*/) {
  ++world_.tally.stalls;
}

void VirtualShard::on_fence() {
  ++world_.tally.fences;
  world_.trace.note(now_, "everybody is asked to read by shard", Trace::kNobody, Trace::kNobody,
                    index_);
}

// --- Mail and edges -----------------------------------------------------------------------------

/// One at a time, so that the model hears of each decision in its place.
void VirtualShard::deliver(MailBatch batch) {
  for (Mail& mail : batch) {
    if (const auto* end = std::get_if<EndMail>(&mail)) {
      world_.model.on_end_delivered(end->end, now_);
    } else if (const auto* touch = std::get_if<TouchMail>(&mail)) {
      for (const SessionTouch& one : touch->touches)
        world_.model.on_touch_delivered(one, now_);
    }
    one_.clear();
    one_.push_back(std::move(mail));
    core_.deliver(one_, now_);
    collect_mail();
    tell_edges();
    world_.model.after_decision(now_);
  }
}

/// Takes what the core has written, and tells the model of the decisions in it.
void VirtualShard::collect_mail() {
  for (ShardIndex to = 0; to < outboxes_.size(); ++to) {
    for (Mail& mail : core_.take_mail(to)) {
      if (const auto* answer = std::get_if<LoginAnswerMail>(&mail)) {
        const LoginDecision& decision = answer->decision;
        world_.model.on_login_decided(answer->session, decision, now_);
        world_.tally.takeovers += decision.taken_over ? 1 : 0;
        ++(decision.verdict == LoginVerdict::kAccepted ? world_.tally.logins
                                                       : world_.tally.refused);
      }
      outboxes_[to].push_back(std::move(mail));
    }
  }
}

/// What ShardCore::deliver_own_mail() does, one mail at a time.
void VirtualShard::deliver_own_mail() {
  collect_mail();
  while (!outboxes_[index_].empty())
    deliver(std::exchange(outboxes_[index_], {}));
}

void VirtualShard::tell_edges() {
  const EdgeBatch& edges = core_.edges();
  if (edges.empty()) return;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge edge = edges.at(i);
    world_.model.on_edge(edge);
    if (edge.kind == EdgeKind::kOnline) {
      ++world_.tally.online;
    } else {
      ++world_.tally.offline[static_cast<std::size_t>(edge.reason)];
    }
  }
  static_cast<void>(core_.take_edges());
}

void VirtualShard::tell_deadlines() {
  const DeadlineBatch batch = core_.take_deadlines();
  for (std::size_t i = 0; i < batch.size(); ++i)
    world_.model.on_deadline_told(batch.at(i));
  world_.tally.deadlines += batch.size();
}

void VirtualShard::flush_mail() {
  collect_mail();
  for (ShardIndex to = 0; to < outboxes_.size(); ++to) {
    if (to == index_) continue;
    MailBatch batch = std::exchange(outboxes_[to], {});
    if (world_.sabotage == Sabotage::kLoginsOvertaken) batch = hold_logins_back(to, batch);
    if (batch.empty()) continue;
    now_ += world_.random.in(world_.profile.mail_delay);
    carrier_.post(index_, to, std::move(batch), now_);
  }
}

/// Logins leave some rounds later than everything else.
MailBatch VirtualShard::hold_logins_back(ShardIndex to, MailBatch& batch) {
  constexpr int kRoundsHeld = 1'000;
  MailBatch leaving;
  if (!held_back_[to].empty() && --rounds_to_hold_ <= 0) leaving.swap(held_back_[to]);
  for (Mail& mail : batch) {
    if (!std::holds_alternative<LoginMail>(mail)) {
      leaving.push_back(std::move(mail));
      continue;
    }
    if (held_back_[to].empty()) rounds_to_hold_ = kRoundsHeld;
    held_back_[to].push_back(std::move(mail));
  }
  return leaving;
}

// --- A clean stop -------------------------------------------------------------------------------

void VirtualShard::stop_accepting() {
  for (const ConnectionRef ref : accept_queue_) {
    Connection& connection = *network_.find(ref);
    network_.tell(connection, Word::kClosed);
    network_.server_leaves(connection);
  }
  accept_queue_.clear();
}

void VirtualShard::send_away(std::size_t count) {
  now_ = std::max(now_, world_.now());
  for (; count > 0 && next_sent_away_ < slab_.size(); ++next_sent_away_) {
    if (!slab_[next_sent_away_]) continue;
    end_with_farewell(*slab_[next_sent_away_], CloseReason::kDrained);
    --count;
  }
  want_round();
}

void VirtualShard::shut_users_down() {
  bool done = false;
  while (!done) {
    done = core_.shut_users_down(now_);
    tell_edges();
  }
}

}  // namespace pulsewheel::nodesim

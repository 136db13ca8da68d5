#include "tests/sim/virtual_shard.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "daemon/base/check.h"

namespace pulsewheel::nodesim {
namespace {

constexpr Duration kLoginTimeout = seconds{10};
constexpr Duration kFinishTimeout = seconds{2};
constexpr std::size_t kAcceptQueueMax = 4'096;
/// What one read of the session's buffer takes, in small frames.
constexpr std::size_t kPacketsPerRead = 16;
constexpr std::size_t kClosesPerStep = 128;
constexpr Duration kCloseStep = milliseconds{20};
constexpr int kCloseDelaysMax = 25;
constexpr std::size_t kRenegotiatedPerStep = 64;
constexpr Duration kRenegotiationStep = milliseconds{10};
/// As in Shard::unread_max().
constexpr std::size_t kHandlersMargin = 1'024;

/// Rounds for each of which Profile::stalls_inside_round is drawn once.
constexpr std::uint64_t kRoundsPerInnerStall = 2'000;

std::string device_label(std::uint8_t device) {
  return device == 0 ? std::string() : "d" + std::to_string(device);
}

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

// --- Sessions -----------------------------------------------------------------------------------

VirtualSession* VirtualShard::find(std::uint32_t index, std::uint32_t generation) noexcept {
  if (index >= slab_.size() || generations_[index] != generation) return nullptr;
  return slab_[index].get();
}

void VirtualShard::accept(Connection& connection) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slab_.size()));
    slab_.emplace_back();
    generations_.push_back(0);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  const SessionRef ref{slot, ++generations_[slot], index_};
  slab_[slot] = std::make_unique<VirtualSession>(connection.ref(), ref, now_, kLoginTimeout);
  connection.server = Connection::Server::kAccepted;
  connection.session = slot;
  if (world_.profile.track_deadlines) touched_.make_room(slab_.size());
  file_deadline(*slab_[slot]);
  want_read(*slab_[slot]);
}

void VirtualShard::want_read(VirtualSession& session) {
  if (session.ready || session.fsm.state() == SessionState::kLoginPending) return;
  if (network_.find(session.connection)->inbox.empty()) return;
  session.ready = true;
  add_handler({.kind = Handler::Kind::kRead,
               .index = session.ref.index,
               .generation = session.ref.generation});
}

void VirtualShard::read(VirtualSession& session) {
  session.ready = false;
  Inbox& inbox = network_.find(session.connection)->inbox;
  for (std::size_t i = 0; i < kPacketsPerRead && !inbox.empty(); ++i) {
    const Packet packet = inbox.front().packet;
    if (packet == Packet::kFin || packet == Packet::kReset) {
      if (i > 0) break;  // the next read finds it
      end(session, packet == Packet::kFin ? CloseReason::kPeerClosed : CloseReason::kPeerReset);
      return release(session);
    }
    inbox.pop();
    ++world_.tally.packets_read;
    if (session.closed()) continue;
    if (session.takes_frames()) {
      handle(session, packet);
    } else {
      session.behind.push_back(packet);
    }
  }
  want_read(session);
}

void VirtualShard::handle(VirtualSession& session, Packet packet) {
  if (packet == Packet::kLogin) return handle_login(session);
  world_.model.on_packet_read(*network_.find(session.connection)->witness, now_);
  if (packet == Packet::kLogout) {
    PULSEWHEEL_CHECK(session.fsm.on_logout(now_) == SessionStep::kLogout);
    return end_with_farewell(session, CloseReason::kLogout);
  }
  constexpr std::uint64_t kOneForgottenIn = 100;
  if (world_.sabotage == Sabotage::kForgottenKeepalive &&
      world_.random.below(kOneForgottenIn) == 0) {
    return;
  }
  const SessionStep step =
      packet == Packet::kMessage ? session.fsm.on_message(now_) : session.fsm.on_keepalive(now_);
  PULSEWHEEL_CHECK(step == SessionStep::kAlive);
  TimeWheel::postpone(session, clock_.ceil(session.fsm.deadline()));
  if (world_.sabotage != Sabotage::kForgottenTouch) touched_.add(session.ref.index);
}

void VirtualShard::handle_login(VirtualSession& session) {
  const Connection& connection = *network_.find(session.connection);
  world_.model.on_login_read(*connection.witness, session.ref, timeouts_, now_);
  PULSEWHEEL_CHECK(session.fsm.on_login(connection.wish_ms) == SessionStep::kSubmitLogin);
  const auto timeout = negotiate(policy(), connection.wish_ms, world_.random.bits());
  const std::string uid = uid_of(connection.witness->user);
  const std::string device = device_label(connection.witness->device);
  const LoginSubmission login{{uid, device, session.ref, now_}, {now_, timeout, 1}};
  core_.submit_login(login);
  if (world_.sabotage == Sabotage::kDoubleLogin) core_.submit_login(login);
}

void VirtualShard::file_deadline(VirtualSession& session) {
  core_.wheel().arm(session, clock_.ceil(session.fsm.deadline()));
}

TimeoutPolicy VirtualShard::policy() const noexcept {
  return {timeouts_.standard, timeouts_.min, timeouts_.max};
}

void VirtualShard::apply_timeouts(VirtualSession& session) {
  if (session.fsm.state() != SessionState::kActive) return;
  Connection& connection = *network_.find(session.connection);
  const bool expected = world_.model.on_timeouts(*connection.witness, timeouts_, now_);
  const auto changed = session.fsm.on_policy_changed(policy(), world_.random.bits(), now_);
  PULSEWHEEL_CHECK(changed.has_value() == expected);
  if (!changed) return;
  ++world_.tally.settings;
  file_deadline(session);
  touched_.add(session.ref.index);
  connection.timeout = session.fsm.timeout();
  network_.tell(connection, Word::kSettings);
}

/// As in Shard::renegotiate_some(), in smaller portions.
void VirtualShard::renegotiate_some() {
  now_ = std::max(now_, world_.now());
  for (std::size_t left = kRenegotiatedPerStep; left > 0 && next_renegotiated_ < slab_.size();) {
    VirtualSession* const session = slab_[next_renegotiated_++].get();
    if (session == nullptr) continue;
    apply_timeouts(*session);
    --left;
  }
  if (next_renegotiated_ == slab_.size()) return want_round();
  push_event(EventKind::kRenegotiate, world_.now() + kRenegotiationStep);
}

void VirtualShard::end(VirtualSession& session, CloseReason reason) {
  if (session.closed()) return;
  const Connection& connection = *network_.find(session.connection);
  if (session.fsm.state() == SessionState::kLoginPending) ++world_.tally.closed_while_decided;
  session.fsm.close();
  world_.model.on_session_ended(*connection.witness, reason, began_, connection.inbox.oldest_data(),
                                now_);
  if (session.user.generation == 0) return;
  core_.session_ended({session.user, session.ref, reason, session.fsm.last_packet(),
                       session.fsm.unheld_deadline(), session.held_since});
}

void VirtualShard::end_with_farewell(VirtualSession& session, CloseReason reason) {
  if (session.closed()) return;
  end(session, reason);
  network_.tell(*network_.find(session.connection), Word::kFarewell);
  session.finishing = true;
  core_.wheel().arm(session, clock_.ceil(now_ + kFinishTimeout));
  want_read(session);
}

void VirtualShard::release(VirtualSession& session) {
  Connection& connection = *network_.find(session.connection);
  network_.tell(connection, Word::kClosed);
  network_.server_leaves(connection);
  const std::uint32_t slot = session.ref.index;
  slab_[slot].reset();
  free_.push_back(slot);
}

void VirtualShard::hold_or_release(std::uint32_t user) {
  const std::string uid = uid_of(user);
  if (core_.find_user(uid, now_).hold) {
    world_.model.on_release(user, core_.release(uid, now_), now_);
    return;
  }
  const MonoTime until = now_ + world_.random.in(world_.profile.hold);
  const auto verdict = core_.hold(uid, until, now_);
  world_.model.on_hold(user, verdict, until, now_);
  if (verdict == PresenceRegistry::HoldVerdict::kHeld) ++world_.tally.holds;
}

void VirtualShard::hold(VirtualSession& session, MonoTime since) {
  if (session.fsm.state() != SessionState::kActive) return;
  session.held_since = since;
  session.fsm.hold();
  world_.model.on_session_held(*network_.find(session.connection)->witness, since, now_);
}

void VirtualShard::let_go_on(VirtualSession& session) {
  if (!session.held_since || session.closed()) return;
  const bool forgets = world_.sabotage == Sabotage::kForgottenRest;
  session.fsm.release(forgets ? now_ : *session.held_since, now_);
  session.held_since.reset();
  file_deadline(session);
  touched_.add(session.ref.index);
  world_.model.on_session_released(*network_.find(session.connection)->witness, now_);
}

void VirtualShard::close_some() {
  if (core_.has_work() && ++close_delays_ < kCloseDelaysMax) {
    return push_event(EventKind::kCloseSome, world_.now() + kCloseStep);
  }
  close_delays_ = 0;
  for (std::size_t i = 0; i < kClosesPerStep && !closing_.empty(); ++i) {
    const SessionRef ref = closing_.back();
    closing_.pop_back();
    if (VirtualSession* session = find(ref.index, ref.generation)) release(*session);
  }
  if (!closing_.empty()) push_event(EventKind::kCloseSome, world_.now() + kCloseStep);
}

std::size_t VirtualShard::active_sessions() const {
  return static_cast<std::size_t>(std::count_if(slab_.begin(), slab_.end(), [](const auto& s) {
    return s && s->fsm.state() == SessionState::kActive;
  }));
}

// --- ShardHost ----------------------------------------------------------------------------------

MonoTime VirtualShard::deadline_of(const TimerHook& hook) const noexcept {
  return static_cast<const VirtualSession&>(hook).fsm.deadline();
}

void VirtualShard::on_session_due(TimerHook& hook, MonoTime now) {
  auto& session = static_cast<VirtualSession&>(hook);
  if (session.finishing) return release(session);
  if (session.fsm.deadline() > now) return file_deadline(session);
  if (session.fsm.state() != SessionState::kActive) {
    return end_with_farewell(session, CloseReason::kLoginTimeout);
  }
  const bool unread = network_.find(session.connection)->inbox.oldest_data().has_value();
  if (unread && !blind_ && world_.sabotage != Sabotage::kBlindDeadline) {
    ++world_.tally.reprieves;
    core_.wheel().arm(session, clock_.floor(now) + 1);
    return;
  }
  end(session, CloseReason::kTimeout);
  closing_.push_back(session.ref);
  if (closing_.size() == 1) push_event(EventKind::kCloseSome, now_ + kCloseStep);
}

bool VirtualShard::on_login_answer(const LoginAnswerMail& mail) {
  VirtualSession* const session = find(mail.session.index, mail.session.generation);
  if (session == nullptr || session->closed()) {
    return world_.sabotage == Sabotage::kForgottenEnd;
  }
  if (mail.decision.verdict != LoginVerdict::kAccepted) {
    end_with_farewell(*session, CloseReason::kLoginRefused);
    return true;
  }
  session->user = mail.decision.user;
  session->fsm.on_login_accepted(mail.terms.login_at, mail.terms.timeout);
  file_deadline(*session);
  Connection& connection = *network_.find(session->connection);
  world_.model.on_login_answered(*connection.witness);
  if (mail.decision.held_since) hold(*session, *mail.decision.held_since);
  connection.timeout = session->fsm.timeout();
  network_.tell(connection, Word::kWelcome);
  apply_timeouts(*session);  // what changed while the home shard decided
  for (const Packet packet : std::exchange(session->behind, {})) {
    if (session->takes_frames()) handle(*session, packet);
  }
  want_read(*session);
  return true;
}

void VirtualShard::on_dismissed(const DismissMail& mail) {
  VirtualSession* const session = find(mail.session.index, mail.session.generation);
  if (session == nullptr || world_.sabotage == Sabotage::kLostDismissal) return;
  ++world_.tally.dismissals;
  end_with_farewell(*session, mail.reason);
}

void VirtualShard::on_hold(const HoldMail& mail) {
  VirtualSession* const session = find(mail.session.index, mail.session.generation);
  if (session == nullptr) return;
  if (mail.since) {
    hold(*session, *mail.since);
  } else {
    let_go_on(*session);
  }
}

void VirtualShard::on_hold_over(std::string_view uid, MonoTime now) {
  ++world_.tally.holds_over;
  world_.model.on_hold_over(user_of(uid), now);
}

ShardHost::UnreadMax VirtualShard::unread_max() const noexcept {
  return {.accepts = kAcceptQueueMax, .handlers = 2 * sessions() + kHandlersMargin};
}

void VirtualShard::on_stall(Duration /*late*/) {
  ++world_.tally.stalls;
}

void VirtualShard::on_touches_due() {
  touched_.drain([this](std::uint32_t slot) {
    const VirtualSession* const session = slab_[slot].get();
    if (session == nullptr || session->fsm.state() != SessionState::kActive) return;
    core_.touch(
        {session->user, session->ref, session->fsm.last_packet(), session->fsm.unheld_deadline()});
  });
}

void VirtualShard::on_fence() {
  ++world_.tally.fences;
  world_.trace.note(now_, "everybody is asked to read by shard", Trace::kNobody, Trace::kNobody,
                    index_);
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

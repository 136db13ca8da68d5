// What daemon/net/session.cc and daemon/server/shard_sessions.cc do, on virtual sockets.
#include "tests/sim/virtual_shard.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/base/check.h"

namespace pulsewheel::nodesim {
namespace {

constexpr Duration kLoginTimeout = seconds{10};
constexpr Duration kFinishTimeout = seconds{2};
/// What one read of the session's buffer takes, in small frames.
constexpr std::size_t kPacketsPerRead = 16;
constexpr std::size_t kClosesPerStep = 128;
constexpr Duration kCloseStep = milliseconds{20};
constexpr int kCloseDelaysMax = 25;
constexpr std::size_t kRenegotiatedPerStep = 64;
constexpr Duration kRenegotiationStep = milliseconds{10};

std::string device_label(std::uint8_t device) {
  return device == 0 ? std::string() : "d" + std::to_string(device);
}

}  // namespace

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

std::size_t VirtualShard::active_sessions() const {
  return static_cast<std::size_t>(std::count_if(slab_.begin(), slab_.end(), [](const auto& s) {
    return s && s->fsm.state() == SessionState::kActive;
  }));
}

// --- Timeouts and holds -------------------------------------------------------------------------

TimeoutPolicy VirtualShard::policy() const noexcept {
  return {timeouts_.standard, timeouts_.min, timeouts_.max};
}

void VirtualShard::apply_timeouts(VirtualSession& session) {
  if (session.fsm.state() != SessionState::kActive) return;
  Connection& connection = *network_.find(session.connection);
  const bool expected = world_.model.on_timeouts(*connection.witness, timeouts_, now_);
  const bool runs_on = world_.sabotage == Sabotage::kTimeRunsWhileHeld;
  const MonoTime own_now = runs_on ? now_ : session.held_since.value_or(now_);
  const auto changed = session.fsm.on_policy_changed(policy(), world_.random.bits(), own_now);
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

// --- Ends ---------------------------------------------------------------------------------------

void VirtualShard::end(VirtualSession& session, CloseReason reason) {
  if (session.closed()) return;
  const Connection& connection = *network_.find(session.connection);
  if (session.fsm.state() == SessionState::kLoginPending) ++world_.tally.closed_while_decided;
  session.fsm.close();
  world_.model.on_session_ended(*connection.witness, reason, began_, connection.inbox.oldest_data(),
                                now_);
  if (session.user.generation == 0) return;
  core_.session_ended({session.user, session.ref, reason, session.fsm.last_packet(),
                       session.fsm.unheld_deadline(), session.held_since, session.fsm.timeout()});
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

void VirtualShard::on_touches_due() {
  touched_.drain([this](std::uint32_t slot) {
    const VirtualSession* const session = slab_[slot].get();
    if (session == nullptr || session->fsm.state() != SessionState::kActive) return;
    core_.touch(
        {session->user, session->ref, session->fsm.last_packet(), session->fsm.unheld_deadline()});
  });
}

}  // namespace pulsewheel::nodesim

// A shard's sessions: where they come from, what they and their home shards tell each other, and
// how their sockets are closed.
#include "daemon/server/shard.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/memory_reserve.h"

namespace pulsewheel {

// --- Listening and accepting --------------------------------------------------------------------

std::uint16_t Shard::bind(const boost::asio::ip::tcp::endpoint& endpoint) {
  AcceptSink& sink = *this;
  auto acceptor = std::make_unique<Acceptor>(io_, options_.accept_burst, sink, counters_.accepts);
  acceptor->bind(endpoint, options_.tcp);
  acceptors_.push_back(std::move(acceptor));
  return acceptors_.back()->port();
}

void Shard::adopt(int listening_descriptor, bool shared) {
  AcceptSink& sink = *this;
  auto acceptor = std::make_unique<Acceptor>(io_, options_.accept_burst, sink, counters_.accepts);
  acceptor->adopt(listening_descriptor, shared, options_.tcp);
  acceptors_.push_back(std::move(acceptor));
}

void Shard::listen(int backlog) {
  for (auto& acceptor : acceptors_)
    acceptor->listen(backlog);
  for (auto& acceptor : acceptors_)
    acceptor->start();
}

void Shard::on_accepted(ShardSocket&& socket) {
  if (!memory_reserve::retake()) throw std::bad_alloc();  // accepting pauses
  const bool busy = slab_.size() >= options_.connections_max;
  if (busy) {
    counters_.refused_busy.add();
    log::warn("busy", "shard {} is full: {} connections", options_.index, slab_.size());
    if (slab_.size() >= options_.connections_max + kBusySessionsMax) return;  // closes the socket
  }
  Session& session = slab_.create(context_, std::move(socket), context_.stamp());
  if (options_.registry.track_deadlines) context_.touched.make_room(slab_.slots());
  session.start();
  if (slab_.size() == 1) observer_.on_first_session(options_.index);
  if (busy) session.go_away(proto::GoawayReason::kBusy, CloseReason::kBusy);
  if (!statistics_timer_.armed()) arm_statistics();
}

bool Shard::has_room() const noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(counters_.sessions.sessions.value(),
                                                           0)) < options_.connections_max;
}

/// A shared queue goes to whoever is first, so one shard may be full long before the node is.
bool Shard::leaves_to_others() noexcept {
  return !has_room() && std::any_of(peers_.begin(), peers_.end(),
                                    [](const Shard* peer) { return peer->has_room(); });
}

void Shard::on_accept_paused(int error, Duration pause) noexcept {
  log::error("accept", "shard {} cannot accept: {}; next try in {} ms", options_.index,
             strerrordesc_np(error),  // without an allocation: it may be memory that is short
             std::chrono::duration_cast<std::chrono::milliseconds>(pause).count());
}

void Shard::arm_statistics() {
  if (slab_.size() == 0 || options_.statistics_interval <= Duration{0}) return;
  core_.timers().arm_every(statistics_timer_, options_.statistics_interval, MonoClock::now());
}

// --- News ---------------------------------------------------------------------------------------

/// While memory is short nobody new gets in, so that those who are in can be served to their end.
void Shard::submit_login(const LoginSubmission& login) {
  if (!memory_reserve::retake()) throw std::bad_alloc();
  core_.submit_login(login);
}

/// The answer to a LOGOUT leaves before the round is over, and the LOGIN behind it may come through
/// another shard, but must not come home first: it would take over a session that has logged out,
/// and both edges would be missing. Without memory for that the end, which is taken by then, leaves
/// with the round.
void Shard::session_ended(const SessionEnd& end) {
  core_.session_ended(end);
  if (end.reason != CloseReason::kLogout) return;
  try {
    flush_mail();
  } catch (const std::bad_alloc&) {  // nothing is lost
  }
}

bool Shard::on_login_answer(const LoginAnswerMail& mail) {
  Session* const session = slab_.find(mail.session);
  if (session == nullptr || session->closed()) return false;
  session->on_login_decided(mail.decision, mail.terms);
  return true;
}

void Shard::on_dismissed(const DismissMail& mail) {
  Session* const session = slab_.find(mail.session);
  if (session == nullptr) return;
  session->go_away(mail.reason == CloseReason::kTakenOver ? proto::GoawayReason::kTakenOver
                                                          : proto::GoawayReason::kKicked,
                   mail.reason);
}

void Shard::on_hold(const HoldMail& mail) {
  Session* const session = slab_.find(mail.session);
  if (session == nullptr) return;
  if (mail.since) {
    session->hold(*mail.since);
  } else {
    session->release(MonoClock::now());
  }
}

void Shard::on_touches_due() {
  context_.touched.drain([this](std::uint32_t slot) {
    const Session* const session = slab_.at(slot);
    const auto touch = session != nullptr ? session->touch() : std::nullopt;
    if (touch) core_.touch(*touch);
  });
}

void Shard::read_sessions(std::span<LiveSession> sessions) {
  for (LiveSession& wanted : sessions) {
    if (wanted.session.shard != options_.index) continue;
    const Session* session = slab_.find(wanted.session);
    if (session == nullptr) continue;
    wanted.last_packet = session->fsm().last_packet();
    wanted.timeout = session->fsm().timeout();
    wanted.deadline = session->fsm().unheld_deadline();
    wanted.held = session->fsm().held();
    wanted.found = true;
  }
}

Shard::SessionPlace Shard::locate_session(SessionRef session) {
  const Session* const found = slab_.find(session);
  if (found == nullptr) return {};
  return {.address = found->peer_address(), .place = found->wheel_place()};
}

// --- Ends ---------------------------------------------------------------------------------------

MonoTime Shard::deadline_of(const TimerHook& hook) const noexcept {
  return Session::of(hook).fsm().deadline();
}

void Shard::on_session_due(TimerHook& hook, MonoTime now) {
  const SessionPtr session(Session::of(hook));  // it may close itself
  session->on_deadline(now);
}

/// Decisions come first: a close costs ten times as much.
void Shard::close_later(Session& session) {
  if (closing_.empty()) do_wait_close();
  closing_.emplace_back(session);
}

void Shard::do_wait_close() {
  close_timer_.expires_after(kCloseStep);
  close_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) close_some();
  });
}

void Shard::close_some() {
  if (core_.has_work() && ++close_delays_ < kCloseDelaysMax) return do_wait_close();
  close_delays_ = 0;
  for (std::size_t i = 0; i < kClosesPerStep && !closing_.empty(); ++i) {
    closing_.back()->dismiss();
    closing_.pop_back();
  }
  if (!closing_.empty()) return do_wait_close();
  closing_.shrink_to_fit();
}

void Shard::report_refusal(const Session& session, proto::ErrorCode code) noexcept {
  if (!log::would_log(log::Level::kInfo)) return;
  try {
    log::info("refused", "{}: {}", session.peer_address(), proto::error_text(code));
  } catch (const std::bad_alloc&) {  // no line, then
  }
}

void Shard::destroy(Session& session) noexcept {
  slab_.destroy(session);
}

}  // namespace pulsewheel

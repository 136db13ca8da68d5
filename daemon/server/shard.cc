#include "daemon/server/shard.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <new>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/base/log.h"
#include "daemon/base/memory_reserve.h"
#include "daemon/base/thread.h"

namespace pulsewheel {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array<std::chrono::nanoseconds, 14> kLoopDelayBounds{
    microseconds{10}, microseconds{50},  microseconds{100}, microseconds{250}, microseconds{500},
    milliseconds{1},  milliseconds{2},   milliseconds{5},   milliseconds{10},  milliseconds{25},
    milliseconds{50}, milliseconds{100}, milliseconds{250}, seconds{1}};

constexpr std::array<std::chrono::nanoseconds, 15> kLatenessBounds{
    milliseconds{10},   milliseconds{25},   milliseconds{50},   milliseconds{100},
    milliseconds{150},  milliseconds{250},  milliseconds{500},  milliseconds{750},
    milliseconds{900},  milliseconds{1000}, milliseconds{1050}, milliseconds{1250},
    milliseconds{2000}, seconds{5},         seconds{30}};

/// How often a departing shard sends a share of its sessions away.
constexpr Duration kDepartureStep = milliseconds{50};

std::size_t edge_kind_index(EdgeKind kind) {
  return kind == EdgeKind::kOnline ? 0 : 1;
}

bool ran_out(const Edge& edge) {
  if (edge.last_seen == kLastSeenUnknown) return false;  // decided by the ring in Redis
  return edge.reason == EdgeReason::kTimeout ||
         (edge.reason == EdgeReason::kDisconnect && edge.due != edge.at);
}

}  // namespace

ShardCounters::ShardCounters()
    : loop_delay(kLoopDelayBounds),
      wakeup_delay(kLoopDelayBounds),
      lateness(kLatenessBounds),
      expiry(kLoopDelayBounds) {}

Shard::Shard(const ShardOptions& options, Sequencer& sequencer, ShardObserver& observer)
    : options_(options),
      sequencer_(sequencer),
      observer_(observer),
      core_({.index = options.index,
             .shards = options.shards,
             .clock = options.clock,
             .registry = options.registry,
             .expiry_budget = options.expiry_budget},
            MonoClock::now(), *this, *this),
      context_{.shard = options.index,
               .options = options_.session,
               .wheel = core_.wheel(),
               .clock = options.clock,
               .counters = counters_.sessions,
               .host = *this,
               .jitter = std::minstd_rand(static_cast<std::uint32_t>(options.registry.hash_seed) +
                                          options.index + 1)},
      io_(1),
      work_(io_.get_executor()),
      wakeup_timer_(io_),  // a timer makes the reactor, and with it the loop's descriptors
      close_timer_(io_),
      departure_timer_(io_),
      renegotiation_timer_(io_),
      statistics_timer_("statistics", [this](MonoTime) {
        if (slab_.size() == 0) return core_.timers().cancel(statistics_timer_);
        observer_.on_statistics(options_.index);
      }) {}

Shard::~Shard() {
  stop();
}

void Shard::connect(std::vector<Shard*> peers) {
  peers_ = std::move(peers);
}

void Shard::start(int first_private_descriptor, std::function<void(std::error_code)> separated) {
  PULSEWHEEL_CHECK(peers_.size() == options_.shards);
  thread_ = std::thread([this, first_private_descriptor, separated = std::move(separated)] {
    set_thread_name("pw-shard-" + std::to_string(options_.index));
    block_all_signals_in_this_thread();
    std::error_code error;
    if (options_.own_descriptor_table) error = separate_descriptor_table(first_private_descriptor);
    separated(error);
    run();
  });
}

void Shard::stop() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] { stopping_ = true; });
  thread_.join();
}

void Shard::post(std::function<void()> task) {
  boost::asio::post(io_, std::move(task));
}

void Shard::call(const std::function<void()>& task) {
  std::promise<void> done;
  post([&] {
    try {
      task();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

void Shard::post(std::shared_ptr<PacedWork> work) {
  boost::asio::post(
      io_, [this, work = std::move(work)]() mutable { paced_work_.push_back(std::move(work)); });
}

// --- The loop -----------------------------------------------------------------------------------

void Shard::run() {
  while (!stopping_) {
    if (!core_.has_work() && paced_work_.empty()) io_.run_one();
    run_round();
  }
  paced_work_.clear();
  end_all_sessions();
}

void Shard::run_round() {
  // Nobody expires by a later time than this: what arrived before it is read below.
  if (context_.round_began == MonoTime{}) context_.round_began = MonoClock::now();
  const MonoTime began = context_.round_began;
  core_.begin_round(began);
  note_delay();
  accept_some();
  poll_handlers();
  decide();
  do_paced_work();
  if (!context_.touched.empty()) core_.note_touched(began);
  hand_on_edges();
  flush_mail();
  sleep_until(core_.end_round());
  counters_.timers_armed.set(static_cast<std::int64_t>(core_.wheel().armed_count()));
  note_length(MonoClock::now() - began);
  context_.round_began = MonoTime{};
}

void Shard::accept_some() {
  if (!core_.accepting()) return;
  bool emptied = true;
  for (auto& acceptor : acceptors_)
    emptied = acceptor->accept_burst() && emptied;
  core_.on_accepts(options_.accept_burst * acceptors_.size(), emptied);
}

void Shard::poll_handlers() {
  std::size_t handlers = 0;
  while (handlers < options_.handlers_max && io_.poll_one() != 0)
    ++handlers;
  core_.on_poll(handlers, handlers < options_.handlers_max);
}

void Shard::decide() {
  const MonoTime began = MonoClock::now();
  const bool had_due = core_.expire();
  const MonoTime expired = MonoClock::now();
  if (had_due) counters_.expiry.observe(expired - began);
  core_.finish_due(expired);
  core_.deliver_own_mail(expired);
  update_user_gauges();
}

/// One portion each round, of each in turn: how many ask changes only how long they wait.
void Shard::do_paced_work() {
  if (paced_work_.empty()) return;
  std::shared_ptr<PacedWork> work = std::move(paced_work_.front());
  paced_work_.pop_front();
  if (!work->do_portion(*this)) paced_work_.push_back(std::move(work));
}

/// Rounds are budgeted to a few milliseconds of work: a long one waited for a processor.
void Shard::note_delay() {
  const auto delay = core_.wakeup_delay();
  if (!delay) return;
  counters_.wakeup_delay.observe(*delay);
  if (*delay < kLongRound) return;
  log::warn("late_wakeup",
            "shard {} woke up {} ms after it had asked to: is this machine overloaded?",
            options_.index, std::chrono::duration_cast<milliseconds>(*delay).count());
}

void Shard::note_length(Duration length) {
  counters_.rounds.add();
  counters_.loop_delay.observe(length);
  if (length < kLongRound) return;
  log::warn("long_round", "a round of shard {} took {} ms: is this machine overloaded?",
            options_.index, std::chrono::duration_cast<milliseconds>(length).count());
}

void Shard::on_stall(Duration late) {
  counters_.stalls.add();
  log::warn("stall", "shard {} ran {} ms late: reading everything before anybody expires",
            options_.index, std::chrono::duration_cast<milliseconds>(late).count());
}

void Shard::on_touches_due() {
  context_.touched.drain([this](std::uint32_t slot) {
    const Session* const session = slab_.at(slot);
    const auto touch = session != nullptr ? session->touch() : std::nullopt;
    if (touch) core_.touch(*touch);
  });
}

void Shard::on_fence() {
  counters_.fences.add();
}

/// A connection that is accepted may bring one more event, and so may one that a handler closes.
ShardHost::UnreadMax Shard::unread_max() const noexcept {
  constexpr std::size_t kMargin = 1'024;
  return {.accepts = options_.accept_queue_max * acceptors_.size(),
          .handlers = 2 * slab_.size() + kMargin};
}

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

void Shard::hand_on_edges() {
  const EdgeBatch& edges = core_.edges();
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge edge = edges.at(i);
    counters_.edges[edge_kind_index(edge.kind)][static_cast<std::size_t>(edge.reason)].add();
    if (ran_out(edge)) counters_.lateness.observe(edge.at - edge.due);
  }
  const std::size_t count = edges.size();
  DeadlineBatch deadlines = core_.take_deadlines();
  if (count == 0 && deadlines.empty()) return;
  if (!sequencer_.submit(options_.index, core_.take_edges(), std::move(deadlines)) && count > 0) {
    counters_.edges_dropped.add(count);
    log::error("edges", "{} edges dropped: nobody takes them off shard {}", count, options_.index);
  }
}

void Shard::flush_mail() {
  for (ShardIndex to = 0; to < options_.shards; ++to) {
    if (to == options_.index) continue;  // decide() delivers it
    MailBatch batch = core_.take_mail(to);
    if (batch.empty()) continue;
    Shard& peer = *peers_[to];
    boost::asio::post(peer.io_, [&peer, batch = std::move(batch)]() mutable {
      const MonoTime now = peer.context_.stamp();  // opens the round
      peer.core_.deliver_own_mail(now);            // was there first: see session_ended()
      peer.core_.deliver(batch, now);
    });
  }
}

/// One OS timer for everything on the wheel, and none while the wheel is empty: an idle shard
/// sleeps.
void Shard::sleep_until(const ShardCore::Next& next) {
  if (next.at_once || next.wakeup == wakeup_) return;
  wakeup_ = next.wakeup;
  if (!wakeup_) {
    wakeup_timer_.cancel();
    return;
  }
  wakeup_timer_.expires_at(options_.clock.begin_of(*wakeup_));
  wakeup_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wakeup_.reset();
  });
}

void Shard::update_user_gauges() {
  const PresenceRegistry& registry = core_.registry();
  counters_.users_online.set(static_cast<std::int64_t>(registry.online_users()));
  counters_.users_lingering.set(static_cast<std::int64_t>(registry.lingering_users()));
  counters_.users_offline.set(static_cast<std::int64_t>(registry.offline_users()));
  counters_.users_held.set(static_cast<std::int64_t>(registry.held_users()));
}

// --- Sessions and users -------------------------------------------------------------------------

/// While memory is short nobody new gets in, so that those who are in can be served to their end.
void Shard::submit_login(const LoginSubmission& login) {
  if (!memory_reserve::retake()) throw std::bad_alloc();
  core_.submit_login(login);
}

/// The answer to a LOGOUT leaves before the round is over, and the LOGIN behind it may come through
/// another shard, but must not come home first: it would take over a session that has logged out,
/// and both edges would be missing.
void Shard::session_ended(const SessionEnd& end) {
  core_.session_ended(end);
  if (end.reason == CloseReason::kLogout) flush_mail();
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

void Shard::on_hold_over(std::string_view uid, MonoTime /*now*/) {
  log::info("hold", {{"uid", log::Uid{uid}}}, "the hold is over");
}

UserView Shard::find_user(std::string_view uid) {
  return core_.find_user(uid, MonoClock::now());
}

bool Shard::list_online(std::uint32_t* cursor, std::size_t users,
                        std::vector<ListedUser>& out) const {
  return core_.list_online(cursor, kPortionSlots, std::min(users, kPortion), out);
}

std::optional<std::size_t> Shard::kick_user(std::string_view uid, MonoTime last_packet) {
  return core_.kick(uid, MonoClock::now(), last_packet);
}

Shard::HoldOutcome Shard::hold_user(std::string_view uid, Duration length) {
  const MonoTime now = MonoClock::now();
  HoldOutcome outcome{.verdict = core_.hold(uid, now + length, now), .hold = {}};
  if (outcome.verdict == PresenceRegistry::HoldVerdict::kHeld) {
    outcome.hold = *core_.find_user(uid, now).hold;
  }
  return outcome;
}

std::optional<Duration> Shard::release_user(std::string_view uid) {
  return core_.release(uid, MonoClock::now());
}

bool Shard::report_offline(std::string_view uid) {
  return core_.report_offline(uid, MonoClock::now());
}

std::size_t Shard::restore(const DeadlineBatch& users) {
  const MonoTime now = MonoClock::now();
  std::size_t restored = 0;
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (users.at(i).deadline > now && core_.restore(users.at(i), now)) ++restored;
  }
  return restored;
}

ShardCore::Restored Shard::restore(const UserImageBatch& users) {
  const ShardCore::Restored restored = core_.restore(users, MonoClock::now());
  update_user_gauges();
  return restored;
}

UserImageBatch Shard::copy_users(std::uint32_t* cursor, std::size_t slots, bool* more) const {
  UserImageBatch users;
  *more = core_.registry().list_users(cursor, slots, users);
  return users;
}

void Shard::list_users(std::uint32_t first_slot, std::size_t slots) {
  do {
    hand_on_edges();
  } while (core_.registry().deadlines_changed());
  RosterPart part{
      .shard = options_.index, .first_slot = first_slot, .next_slot = first_slot, .more = false};
  DeadlineBatch users;
  part.more = core_.registry().list_deadlines(&part.next_slot, slots, users);
  users.mark_as(part);
  // A part that is lost is told to the sinks as lost deadlines, and asked for again.
  static_cast<void>(sequencer_.submit(options_.index, {}, std::move(users)));
}

// --- Connections --------------------------------------------------------------------------------

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

void Shard::arm_statistics() {
  if (slab_.size() == 0 || options_.statistics_interval <= Duration{0}) return;
  core_.timers().arm_every(statistics_timer_, options_.statistics_interval, MonoClock::now());
}

void Shard::on_accept_paused(int error, Duration pause) noexcept {
  log::error("accept", "shard {} cannot accept: {}; next try in {} ms", options_.index,
             strerrordesc_np(error),  // without an allocation: it may be memory that is short
             std::chrono::duration_cast<milliseconds>(pause).count());
}

void Shard::destroy(Session& session) noexcept {
  slab_.destroy(session);
}

void Shard::report_refusal(const Session& session, proto::ErrorCode code) noexcept {
  if (!log::would_log(log::Level::kInfo)) return;
  try {
    log::info("refused", "{}: {}", session.peer_address(), proto::error_text(code));
  } catch (const std::bad_alloc&) {  // no line, then
  }
}

void Shard::on_timer_failure(std::string_view timer, std::string_view what,
                             bool cancelled) noexcept {
  log::error("timer", "timer \"{}\" failed: {}{}", timer, what, cancelled ? "; given up" : "");
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

Shard::WheelView Shard::view_wheel() {
  const TimeWheel& wheel = core_.wheel();
  WheelView view{.now = wheel.now(), .clock = options_.clock.floor(MonoClock::now())};
  view.armed = wheel.armed_count();
  for (std::size_t level = 0; level < TimeWheel::kLevels; ++level) {
    view.hands[level] = wheel.hand(level);
    for (std::size_t slot = 0; slot < TimeWheel::kSlots; ++slot)
      view.counts[level][slot] = wheel.slot_count(level, slot);
  }
  return view;
}

// --- Change -------------------------------------------------------------------------------------

void Shard::change(const ShardOptions& options) {
  const bool other_timeouts = options.session.timeouts != options_.session.timeouts;
  const bool other_interval = options.statistics_interval != options_.statistics_interval;
  options_.session = options.session;
  options_.accept_burst = options.accept_burst;
  options_.handlers_max = options.handlers_max;
  options_.statistics_interval = options.statistics_interval;
  core_.change(options.registry, options.expiry_budget, MonoClock::now());
  for (auto& acceptor : acceptors_)
    acceptor->set_burst(options_.accept_burst);
  if (other_interval) {
    core_.timers().cancel(statistics_timer_);
    arm_statistics();
  }
  if (other_timeouts) {
    next_renegotiated_ = 0;
    renegotiate_some();
  }
}

/// Slots that are taken meanwhile need no visit: who logs in gets the timeouts of now.
void Shard::renegotiate_some() {
  for (std::size_t left = kRenegotiatedPerStep; left > 0 && next_renegotiated_ < slab_.slots();) {
    Session* const session = slab_.at(next_renegotiated_++);
    if (session == nullptr) continue;
    session->apply_timeouts();
    --left;
  }
  if (next_renegotiated_ == slab_.slots()) return;
  renegotiation_timer_.expires_after(kRenegotiationStep);
  renegotiation_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) renegotiate_some();
  });
}

// --- Leaving ------------------------------------------------------------------------------------

void Shard::drain(Duration window) {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  const MonoTime end = MonoClock::now() + window;
  departure_.end = departure_.running ? std::min(departure_.end, end) : end;
  departure_.running = true;
  send_some_away();
}

void Shard::send_some_away() {
  if (slab_.size() == 0) return observer_.on_drained(options_.index);
  const MonoTime now = MonoClock::now();
  const auto steps = std::max<Duration::rep>(1, (departure_.end - now) / kDepartureStep);
  const auto sessions_left = std::size_t{slab_.slots() - departure_.next_slot};
  std::size_t share =
      (sessions_left + static_cast<std::size_t>(steps) - 1) / static_cast<std::size_t>(steps);
  for (; share > 0 && departure_.next_slot < slab_.slots(); --share, ++departure_.next_slot) {
    if (Session* session = slab_.at(departure_.next_slot)) {
      session->go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
    }
  }
  departure_timer_.expires_after(kDepartureStep);
  departure_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) send_some_away();
  });
}

void Shard::hold_users() {
  core_.hold_lingering();
}

void Shard::end_sessions() {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  for (std::uint32_t slot = 0; slot < slab_.slots(); ++slot) {
    if (Session* session = slab_.at(slot)) {
      session->go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
    }
  }
  const MonoTime now = MonoClock::now();
  core_.release_silent(now);
  core_.deliver_own_mail(now);
  flush_mail();
}

void Shard::end_all_sessions() {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  departure_timer_.cancel();
  close_timer_.cancel();
  renegotiation_timer_.cancel();
  wakeup_timer_.cancel();
  closing_.clear();
  for (std::uint32_t slot = 0; slot < slab_.slots(); ++slot) {
    if (Session* session = slab_.at(slot)) session->abandon();
  }
  while (io_.poll_one() != 0) {  // the cancelled operations let go of their sessions
  }
  hand_on_edges();  // of mail that came last
}

void Shard::shut_users_down() {
  while (!core_.shut_users_down(MonoClock::now()))
    hand_on_edges();
  hand_on_edges();
  update_user_gauges();
}

}  // namespace pulsewheel

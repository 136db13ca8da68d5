#include "daemon/server/shard.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/base/log.h"
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

/// Offline users forgotten at one go, and the share of the retention between two goes.
constexpr std::size_t kForgottenPerRun = 1'000;
constexpr int kForgetRunsPerRetention = 16;

std::size_t edge_kind_index(EdgeKind kind) {
  return kind == EdgeKind::kOnline ? 0 : 1;
}

bool ran_out(const Edge& edge) {
  return edge.reason == EdgeReason::kTimeout ||
         (edge.reason == EdgeReason::kDisconnect && edge.due != edge.at);
}

}  // namespace

ShardCounters::ShardCounters()
    : loop_delay(kLoopDelayBounds), lateness(kLatenessBounds), expiry(kLoopDelayBounds) {}

Shard::Shard(const ShardOptions& options, Sequencer& sequencer, ShardObserver& observer)
    : options_(options),
      sequencer_(sequencer),
      observer_(observer),
      wheel_(options.clock.floor(MonoClock::now())),
      timers_(wheel_, options.clock, *this),
      registry_(options.registry, wheel_, options.clock),
      context_{.shard = options.index,
               .options = options_.session,
               .wheel = wheel_,
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
      statistics_timer_("statistics",
                        [this](MonoTime) {
                          if (slab_.size() == 0) return timers_.cancel(statistics_timer_);
                          observer_.on_statistics(options_.index);
                        }),
      retention_timer_("offline retention", [this](MonoTime now) { forget_offline_users(now); }) {}

Shard::~Shard() {
  stop();
}

void Shard::connect(std::vector<Shard*> peers) {
  peers_ = std::move(peers);
  outboxes_.resize(peers_.size());
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

// --- The loop -----------------------------------------------------------------------------------

void Shard::run() {
  while (!stopping_) {
    if (!has_work()) io_.run_one();
    run_round();
  }
  end_all_sessions();
}

bool Shard::has_work() const noexcept {
  return wheel_work_left_ || first_expired_ < kTickParts || input_drain_.running() ||
         !fences_asked_.empty() || (fence_.answers_missing == 0 && !fence_.hooks.empty());
}

void Shard::run_round() {
  // Nobody expires by a later time than this: what arrived before it is read below.
  if (context_.round_began == MonoTime{}) context_.round_began = MonoClock::now();
  const MonoTime began = context_.round_began;
  note_stall();
  serve_input_drain();
  poll_handlers();
  if (!stalled_) {
    expire();
    serve_fence();
  }
  deliver_own_mail();
  hand_on_edges();
  flush_mail();
  arm_wakeup();
  note_length(MonoClock::now() - began);
  context_.round_began = MonoTime{};
}

/// Rounds are budgeted to a few milliseconds of work: a long one waited for a processor.
void Shard::note_length(Duration length) {
  counters_.rounds.add();
  counters_.loop_delay.observe(length);
  if (length < kLongRound) return;
  log::warn("long_round", "a round of shard {} took {} ms: is this machine overloaded?",
            options_.index, std::chrono::duration_cast<milliseconds>(length).count());
}

/// A round that began late: the process was stopped, or the machine is overloaded. Clients kept
/// sending meanwhile, and their packets are still in the sockets.
void Shard::note_stall() {
  const auto expected = std::exchange(expected_, std::nullopt);
  if (!expected || stalled_) return;
  const Duration late = context_.round_began - *expected;
  if (late <= std::max(options_.clock.length(), kStallMin)) return;
  counters_.stalls.add();
  stalled_ = true;
  input_drain_.start(options_.accept_queue_max * acceptors_.size(), 2 * slab_.size() + 1'024);
  log::warn("stall", "shard {} ran {} ms late: reading everything before anybody expires",
            options_.index, std::chrono::duration_cast<milliseconds>(late).count());
}

void Shard::serve_input_drain() {
  if (!input_drain_.running() && !fences_asked_.empty()) {
    fences_running_.swap(fences_asked_);
    input_drain_.start(options_.accept_queue_max * acceptors_.size(), 2 * slab_.size() + 1'024);
  }
  if (!input_drain_.accepting()) return;
  bool emptied = true;
  for (auto& acceptor : acceptors_)
    emptied = acceptor->accept_burst() && emptied;
  input_drain_.on_accepts(options_.accept_burst * acceptors_.size(), emptied);
}

void Shard::poll_handlers() {
  std::size_t handlers = 0;
  while (handlers < options_.handlers_max && io_.poll_one() != 0)
    ++handlers;
  const bool was_running = input_drain_.running();
  input_drain_.on_poll(handlers, handlers < options_.handlers_max);
  if (!was_running || input_drain_.running()) return;
  stalled_ = false;
  for (const ShardIndex home : fences_running_)
    send_mail(home, FenceAnswerMail{});
  fences_running_.clear();
}

void Shard::expire() {
  const MonoTime began = MonoClock::now();
  HookList expired;
  wheel_work_left_ = !wheel_.advance(options_.clock.floor(context_.round_began),
                                     options_.expiry_budget * kVisitsPerHandled, expired);
  sort_in(expired);
  if (first_expired_ == kTickParts) return;
  for (std::size_t i = 0; i < options_.expiry_budget; ++i) {
    TimerHook* const hook = next_expired();
    if (hook == nullptr) break;
    dispatch(*hook);
  }
  counters_.expiry.observe(MonoClock::now() - began);
}

void Shard::sort_in(HookList& expired) {
  const Duration tick = options_.clock.length();
  while (TimerHook* hook = expired.pop_front()) {
    std::size_t part = 0;
    if (hook->kind() == HookKind::kSession) {
      const MonoTime end = options_.clock.begin_of(hook->deadline());
      const Duration before_end =
          std::clamp(end - Session::of(*hook).fsm().deadline(), Duration{1}, tick);
      part = static_cast<std::size_t>((tick - before_end) * kTickParts / tick);
    }
    expired_[part].push_back(*hook);
    first_expired_ = std::min(first_expired_, part);
  }
}

TimerHook* Shard::next_expired() noexcept {
  for (; first_expired_ < kTickParts; ++first_expired_) {
    if (TimerHook* hook = expired_[first_expired_].pop_front()) return hook;
  }
  return nullptr;
}

void Shard::dispatch(TimerHook& hook) {
  switch (hook.kind()) {
    case HookKind::kSession: {
      const SessionPtr session(Session::of(hook));  // it may close itself
      return session->on_deadline(context_.round_began);
    }
    case HookKind::kLinger:
      return due_lingering_.push_back(hook);
    case HookKind::kTimer:
      return timers_.fire(hook, context_.round_began);
    case HookKind::kTest:
      break;
  }
  PULSEWHEEL_CHECK(!"a hook of this kind on a shard's wheel");
}

/// A lingering user has no socket here to look into, and may be coming back through another
/// shard. So every shard first reads what has arrived; only then is the deadline final.
void Shard::serve_fence() {
  if (fence_.idle() && !due_lingering_.empty()) {
    fence_.hooks.splice(due_lingering_);
    fence_.answers_missing = peers_.size();
    counters_.fences.add();
    for (ShardIndex peer = 0; peer < peers_.size(); ++peer) {
      send_mail(peer, FenceMail{options_.index});
    }
  }
  if (fence_.answers_missing > 0 || fence_.hooks.empty()) return;
  for (std::size_t i = 0; i < options_.expiry_budget; ++i) {
    TimerHook* const hook = fence_.hooks.pop_front();
    if (hook == nullptr) break;
    registry_.expire_lingering(*hook, MonoClock::now(), edges_);
  }
  update_user_gauges();
}

/// Decisions come first: a close costs ten times as much.
void Shard::close_later(Session& session) {
  closing_.emplace_back(session);
  if (closing_.size() == 1) do_wait_close();
}

void Shard::do_wait_close() {
  close_timer_.expires_after(kCloseStep);
  close_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) close_some();
  });
}

void Shard::close_some() {
  for (std::size_t i = 0; i < kClosesPerStep && !closing_.empty(); ++i) {
    closing_.back()->dismiss();
    closing_.pop_back();
  }
  if (!closing_.empty()) return do_wait_close();
  closing_.shrink_to_fit();
}

void Shard::hand_on_edges() {
  if (edges_.empty()) return;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const Edge edge = edges_.at(i);
    counters_.edges[edge_kind_index(edge.kind)][static_cast<std::size_t>(edge.reason)].add();
    if (ran_out(edge)) counters_.lateness.observe(edge.at - edge.due);
  }
  const std::size_t count = edges_.size();
  if (!sequencer_.submit(options_.index, std::exchange(edges_, EdgeBatch{}))) {
    counters_.edges_dropped.add(count);
    log::error("edges", "{} edges dropped: nobody takes them off shard {}", count, options_.index);
  }
}

void Shard::flush_mail() {
  for (ShardIndex to = 0; to < outboxes_.size(); ++to) {
    if (to == options_.index || outboxes_[to].empty()) continue;
    Shard& peer = *peers_[to];
    boost::asio::post(peer.io_, [&peer, batch = std::exchange(outboxes_[to], {})]() mutable {
      peer.deliver(std::move(batch));
    });
  }
}

/// One OS timer for everything on the wheel, and none while the wheel is empty: an idle shard
/// sleeps.
void Shard::arm_wakeup() {
  if (has_work()) {
    expected_ = context_.round_began;
    return;
  }
  const auto next = wheel_.next_wakeup();
  if (next) expected_ = options_.clock.begin_of(*next);
  if (next == wakeup_) return;
  wakeup_ = next;
  if (!next) {
    wakeup_timer_.cancel();
    return;
  }
  wakeup_timer_.expires_at(options_.clock.begin_of(*next));
  wakeup_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wakeup_.reset();
  });
}

// --- Connections --------------------------------------------------------------------------------

std::uint16_t Shard::bind(const boost::asio::ip::tcp::endpoint& endpoint) {
  AcceptSink& sink = *this;
  auto acceptor = std::make_unique<Acceptor>(io_, options_.accept_burst, sink, counters_.accepts);
  acceptor->bind(endpoint);
  acceptors_.push_back(std::move(acceptor));
  return acceptors_.back()->port();
}

void Shard::listen(int backlog) {
  for (auto& acceptor : acceptors_)
    acceptor->listen(backlog);
  for (auto& acceptor : acceptors_)
    acceptor->start();
}

void Shard::on_accepted(ShardSocket&& socket) {
  const bool busy = slab_.size() >= options_.connections_max;
  if (busy) {
    counters_.refused_busy.add();
    log::warn("busy", "shard {} is full: {} connections", options_.index, slab_.size());
    if (slab_.size() >= options_.connections_max + kBusySessionsMax) return;  // closes the socket
  }
  Session& session = slab_.create(context_, std::move(socket), context_.stamp());
  session.start();
  if (busy) session.go_away(proto::GoawayReason::kBusy, CloseReason::kBusy);
  if (!statistics_timer_.armed() && options_.statistics_interval > Duration{0}) {
    timers_.arm_every(statistics_timer_, options_.statistics_interval, MonoClock::now());
  }
}

void Shard::on_accept_paused(int error, Duration pause) {
  log::error("accept", "shard {} cannot accept: {}; next try in {} ms", options_.index,
             std::generic_category().message(error),
             std::chrono::duration_cast<milliseconds>(pause).count());
}

void Shard::destroy(Session& session) noexcept {
  slab_.destroy(session);
}

void Shard::report_refusal(const Session& session, proto::ErrorCode code) {
  if (!log::would_log(log::Level::kInfo)) return;
  log::info("refused", "{}: {}", session.peer_address(), proto::error_text(code));
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
    wanted.found = true;
  }
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

void Shard::end_all_sessions() {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  departure_timer_.cancel();
  close_timer_.cancel();
  wakeup_timer_.cancel();
  closing_.clear();
  for (std::uint32_t slot = 0; slot < slab_.slots(); ++slot) {
    if (Session* session = slab_.at(slot)) session->release_socket();
  }
  while (io_.poll_one() != 0) {  // the cancelled operations let go of their sessions
  }
}

void Shard::shut_users_down() {
  while (!registry_.shutdown(MonoClock::now(), options_.expiry_budget, edges_))
    hand_on_edges();
  hand_on_edges();
}

void Shard::forget_offline_users(MonoTime now) {
  const auto next = registry_.forget_offline(now, kForgottenPerRun);
  update_user_gauges();
  if (!next) return;
  const Duration pause =
      std::max(*next - now, options_.registry.offline_retention / kForgetRunsPerRetention);
  timers_.arm_after(retention_timer_, *next <= now ? Duration{0} : pause, now);
}

}  // namespace pulsewheel

// A shard: its thread, and the rounds of its loop. Its sessions, its users, and its change and end
// have files of their own.
#include "daemon/server/shard.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/server/mail_post.h"

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

void Shard::post(std::shared_ptr<PacedWork> work) {
  boost::asio::post(
      io_, [this, work = std::move(work)]() mutable { paced_work_.push_back(std::move(work)); });
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

/// Where memory runs out std::bad_alloc is thrown, and what has not left yet is still in its
/// outbox.
void Shard::flush_mail() {
  for (ShardIndex to = 0; to < options_.shards; ++to) {
    if (to == options_.index) continue;  // decide() delivers it
    MailBatch& outbox = core_.outbox(to);
    if (outbox.empty()) continue;
    Shard& peer = *peers_[to];
    post_mail(peer.io_, outbox, [&peer](MailBatch& batch) {
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

// --- What it notices ----------------------------------------------------------------------------

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

void Shard::on_fence() {
  counters_.fences.add();
}

void Shard::on_timer_failure(std::string_view timer, std::string_view what,
                             bool cancelled) noexcept {
  log::error("timer", "timer \"{}\" failed: {}{}", timer, what, cancelled ? "; given up" : "");
}

/// A connection that is accepted may bring one more event, and so may one that a handler closes.
ShardHost::UnreadMax Shard::unread_max() const noexcept {
  constexpr std::size_t kMargin = 1'024;
  return {.accepts = options_.accept_queue_max * acceptors_.size(),
          .handlers = 2 * slab_.size() + kMargin};
}

void Shard::update_user_gauges() {
  const PresenceRegistry& registry = core_.registry();
  counters_.users_online.set(static_cast<std::int64_t>(registry.online_users()));
  counters_.users_lingering.set(static_cast<std::int64_t>(registry.lingering_users()));
  counters_.users_offline.set(static_cast<std::int64_t>(registry.offline_users()));
  counters_.users_held.set(static_cast<std::int64_t>(registry.held_users()));
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

}  // namespace pulsewheel

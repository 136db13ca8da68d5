#include "daemon/redis/mirror_link.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <boost/system/error_code.hpp>

#include "daemon/base/check.h"
#include "daemon/base/log.h"
#include "daemon/redis/reply_error.h"

namespace pulsewheel {
namespace {

using Kind = MirrorChange::Kind;

constexpr std::size_t kKinds = 3;

/// The scripts' own error: the list of slots is gone, or another one.
constexpr std::string_view kRingLength = "RINGLENGTH ";

std::chrono::milliseconds remaining(MonoTime deadline, MonoTime now) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - now),
                  std::chrono::milliseconds{0});
}

bool is_edge(const MirrorChange& change) noexcept {
  return change.kind != Kind::kMove;
}

bool lacked_lease(const RedisReply& reply) {
  return reply.is_array() && !reply.elements.empty() &&
         reply.elements.front().integer == static_cast<std::int64_t>(RingOutcome::kNoLease);
}

std::string to_line(const RedisReply& reply) {
  constexpr std::size_t kBytesMax = 200;
  return reply.is_error() ? reply.text.substr(0, kBytesMax) : "an answer of an unexpected kind";
}

}  // namespace

MirrorLink::MirrorLink(boost::asio::io_context& io, MirrorOptions options, RosterSource& rosters)
    : options_(std::move(options)),
      lease_(3 * options_.tick),
      scripts_(options_.layout, options_.node, options_.stream_entries_max),
      lease_key_(options_.layout.names().node(options_.node.name)),
      epoch_(std::to_string(options_.node.epoch)),
      queue_(options_.queue),
      client_(io, client_options(options_)),
      repair_(io, options_.repair, scripts_, client_, queue_, rosters, counters_,
              [this] { pump(); }),
      tick_timer_(io),
      stop_timer_(io) {
  if (options_.shared) hand_.emplace(io, client_, scripts_, options_.on_claimed);
  PULSEWHEEL_CHECK(options_.batch_max >= 1 && options_.batch_max <= kRingBatchMax);
}

/// Here and not in the client's destructor: what is in flight is failed, which all members hear.
MirrorLink::~MirrorLink() {
  client_.stop();
}

RedisClient::Options MirrorLink::client_options(const MirrorOptions& options) {
  RedisClient::Options client;
  client.connection = options.connection;
  client.seed = options.seed;
  client.on_ready = [this] { on_ready(); };
  client.on_down = [this](const RedisDown&) { on_down(); };
  return client;
}

void MirrorLink::on_ready() {
  paused_ = false;
  arm_tick();
  own_users_are_read_ ? join() : read_own_users();
}

/// What was in flight has been given back by now.
void MirrorLink::on_down() {
  if (!own_users_are_read_) end_reading({});
  set_phase(Phase::kDown);
  tick_timer_.cancel();
  end_if_drained();
}

void MirrorLink::arm_tick() {
  tick_timer_.expires_after(options_.tick);
  tick_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && phase_ != Phase::kDown && !leaving_) on_tick();
  });
}

void MirrorLink::on_tick() {
  arm_tick();
  paused_ = false;
  if (phase_ == Phase::kJoined) check_lease();
  if (phase_ == Phase::kRefused || (phase_ == Phase::kJoining && stuck_)) join();
  repair_.on_tick();
  pump();
}

// --- Joining ------------------------------------------------------------------------------------

void MirrorLink::read_own_users() {
  set_phase(Phase::kJoining);
  own_users_.emplace(client_, scripts_, options_.timeout, [this](DeadlineBatch users) {
    end_reading(std::move(users));
    if (client_.state() == RedisClient::State::kReady) join();
  });
  own_users_->start();
}

void MirrorLink::end_reading(DeadlineBatch users) {
  if (std::exchange(own_users_are_read_, true)) return;
  if (options_.on_own_users) options_.on_own_users(std::move(users));
}

/// The ring is created where there is none, and used as it is where there is one.
void MirrorLink::join() {
  set_phase(Phase::kJoining);
  ++join_;
  stuck_ = false;
  note_step(call(client_, scripts_.create_ring(), step([this](auto& reply) { on_ring(reply); })));
}

/// Hears the answer to a step of this join, and none that an earlier one has asked for. Where there
/// is none the connection is lost, and on_down() follows.
RedisCallback MirrorLink::step(std::function<void(const RedisReply&)> then) {
  return [this, join = join_, then = std::move(then)](std::error_code ec, const RedisReply& reply) {
    if (!ec && join == join_) then(reply);
  };
}

/// Whether the step was sent. If not, too much is in flight, and the next tick joins, or refreshes,
/// anew.
bool MirrorLink::note_step(std::error_code refused) noexcept {
  if (refused) stuck_ = true;
  return !refused;
}

void MirrorLink::on_ring(const RedisReply& reply) {
  if (!reply.is_array()) return refuse(to_line(reply));
  slots_.clear();
  for (const RedisReply& slot : reply.elements)
    slots_.push_back(slot.text);
  if (const auto problem = options_.layout.problem_of(slots_)) return refuse(*problem);
  check_lease();
}

/// Until the name has been ours, whoever holds it is another process, whatever its epoch: nodes
/// with state folders of their own count alike.
void MirrorLink::check_lease() {
  if (has_held_name_) return take_lease();
  note_step(
      client_.submit({"GET", lease_key_}, step([this](auto& reply) { on_first_holder(reply); })));
}

void MirrorLink::on_first_holder(const RedisReply& reply) {
  if (reply.is_nil()) return take_lease();
  if (reply.is_string()) return refuse_name(reply.text);
  refuse(to_line(reply));
}

/// Takes or refreshes the lease. That it is not there although we had it says that the data were
/// flushed or replaced. What Redis says of the lease counts, whichever join has asked: the next one
/// finds it there again.
void MirrorLink::take_lease() {
  const std::string stream = options_.layout.names().events();
  const auto on_stream = [this](std::error_code ec, const RedisReply& reply) {
    if (!ec) stream_was_there_ = reply.integer == 1;
  };
  // An error says nothing of the lease; the answer to the script behind it will say more.
  const auto on_holder = [this](std::error_code ec, const RedisReply& reply) {
    if (!ec) lease_was_there_ = !reply.is_nil();
  };
  const auto on_taken = [this, join = join_, asked = MonoClock::now()](std::error_code ec,
                                                                       const RedisReply& reply) {
    --leases_open_;
    if (ec) return;
    if (reply.is_string() && reply.text == epoch_) note_lease(asked);
    if (join == join_) on_lease(reply);
    pump();
  };
  const bool is_asked =
      (!options_.shared || note_step(client_.submit({"EXISTS", stream}, on_stream))) &&
      note_step(client_.submit({"GET", lease_key_}, on_holder)) &&
      note_step(call(client_, scripts_.lease(lease_), on_taken));
  if (is_asked) ++leases_open_;
}

void MirrorLink::on_lease(const RedisReply& reply) {
  if (!reply.is_string()) return refuse(to_line(reply));
  if (reply.text != epoch_) return refuse_name(reply.text);
  has_held_name_ = true;
  if (phase_ == Phase::kJoining) return joined();
  if (phase_ != Phase::kJoined || lease_was_there_) return;
  log::warn("redis_emptied", "Redis has forgotten this node: its data were flushed or replaced");
  join();
}

/// While the lease was gone, others took this node for gone: whom they took out of the ring, with
/// an edge, comes back with one. Not so where all data are gone.
///
/// The lease counts from when it was asked for: an answer may have been on its way for long.
void MirrorLink::note_lease(MonoTime asked) {
  const bool lapsed = is_lease_doubtful();
  leased_at_ = asked;
  if (!lease_was_there_) announces_ = lapsed && stream_was_there_;
}

bool MirrorLink::is_lease_doubtful() const noexcept {
  return options_.shared && leased_at_ &&
         MonoClock::now() - *leased_at_ > lease_ - options_.tick / 2;
}

void MirrorLink::joined() {
  set_phase(Phase::kJoined);
  if (!refusal_.empty()) log::info("redis_ring", "the ring in Redis can be written again");
  refusal_.clear();
  if (const auto warning = options_.layout.warning()) log::warn("redis_ring", "{}", *warning);
  repair_.request();
  repair_.activate(slots_);
  if (hand_ && !hand_is_left_) hand_->start();
  pump();
}

void MirrorLink::refuse(const std::string& why) {
  set_phase(Phase::kRefused);
  if (why != refusal_) log::error("redis_ring", "the ring in Redis is not written: {}", why);
  refusal_ = why;
  end_if_drained();
}

/// A lease that a killed process has left ends by itself; one that is there behind its length is
/// held.
void MirrorLink::refuse_name(const std::string& holder) {
  refuse("the name '" + options_.node.name + "' (redis.node) is in use by epoch " +
         holder.substr(0, epoch_.size() + 8) +
         ": another node has it, or this one before it was killed");
  if (has_held_name_ || name_was_told_) return;
  const MonoTime now = MonoClock::now();
  if (!name_in_use_since_) name_in_use_since_ = now;
  if (now - *name_in_use_since_ < lease_ + options_.tick / 2) return;
  name_was_told_ = true;
  if (options_.on_name_in_use) {
    options_.on_name_in_use("the name '" + options_.node.name +
                            "' (redis.node) is in use by another node of this Redis");
  }
}

void MirrorLink::set_phase(Phase phase) noexcept {
  if (phase_ == Phase::kJoined && phase != Phase::kJoined) repair_.deactivate();
  phase_ = phase;
  if (hand_ && phase != Phase::kJoined) hand_->stop();
  counters_.joined.set(phase == Phase::kJoined ? 1 : 0);
  counters_.refused.set(phase == Phase::kRefused ? 1 : 0);
}

// --- News ---------------------------------------------------------------------------------------

void MirrorLink::take_edges(const EdgeBatch& edges, MonoTime handed_over) {
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge edge = edges.at(i);
    if (edge.last_seen == kLastSeenUnknown) continue;  // it was the hand who told
    repair_.note_edge(edge.uid);
    if (edge.reason == EdgeReason::kShutdown) {
      repair_.deactivate();  // who is not in memory any more need not be offline
      // In a shared ring a node that stops leaves its users to the others' hands: who comes back to
      // one of these before the deadline has been online all the time.
      if (options_.shared) continue;
    }
    const bool taken =
        edge.kind == EdgeKind::kOnline
            ? queue_.add(edge.uid, edge.reason, edge.last_seen + options_.timeout, handed_over)
            : queue_.remove(edge.uid, edge.reason, handed_over);
    if (taken) continue;
    counters_.lost_edges.add();
    repair_.request();
  }
}

void MirrorLink::take_deadlines(const std::shared_ptr<const DeadlineBatch>& deadlines,
                                MonoTime handed_over) {
  if (deadlines->roster()) return repair_.take_roster(deadlines);
  bool lost = false;
  for (std::size_t i = 0; i < deadlines->size(); ++i) {
    const UserDeadline user = deadlines->at(i);
    repair_.note_deadline(user);
    lost = !queue_.move(user.uid, user.deadline, handed_over) || lost;
  }
  if (lost) take_loss();
}

void MirrorLink::take_loss() {
  counters_.lost_deadlines.add();
  repair_.request();
}

// --- Rounds -------------------------------------------------------------------------------------

void MirrorLink::pump() {
  // Held up for so long that others may have taken over: what they did has to be known first.
  if (phase_ == Phase::kJoined && is_lease_doubtful()) join();
  const bool knows_lease = !options_.shared || leases_open_ == 0;
  if (phase_ == Phase::kJoined && knows_lease && calls_open_ == 0 && !paused_ && !queue_.empty()) {
    start_round();
  }
  update_gauges();
  end_if_drained();
}

void MirrorLink::start_round() {
  std::array<std::vector<MirrorChange>, kKinds> by_kind;
  for (MirrorChange& change : queue_.take(kRoundMax))
    by_kind[static_cast<std::size_t>(change.kind)].push_back(std::move(change));
  ++calls_open_;  // this function's own, so that no answer ends the round before it is sent
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    auto& changes = by_kind[kind];
    for (auto next = changes.begin(); next != changes.end();) {
      const auto left = static_cast<std::size_t>(changes.end() - next);
      const auto end = next + static_cast<std::ptrdiff_t>(std::min(left, options_.batch_max));
      send(static_cast<Kind>(kind), {std::make_move_iterator(next), std::make_move_iterator(end)});
      next = end;
    }
  }
  --calls_open_;
}

void MirrorLink::send(Kind kind, std::vector<MirrorChange> changes) {
  const Changes sent = std::make_shared<std::vector<MirrorChange>>(std::move(changes));
  ++calls_open_;
  const auto refused = call(
      client_, call_of(kind, *sent),
      [this, kind, sent](std::error_code ec, auto reply) { on_answer(kind, sent, ec, reply); });
  if (!refused) return;
  give_back(*sent);
  paused_ = true;  // too much in flight
  --calls_open_;
}

RingCall MirrorLink::call_of(Kind kind, const std::vector<MirrorChange>& changes) const {
  const MonoTime now = MonoClock::now();
  std::vector<RingMove> moves;
  std::vector<RingAdd> adds;
  std::vector<RingRemove> removes;
  for (const MirrorChange& change : changes) {
    switch (kind) {
      case Kind::kMove:
        moves.push_back({change.uid, remaining(change.deadline, now)});
        break;
      case Kind::kAdd:
        adds.push_back({change.uid, remaining(change.deadline, now), to_string(change.reason)});
        break;
      case Kind::kRemove:
        removes.push_back({change.uid, to_string(change.reason)});
        break;
    }
  }
  if (kind == Kind::kMove && !announces_) {
    return options_.shared ? scripts_.move_by_lease(moves) : scripts_.move(moves);
  }
  if (kind == Kind::kMove) {
    for (const RingMove& user : moves)
      adds.push_back({user.uid, user.remaining, to_string(EdgeReason::kLogin)});
  }
  if (kind == Kind::kRemove) return scripts_.remove(removes);
  return scripts_.add(adds);
}

void MirrorLink::on_answer(Kind kind, const Changes& changes, std::error_code ec,
                           const RedisReply& reply) {
  if (ec) {
    set_phase(Phase::kDown);  // on_down() follows
    give_back(*changes);
  } else if (lacked_lease(reply)) {
    give_back(*changes);
    if (phase_ == Phase::kJoined) join();
  } else if (reply.is_array() && reply.elements.size() == changes->size()) {
    on_done(kind, *changes);
  } else {
    on_rejected(*changes, reply);
  }
  --calls_open_;
  pump();
}

void MirrorLink::on_done(Kind kind, const std::vector<MirrorChange>& changes) {
  Counter& done = kind == Kind::kMove  ? counters_.moved
                  : kind == Kind::kAdd ? counters_.added
                                       : counters_.removed;
  done.add(changes.size());
  counters_.batches.add();
  const MonoTime now = MonoClock::now();
  for (const MirrorChange& change : changes)
    counters_.lag.observe(now - change.handed_over);
}

/// The scripts check before they write. So what they refuse can wait, but for a call that no server
/// would take, which must not hold up the others.
void MirrorLink::on_rejected(std::vector<MirrorChange>& changes, const RedisReply& reply) {
  const std::string line = to_line(reply);
  const ReplyErrorFacts& facts = facts_of(classify_reply_error(line));
  if (line.starts_with(kRingLength)) {
    give_back(changes);
    if (phase_ == Phase::kJoined) join();  // which creates the ring if it is gone
  } else if (facts.reaction == Reaction::kResendWithEval) {
    give_back(changes);
    load_move();
  } else if (facts.reaction == Reaction::kStopKind) {
    give_back(changes);
    refuse(line);
  } else if (facts.reaction == Reaction::kGiveUp) {
    log::error("redis_rejected", "Redis refused {} changes: {}", changes.size(), line);
    lose(changes);
  } else {
    give_back(changes);
    paused_ = true;
  }
}

/// Lets the server get to know the script, in a call for nobody.
void MirrorLink::load_move() {
  RingCall for_nobody = scripts_.move_by_lease({});
  for_nobody.in_its_turn = false;
  const auto refused =
      call(client_, for_nobody, [this](std::error_code ec, const RedisReply& reply) {
        --calls_open_;
        if (ec) return;  // on_down() follows
        paused_ = paused_ || !reply.is_array();
        pump();
      });
  paused_ = paused_ || refused;
  if (!refused) ++calls_open_;
}

void MirrorLink::give_back(std::vector<MirrorChange>& changes) {
  for (MirrorChange& change : changes)
    queue_.give_back(std::move(change));
}

void MirrorLink::lose(const std::vector<MirrorChange>& changes) {
  counters_.rejected.add(changes.size());
  counters_.lost_edges.add(
      static_cast<std::uint64_t>(std::count_if(changes.begin(), changes.end(), is_edge)));
  repair_.request();
}

void MirrorLink::update_gauges() noexcept {
  counters_.queued.set(static_cast<std::int64_t>(queue_.size()));
  counters_.queued_bytes.set(static_cast<std::int64_t>(queue_.bytes()));
}

// --- The end ------------------------------------------------------------------------------------

void MirrorLink::leave_hand() {
  hand_is_left_ = true;
  if (hand_) hand_->stop();
}

void MirrorLink::stop(MonoTime deadline, std::function<void()> done) {
  leave_hand();
  repair_.deactivate();
  stopping_ = true;
  on_stopped_ = std::move(done);
  stop_timer_.expires_at(deadline);
  stop_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) end();
  });
  pump();
}

/// Without a ring to write to there is nothing to wait for.
void MirrorLink::end_if_drained() {
  if (!stopping_ || calls_open_ > 0 || phase_ == Phase::kJoining) return;
  if (phase_ == Phase::kJoined && !queue_.empty()) return;
  stopping_ = false;
  leaving_ = true;
  const bool releasing =
      phase_ == Phase::kJoined && !call(client_, scripts_.release(), [this](auto, auto) { end(); });
  if (!releasing) end();
}

void MirrorLink::end() {
  stopping_ = false;
  leaving_ = true;
  tick_timer_.cancel();
  stop_timer_.cancel();
  const auto done = std::exchange(on_stopped_, nullptr);
  if (!done) return;
  client_.stop();
  done();
}

}  // namespace pulsewheel

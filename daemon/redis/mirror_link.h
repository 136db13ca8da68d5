// MirrorLink: keeps the ring in one Redis equal to what it is told. The mirror, without its thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/base/time.h"
#include "daemon/core/edge.h"
#include "daemon/core/user_deadline.h"
#include "daemon/redis/mirror_counters.h"
#include "daemon/redis/mirror_queue.h"
#include "daemon/redis/mirror_repair.h"
#include "daemon/redis/own_users.h"
#include "daemon/redis/redis_client.h"
#include "daemon/redis/ring_hand.h"
#include "daemon/redis/ring_layout.h"
#include "daemon/redis/roster_source.h"
#include "daemon/redis/scripts.h"

namespace pulsewheel {

struct MirrorOptions {
  RedisConnectionOptions connection;
  std::uint64_t seed = 0;  // of the back-off; a node's own
  RingLayout layout;
  RingNode node;
  std::uint64_t stream_entries_max = 1'000'000;
  std::size_t batch_max = kRingBatchMax;  // users in one call of a script; at most kRingBatchMax
  MirrorQueue::Options queue;
  MirrorRepair::Options repair;
  /// How long a user counts as online from a login on, until the exact deadline comes behind it.
  Duration timeout = std::chrono::seconds{30};
  /// How often the lease is refreshed, which is three times as long. A second, but for tests.
  std::chrono::milliseconds tick{1'000};

  /// Several nodes and other writers share the ring: this node moves its hand, too.
  bool shared = false;
  // Called on the mirror's thread.
  /// Whom an earlier life of this node has left in Redis and who may still come back. Once, before
  /// anything is written; empty when the first attempt to connect fails.
  std::function<void(DeadlineBatch)> on_own_users{};
  /// Users whom no node held are offline: their edges are in the stream, and no other node is told.
  std::function<void(std::vector<std::string>)> on_claimed{};
  /// This node's name is still in use a lease after it was first asked for. Once, with one line for
  /// people.
  std::function<void(const std::string&)> on_name_in_use{};
};

/// Confined to the thread that runs its io_context. Nothing is written before the ring has been
/// looked at and this node's lease is held. Then changes go out in rounds: a round is sent whole,
/// in a few calls of scripts, and the next one waits until it has been answered. As no user is in a
/// round twice and each change can be repeated without harm, what was not answered is just given
/// back to the queue, and no news overtakes older news of the same user. (More rounds in flight
/// would take that away, and gain nothing: one round a round trip is 50,000 changes a second over a
/// line of 20 ms.)
///
/// In a shared ring a move is sent for what is known of the lease, so that no round begins while
/// the lease is asked for, and none of its moves is carried out behind its turn, or without the
/// lease.
class MirrorLink {
 public:
  /// Opens nothing but what the io_context needs for a timer. Both outlive the link.
  MirrorLink(boost::asio::io_context& io, MirrorOptions options, RosterSource& rosters);
  /// Disconnects, without a word to Redis.
  ~MirrorLink();
  MirrorLink(const MirrorLink&) = delete;
  MirrorLink& operator=(const MirrorLink&) = delete;

  void start() { client_.start(); }
  /// Something may be better now (a reload): tries to connect at once.
  void retry_now() { client_.retry_now(); }

  /// Moves the ring's hand no more.
  void leave_hand();

  /// Writes what waits, gives the lease up and disconnects, by `deadline` at the latest; then calls
  /// `done`, once.
  void stop(MonoTime deadline, std::function<void()> done);

  // News of the shards, in its order.
  void take_edges(const EdgeBatch& edges, MonoTime handed_over);
  void take_deadlines(const std::shared_ptr<const DeadlineBatch>& deadlines, MonoTime handed_over);
  /// Some news was lost on the way here.
  void take_loss();
  /// Sends what can be sent. After the news of one go.
  void pump();

  [[nodiscard]] const MirrorCounters& counters() const noexcept { return counters_; }  // any thread
  [[nodiscard]] const RedisCounters& client_counters() const noexcept {                // any thread
    return client_.counters();
  }
  [[nodiscard]] const RedisClient& client() const noexcept { return client_; }
  /// Null unless shared. Any thread.
  [[nodiscard]] const RingHandCounters* hand_counters() const noexcept {
    return hand_ ? &hand_->counters() : nullptr;
  }

  /// Changes in a round.
  static constexpr std::size_t kRoundMax = 1'024;

 private:
  using Timer = boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>,
                                                  boost::asio::io_context::executor_type>;
  using Changes = std::shared_ptr<std::vector<MirrorChange>>;
  enum class Phase : std::uint8_t {
    kDown,     // no server
    kJoining,  // looks at the ring, and takes the lease
    kJoined,   // writes
    kRefused,  // the server must not be written to; asks again with each tick
  };

  [[nodiscard]] RedisClient::Options client_options(const MirrorOptions& options);
  void on_ready();
  void on_down();
  void on_tick();
  void arm_tick();

  // Joining.
  void read_own_users();
  void end_reading(DeadlineBatch users);
  void join();
  [[nodiscard]] RedisCallback step(std::function<void(const RedisReply&)> then);
  bool note_step(std::error_code refused) noexcept;
  void on_ring(const RedisReply& reply);
  void check_lease();
  void on_first_holder(const RedisReply& reply);
  void take_lease();
  void on_lease(const RedisReply& reply);
  void note_lease(MonoTime asked);
  [[nodiscard]] bool is_lease_doubtful() const noexcept;
  void joined();
  void refuse(const std::string& why);
  void refuse_name(const std::string& holder);
  void set_phase(Phase phase) noexcept;

  // Rounds.
  void start_round();
  void send(MirrorChange::Kind kind, std::vector<MirrorChange> changes);
  [[nodiscard]] RingCall call_of(MirrorChange::Kind kind,
                                 const std::vector<MirrorChange>& changes) const;
  void on_answer(MirrorChange::Kind kind, const Changes& changes, std::error_code ec,
                 const RedisReply& reply);
  void on_done(MirrorChange::Kind kind, const std::vector<MirrorChange>& changes);
  void on_rejected(std::vector<MirrorChange>& changes, const RedisReply& reply);
  void load_move();
  void give_back(std::vector<MirrorChange>& changes);
  void lose(const std::vector<MirrorChange>& changes);
  void update_gauges() noexcept;

  void end_if_drained();
  void end();

  const MirrorOptions options_;
  const std::chrono::milliseconds lease_;  // its length
  const RingScripts scripts_;
  const std::string lease_key_;
  const std::string epoch_;
  MirrorCounters counters_;
  MirrorQueue queue_;
  RedisClient client_;
  std::optional<RingPoller> hand_;
  std::optional<OwnUsers> own_users_;
  bool own_users_are_read_ = false;
  MirrorRepair repair_;
  Timer tick_timer_;
  Timer stop_timer_;

  Phase phase_ = Phase::kDown;
  std::vector<std::string> slots_;  // of the ring, as found
  std::string refusal_;             // the last one that was logged
  std::uint64_t join_ = 0;          // number of it: an answer to an earlier one ends none
  bool stuck_ = false;              // a step of it could not be sent
  bool lease_was_there_ = false;    // in the answer before that of the lease
  std::size_t leases_open_ = 0;     // asked for and not answered
  std::size_t calls_open_ = 0;      // of the round
  bool paused_ = false;             // no round before the next tick
  bool stream_was_there_ = false;   // in the answer before that of the lease
  std::optional<MonoTime> leased_at_;
  bool announces_ = false;  // who is missing in the ring was taken out of it
  bool hand_is_left_ = false;
  bool has_held_name_ = false;
  std::optional<MonoTime> name_in_use_since_;  // until it is ours
  bool name_was_told_ = false;
  bool stopping_ = false;
  bool leaving_ = false;  // no tick may take the lease again
  std::function<void()> on_stopped_;
};

}  // namespace pulsewheel

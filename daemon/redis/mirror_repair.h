// MirrorRepair: compares what Redis has with memory, and has the difference written.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "daemon/base/time.h"
#include "daemon/core/user_deadline.h"
#include "daemon/redis/mirror_counters.h"
#include "daemon/redis/mirror_queue.h"
#include "daemon/redis/redis_client.h"
#include "daemon/redis/repair_check.h"
#include "daemon/redis/roster_source.h"
#include "daemon/redis/scripts.h"

namespace pulsewheel {

/// Confined to the mirror's thread. A run has three parts, each in small steps at a limited rate:
/// 1. the shards' rosters, part by part: whoever Redis has not, or has wrong, is filed anew,
/// without
///    an edge;
/// 2. the owners in Redis (HSCAN): whoever this node holds there and not in memory leaves the ring,
///    with an offline edge (reason `timeout`: nothing else is known). Whom an earlier life of the
///    node has left may still come back: they stay until their deadline in Redis has passed;
/// 3. the slots (SSCAN): users whom this node holds leave the slots that they are not filed in.
/// Foreign members and other nodes' users are left alone.
///
/// A part of a roster comes through the sequencer, in one order with all news of its shard. So
/// news from before it is in the queue by then, and news from behind it wins: who has changed since
/// is passed over.
///
/// Users whose deadline lies beyond the ring are filed at its far end, and filed again by a walk
/// through the rosters each kRefilePeriod, while there are any.
class MirrorRepair {
 public:
  struct Options {
    std::uint64_t users_per_second = 20'000;  // looked at, and at most so many changed
    std::uint64_t seed = 0;                   // of the hashes of uids
    /// In a shared ring, whom only an earlier life of this node holds is the hand's: it tells an
    /// event log, too.
    bool leaves_earlier_lives = false;
  };

  /// All of them outlive it. `pump` is called when there is something in the queue.
  MirrorRepair(boost::asio::io_context& io, const Options& options, const RingScripts& scripts,
               RedisClient& client, MirrorQueue& queue, RosterSource& rosters,
               MirrorCounters& counters, std::function<void()> pump);
  MirrorRepair(const MirrorRepair&) = delete;
  MirrorRepair& operator=(const MirrorRepair&) = delete;

  /// The ring can be written, and has these slots. What is requested may run.
  void activate(std::vector<std::string> slots);
  /// It cannot (any more): a run is given up, and requested again.
  void deactivate();
  /// A run is wanted, now or as soon as it can be; while one runs, another one behind it.
  void request();
  /// Once a second while active.
  void on_tick();

  // News of the shards, in its order, before it is in the queue.
  void note_edge(std::string_view uid);
  void note_deadline(const UserDeadline& user);
  /// Requires batch->roster().
  void take_roster(const std::shared_ptr<const DeadlineBatch>& batch);

  /// User slots asked of a shard at a time: 0.1 ms of its thread.
  static constexpr std::size_t kSlotsPerPart = 1'024;
  /// Users looked at in one step, and the COUNT of a scan.
  static constexpr std::size_t kUsersPerStep = 256;
  /// No step before the queue is shorter than this.
  static constexpr std::size_t kQueueMax = 8'192;
  static constexpr Duration kQueueWait = std::chrono::milliseconds{20};
  /// A part of a roster that is not there by then was lost, and is asked for again.
  static constexpr Duration kAnswerLimit = std::chrono::seconds{5};
  /// By which the deadlines in Redis and in memory may differ, beside the time that the answer
  /// took: a change may have waited that long for Redis.
  static constexpr std::chrono::milliseconds kSlack{1'000};
  static constexpr std::chrono::seconds kRefilePeriod{10};
  /// A run that found something is followed by another one, after twice as long each time.
  static constexpr std::chrono::seconds kRepeatFirst{1};
  static constexpr std::chrono::seconds kRepeatMax{64};
  /// How often it is looked after those whom an earlier life has left, while there are any.
  static constexpr std::chrono::seconds kLeftOverWait{2};

 private:
  enum class Purpose : std::uint8_t { kRepair, kRefile };
  using Hashes = boost::unordered_flat_set<std::uint64_t>;
  using Timer = boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>,
                                                  boost::asio::io_context::executor_type>;
  using Handler = std::function<void(const RedisReply&)>;
  /// Users in question, and what Redis says of them: time, index, deadlines, owners.
  struct Step {
    std::vector<UserDeadline> users;
    MonoTime asked;
    std::array<RedisReply, 4> replies;
  };

  [[nodiscard]] bool running() const noexcept { return running_; }
  void start(Purpose purpose);
  void finish();
  void give_up();
  /// Whether there is room for what a step may find.
  [[nodiscard]] bool has_room() const noexcept;
  void after(Duration delay, void (MirrorRepair::*then)());
  [[nodiscard]] Duration pace(std::size_t users) const noexcept;
  [[nodiscard]] bool submit(RedisArgs args, Handler handler);
  [[nodiscard]] RedisCallback in_this_run(Handler handler);
  bool note_sent(std::error_code refused);
  [[nodiscard]] std::uint64_t hash_of(std::string_view uid) const noexcept;
  [[nodiscard]] bool is_beyond(const UserDeadline& user, MonoTime now) const noexcept;

  // 1. Rosters.
  void ask_roster();
  void next_part();
  void look_at_part();
  void refile(const std::vector<UserDeadline>& users);
  void compare(const std::shared_ptr<Step>& step);
  void on_compared(const Step& step);
  void file_anew(const UserDeadline& user);
  // 2. Owners.
  void scan_owners();
  void on_owners(const RedisReply& page);
  void check_left_over(std::vector<std::string> uids);
  void take_out(const std::string& uid);
  void next_page();
  // 3. Slots.
  void scan_slot();
  void on_members(const RedisReply& page);
  void unfile(const std::vector<std::string_view>& uids);

  const Options options_;
  const RingScripts& scripts_;
  RedisClient& client_;
  MirrorQueue& queue_;
  RosterSource& rosters_;
  MirrorCounters& counters_;
  const std::function<void()> pump_;
  Timer timer_;

  bool active_ = false;
  bool wanted_ = false;
  MonoTime not_before_{};
  std::chrono::seconds repeat_{kRepeatFirst};
  bool has_beyond_ = false;     // users beyond the ring
  bool has_left_over_ = false;  // users of an earlier life of the node whose time is not over
  MonoTime next_refile_{};
  std::vector<std::string> slots_;

  // Of the run.
  bool running_ = false;
  std::uint64_t run_ = 0;  // number of it: what an earlier one has asked is not heard
  Purpose purpose_ = Purpose::kRepair;
  MonoTime began_{};
  std::uint64_t users_ = 0;
  std::uint64_t differences_ = 0;
  Hashes alive_;    // in memory, or changed since the run began; 8 B each
  Hashes changed_;  // since part_ came
  ShardIndex shard_ = 0;
  std::uint32_t slot_of_shard_ = 0;
  std::shared_ptr<const DeadlineBatch> part_;  // null while it is asked for
  std::size_t next_user_ = 0;                  // of part_
  std::size_t ring_slot_ = 0;
  std::string cursor_;
};

}  // namespace pulsewheel

// Shard: one thread with its own event loop, listeners, sessions, wheel and users.
#pragma once

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/core/presence_registry.h"
#include "daemon/core/timer_service.h"
#include "daemon/events/sequencer.h"
#include "daemon/net/acceptor.h"
#include "daemon/net/session_slab.h"
#include "daemon/net/shard_context.h"
#include "daemon/server/shard_core.h"

namespace pulsewheel {

struct ShardOptions {
  ShardIndex index = 0;
  std::size_t shards = 1;  // of the node
  TickClock clock{MonoTime{}, std::chrono::seconds{1}};
  SessionOptions session;
  TcpOptions tcp;
  PresenceRegistry::Options registry;
  bool own_descriptor_table = false;
  std::size_t connections_max = 100'000;  // of this shard; beyond: GOAWAY (busy)
  std::size_t accept_burst = 16;          // connections accepted per listener and round
  std::size_t handlers_max = 64;          // handlers polled per round
  std::size_t expiry_budget = 256;        // expired hooks handled per round
  std::size_t accept_queue_max = 4'096;   // the listen backlog
  Duration statistics_interval{0};        // 0: none
};

/// Written by the shard's thread, read by any.
struct ShardCounters {
  ShardCounters();

  SessionCounters sessions;
  AcceptCounters accepts;
  Counter refused_busy;  // connections over the cap
  Counter rounds;
  Counter stalls;
  Counter fences;  // drains of the node that this shard asked for before ends were final
  std::array<std::array<Counter, kEdgeReasonCount>, 2> edges;  // by kind and reason
  Counter edges_dropped;
  DurationHistogram loop_delay;    // length of a loop round: how long an event may have waited
  DurationHistogram wakeup_delay;  // of a round for which a deadline had asked: begin minus due
  DurationHistogram lateness;      // of expiry edges: decision minus deadline
  DurationHistogram expiry;        // time spent on what expired, per round that had any
  Gauge users_online;
  Gauge users_lingering;
  Gauge users_offline;  // remembered
  Gauge users_held;     // their expiry is paused
  Gauge timers_armed;   // on the wheel: deadlines of sessions and users, and service timers
};

/// What a shard tells the node. Called on the shard's thread.
class ShardObserver {
 public:
  /// Each statistics_interval while this shard has sessions.
  virtual void on_statistics(ShardIndex shard) = 0;
  /// Shard::drain() is over: no session is left.
  virtual void on_drained(ShardIndex shard) = 0;
  /// This shard had no sessions, and has one now.
  virtual void on_first_session(ShardIndex shard) = 0;

 protected:
  ~ShardObserver() = default;
};

class Shard;

/// Questions that take a shard more than one round: done in portions, at most one each round,
/// whoever else asks. So they may take longer, and a packet waits for one portion at most.
class PacedWork {
 public:
  virtual ~PacedWork() = default;
  /// Does at most about Shard::kPortion look-ups, on the shard's thread. True when it was the last
  /// portion.
  [[nodiscard]] virtual bool do_portion(Shard& shard) = 0;
};

/// Nothing is shared between shards. The doors are post() for control, mail between shards (posted
/// once per round), and the sequencer's ring for edges. All other functions are for the shard's
/// thread, except where said.
///
/// A round of the loop: one handler (waited for if there is nothing else to do), then what else
/// is ready up to a cap, then expiry within its budget with the time at which the round began.
/// What a round decides is ShardCore's; here are the sockets, the clock and the thread.
class Shard final : private ShardHost,
                    private SessionHost,
                    private AcceptSink,
                    private TimerErrorSink {
 public:
  /// Makes the event loop's own descriptors, so that they are in every thread's table. `sequencer`
  /// and `observer` outlive the shard. Any thread.
  Shard(const ShardOptions& options, Sequencer& sequencer, ShardObserver& observer);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  /// Tells the shard its peers, itself included, by index. Before start().
  void connect(std::vector<Shard*> peers);

  /// Starts the thread. `separated` gets the outcome of giving it a descriptor table of its own
  /// (success when none was asked for), on that thread, before anything else is opened there.
  void start(int first_private_descriptor, std::function<void(std::error_code)> separated);

  /// Ends the loop and joins the thread. From another thread; idempotent.
  void stop();

  /// Runs `task` on the shard's thread. Any thread. False when the shard has stopped.
  void post(std::function<void()> task);
  /// Runs `task` on the shard's thread and waits. What it throws comes out here. From another
  /// thread, while the shard runs.
  void call(const std::function<void()>& task);

  /// Starts `work` on the shard's thread; it is let go of when it is done, or with the shard. Any
  /// thread.
  void post(std::shared_ptr<PacedWork> work);

  // --- On the shard's thread ---

  /// Binds one listener. Returns the port it got. Throws boost::system::system_error.
  std::uint16_t bind(const boost::asio::ip::tcp::endpoint& endpoint);
  /// Takes a listening socket over, or takes a share in it: see Acceptor::adopt(). Throws
  /// boost::system::system_error.
  void adopt(int listening_descriptor, bool shared);
  /// Listens on what was bound or adopted and accepts from then on. Throws
  /// boost::system::system_error.
  void listen(int backlog);

  /// Takes over from `options` what may change while the shard runs: `session`, what
  /// PresenceRegistry::change() takes, accept_burst, handlers_max, expiry_budget and
  /// statistics_interval. All of it holds at once; where the timeouts differ, the sessions that are
  /// logged in follow by kRenegotiatedPerStep each kRenegotiationStep, in any order.
  void change(const ShardOptions& options);

  /// Stops accepting and sends every session away with GOAWAY (draining), spread evenly over
  /// `window`; calls ShardObserver::on_drained() when none is left. A second call with a shorter
  /// window hurries.
  void drain(Duration window);

  /// From now on nobody who lingers goes offline: see ShardCore::hold_lingering(). For a drain
  /// behind which users stay online.
  void hold_users();
  /// Stops accepting and sends every session away at once, so that all users linger, and hands on
  /// all mail: what home shards are posted from then on comes behind it. Called for each shard and
  /// kMailHops times over, no news of a session is on its way any more. Idempotent.
  void end_sessions();
  /// LOGIN, its answer to a session that has closed meanwhile, and that end.
  static constexpr int kMailHops = 3;

  /// Makes every user offline with reason `shutdown`, for a stop that keeps no snapshot. Also where
  /// the shard has stopped, before the sequencer does.
  void shut_users_down();

  /// What the registry knows of a uid whose home is here.
  [[nodiscard]] UserView find_user(std::string_view uid);
  /// Ends all sessions of a user whose home is here, with reason `kicked`. How many of them were
  /// connected; nullopt: not online. `last_packet`: the newest one that the caller knows of.
  std::optional<std::size_t> kick_user(std::string_view uid, MonoTime last_packet);
  /// Pauses the expiry of a user whose home is here for `length`. What holds then.
  struct HoldOutcome {
    PresenceRegistry::HoldVerdict verdict;
    HoldView hold;  // kHeld
  };
  HoldOutcome hold_user(std::string_view uid, Duration length);
  /// Lets it go on. How long the user was held; nullopt: not held.
  std::optional<Duration> release_user(std::string_view uid);
  /// A user whose home is here went offline in the ring in Redis: see ShardCore.
  bool report_offline(std::string_view uid);
  /// Takes back users whose home is here: see PresenceRegistry::restore(). How many.
  std::size_t restore(const DeadlineBatch& users);
  ShardCore::Restored restore(const UserImageBatch& users);
  /// The users in `slots` slots from `*cursor` on: see PresenceRegistry::list_users(). `more`:
  /// there are slots behind them. Also where the shard has stopped.
  [[nodiscard]] UserImageBatch copy_users(std::uint32_t* cursor, std::size_t slots,
                                          bool* more) const;
  /// Hands a part of the roster to the sequencer, behind everything that has changed so far: the
  /// online users in `slots` slots from `first_slot` on. With track_deadlines only.
  void list_users(std::uint32_t first_slot, std::size_t slots);
  /// The next online users: see PresenceRegistry::list_online(). A portion, at most.
  bool list_online(std::uint32_t* cursor, std::size_t users, std::vector<ListedUser>& out) const;

  /// Fills in what those `sessions` that live here know.
  struct LiveSession {
    SessionRef session;
    MonoTime last_packet;
    Duration timeout;
    MonoTime deadline;
    bool found = false;
    bool held = false;  // its shard has heard of it; `deadline` is without the hold, then
  };
  void read_sessions(std::span<LiveSession> sessions);

  /// What only the session's own shard knows of where it is: asks the kernel for the address.
  struct SessionPlace {
    std::string address;                    // empty: the session is gone
    std::optional<TimeWheel::Place> place;  // of its hook; nullopt: its time has just come
  };
  [[nodiscard]] SessionPlace locate_session(SessionRef session);

  /// The wheel as it stands.
  struct WheelView {
    Tick now;    // where the hand stands
    Tick clock;  // the tick that has begun: the hand follows when there is something to do
    std::size_t armed = 0;
    std::array<std::size_t, TimeWheel::kLevels> hands{};
    std::array<std::array<std::size_t, TimeWheel::kSlots>, TimeWheel::kLevels> counts{};
  };
  [[nodiscard]] WheelView view_wheel();

  /// Any thread for what change() leaves alone.
  [[nodiscard]] const ShardOptions& options() const noexcept { return options_; }
  [[nodiscard]] const ShardCounters& counters() const noexcept { return counters_; }  // any thread
  [[nodiscard]] const TimerCounts& timer_counts() const noexcept { return core_.timers().counts(); }

  /// A round of this length, or as late as that, is worth a line in the log.
  static constexpr Duration kLongRound = std::chrono::milliseconds{50};
  /// Behind an expiry, sockets are closed by so many (about 1.5 ms) each kCloseStep: a mass expiry
  /// leaves the processors to the decisions of the other shards, and to those who are alive.
  static constexpr std::size_t kClosesPerStep = 128;
  static constexpr Duration kCloseStep = std::chrono::milliseconds{20};
  /// Steps that are left out in a row while this shard has something to decide.
  static constexpr int kCloseDelaysMax = 25;
  /// After new timeouts: how many sessions get theirs at a time. A session costs a send, so a step
  /// takes about 1 ms, and 100,000 sessions of a shard are through in 4 s.
  static constexpr std::size_t kRenegotiatedPerStep = 256;
  static constexpr Duration kRenegotiationStep = std::chrono::milliseconds{10};
  /// Users or sessions looked at in one portion of PacedWork: about 0.2 ms.
  static constexpr std::size_t kPortion = 512;
  /// Slots of the user slab that a portion may pass where few are online: 256 KiB, 0.1 ms.
  static constexpr std::size_t kPortionSlots = 4'096;
  /// Connections over the cap that are told so at one time; further ones are just closed.
  static constexpr std::size_t kBusySessionsMax = 256;

 private:
  using LoopTimer =
      boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>,
                                        boost::asio::io_context::executor_type>;

  /// Sending all sessions away.
  struct Departure {
    bool running = false;
    MonoTime end{};
    std::uint32_t next_slot = 0;
  };

  /// Whether its connections are below their cap, as of its last accept or close. Any thread.
  [[nodiscard]] bool has_room() const noexcept;

  // The loop.
  void run();
  void run_round();
  void accept_some();
  void poll_handlers();
  void decide();
  void do_paced_work();
  void hand_on_edges();
  void flush_mail();
  void sleep_until(const ShardCore::Next& next);
  void note_delay();
  void note_length(Duration length);
  void update_user_gauges();
  void do_wait_close();
  void close_some();
  void renegotiate_some();
  void arm_statistics();
  void send_some_away();
  void end_all_sessions();

  // ShardHost.
  [[nodiscard]] MonoTime deadline_of(const TimerHook& hook) const noexcept override;
  void on_session_due(TimerHook& hook, MonoTime now) override;
  [[nodiscard]] bool on_login_answer(const LoginAnswerMail& mail) override;
  void on_dismissed(const DismissMail& mail) override;
  void on_hold(const HoldMail& mail) override;
  void on_hold_over(std::string_view uid, MonoTime now) override;
  [[nodiscard]] UnreadMax unread_max() const noexcept override;
  void on_stall(Duration late) override;
  void on_touches_due() override;
  void on_fence() override;
  // SessionHost.
  void submit_login(const LoginSubmission& login) override;
  void session_ended(const SessionEnd& end) override;
  void close_later(Session& session) override;
  void destroy(Session& session) noexcept override;
  void report_refusal(const Session& session, proto::ErrorCode code) noexcept override;
  // AcceptSink.
  void on_accepted(ShardSocket&& socket) override;
  void on_accept_paused(int error, Duration pause) noexcept override;
  std::uint32_t retry_after_ms() noexcept override { return context_.retry_after_ms(); }
  bool leaves_to_others() noexcept override;
  // TimerErrorSink.
  void on_timer_failure(std::string_view timer, std::string_view what,
                        bool cancelled) noexcept override;

  ShardOptions options_;
  Sequencer& sequencer_;
  ShardObserver& observer_;
  std::vector<Shard*> peers_;

  ShardCounters counters_;
  // The order matters: what is pending on the loop refers to sessions, these to the context, and
  // all of them to the core's wheel.
  ShardCore core_;
  ShardContext context_;
  SessionSlab slab_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  LoopTimer wakeup_timer_;
  LoopTimer close_timer_;
  LoopTimer departure_timer_;
  LoopTimer renegotiation_timer_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;

  std::optional<Tick> wakeup_;  // what wakeup_timer_ waits for
  bool stopping_ = false;
  std::vector<SessionPtr> closing_;
  int close_delays_ = 0;
  std::deque<std::shared_ptr<PacedWork>> paced_work_;
  Departure departure_;
  std::uint32_t next_renegotiated_ = 0;  // slot of the slab
  Timer statistics_timer_;
  std::thread thread_;
};

}  // namespace pulsewheel

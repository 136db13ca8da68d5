// Shard: one thread with its own event loop, listeners, sessions, wheel and users.
#pragma once

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
#include "daemon/server/input_drain.h"
#include "daemon/server/shard_mail.h"

namespace pulsewheel {

struct ShardOptions {
  ShardIndex index = 0;
  std::size_t shards = 1;  // of the node
  TickClock clock{MonoTime{}, std::chrono::seconds{1}};
  SessionOptions session;
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
  Counter fences;  // drains of the node that this shard asked for before it expired lingerers
  std::array<std::array<Counter, kEdgeReasonCount>, 2> edges;  // by kind and reason
  Counter edges_dropped;
  DurationHistogram loop_delay;  // length of a loop round: how long an event may have waited
  DurationHistogram lateness;    // of expiry edges: decision minus deadline
  DurationHistogram expiry;      // time spent on what expired, per round that had any
  Gauge users_online;
  Gauge users_lingering;
  Gauge users_offline;  // remembered
  Gauge timers_armed;
};

/// What a shard tells the node. Called on the shard's thread.
class ShardObserver {
 public:
  /// Each statistics_interval while this shard has sessions.
  virtual void on_statistics(ShardIndex shard) = 0;
  /// Shard::drain() is over: no session is left.
  virtual void on_drained(ShardIndex shard) = 0;

 protected:
  ~ShardObserver() = default;
};

/// Nothing is shared between shards. The doors are post() for control, mail between shards (posted
/// once per round), and the sequencer's ring for edges. All other functions are for the shard's
/// thread, except where said.
///
/// A round of the loop: one handler (waited for if there is nothing else to do), then what else
/// is ready up to a cap, then expiry within its budget with the time at which the round began.
/// So packets that had arrived when the round began are read before anybody is declared silent. A
/// round that began late by more than a tick or 250 ms is a stall: nobody expires until everything
/// that arrived meanwhile has been read once.
class Shard final : private SessionHost, private AcceptSink, private TimerErrorSink {
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

  // --- On the shard's thread ---

  /// Binds one listener. Returns the port it got. Throws boost::system::system_error.
  std::uint16_t bind(const boost::asio::ip::tcp::endpoint& endpoint);
  /// Listens on what was bound and accepts from then on. Throws boost::system::system_error.
  void listen(int backlog);

  /// Stops accepting and sends every session away with GOAWAY (draining), spread evenly over
  /// `window`; calls ShardObserver::on_drained() when none is left. A second call with a shorter
  /// window hurries.
  void drain(Duration window);

  /// Makes every user offline with reason `shutdown`, for a stop that keeps no snapshot.
  void shut_users_down();

  /// What the registry knows of a uid whose home is here.
  [[nodiscard]] UserView find_user(std::string_view uid);
  /// Fills in the last packet and timeout of those `sessions` that live here.
  struct LiveSession {
    SessionRef session;
    MonoTime last_packet;
    Duration timeout;
    bool found = false;
  };
  void read_sessions(std::span<LiveSession> sessions);

  [[nodiscard]] const ShardOptions& options() const noexcept { return options_; }
  [[nodiscard]] const ShardCounters& counters() const noexcept { return counters_; }  // any thread
  [[nodiscard]] const TimerCounts& timer_counts() const noexcept { return timers_.counts(); }

  static constexpr std::size_t kTickParts = 16;
  /// Hooks that the wheel visits for each one that may be handled in a round: looking at a hook
  /// is that much cheaper than declaring its session silent.
  static constexpr std::size_t kVisitsPerHandled = 16;
  /// A round of this length is worth a line in the log.
  static constexpr Duration kLongRound = std::chrono::milliseconds{50};
  /// A round that begins this late counts as a stall even where a tick is shorter.
  static constexpr Duration kStallMin = std::chrono::milliseconds{250};
  /// Behind an expiry, sockets are closed by so many (about 1.5 ms) each kCloseStep: a mass expiry
  /// leaves the processors to the decisions of the other shards, and to those who are alive.
  static constexpr std::size_t kClosesPerStep = 128;
  static constexpr Duration kCloseStep = std::chrono::milliseconds{20};
  /// Connections over the cap that are told so at one time; further ones are just closed.
  static constexpr std::size_t kBusySessionsMax = 256;

 private:
  using LoopTimer =
      boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>,
                                        boost::asio::io_context::executor_type>;

  /// Lingering users whose deadline has come, until every shard has answered the fence.
  struct Fence {
    std::size_t answers_missing = 0;
    HookList hooks;
    [[nodiscard]] bool idle() const noexcept { return answers_missing == 0 && hooks.empty(); }
  };
  /// Sending all sessions away.
  struct Departure {
    bool running = false;
    MonoTime end{};
    std::uint32_t next_slot = 0;
  };

  // The loop (shard.cc).
  void run();
  void run_round();
  [[nodiscard]] bool has_work() const noexcept;
  void poll_handlers();
  void note_stall();
  void note_length(Duration length);
  void serve_input_drain();
  void expire();
  void sort_in(HookList& expired);
  [[nodiscard]] TimerHook* next_expired() noexcept;
  void dispatch(TimerHook& hook);
  void serve_fence();
  void do_wait_close();
  void close_some();
  void hand_on_edges();
  void flush_mail();
  void arm_wakeup();
  void end_all_sessions();

  // Mail and users (shard_mail.cc).
  void deliver(MailBatch batch);
  void deliver_own_mail();
  void on_mail(LoginMail& mail);
  void on_mail(LoginAnswerMail& mail);
  void on_mail(EndMail& mail);
  void on_mail(DismissMail& mail);
  void on_mail(FenceMail& mail);
  void on_mail(FenceAnswerMail& mail);
  void send_mail(ShardIndex to, Mail mail);
  void update_user_gauges();
  void forget_offline_users(MonoTime now);

  // Leaving (shard.cc).
  void send_some_away();

  // SessionHost.
  void submit_login(const LoginSubmission& login) override;
  void session_ended(const SessionEnd& end) override;
  void close_later(Session& session) override;
  void destroy(Session& session) noexcept override;
  void report_refusal(const Session& session, proto::ErrorCode code) override;
  // AcceptSink.
  void on_accepted(ShardSocket&& socket) override;
  void on_accept_paused(int error, Duration pause) override;
  // TimerErrorSink.
  void on_timer_failure(std::string_view timer, std::string_view what,
                        bool cancelled) noexcept override;

  const ShardOptions options_;
  Sequencer& sequencer_;
  ShardObserver& observer_;
  std::vector<Shard*> peers_;

  ShardCounters counters_;
  // The order matters: what is pending on the loop refers to sessions, these to the context, and
  // all of them to the wheel.
  TimeWheel wheel_;
  TimerService timers_;
  PresenceRegistry registry_;
  ShardContext context_;
  SessionSlab slab_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  LoopTimer wakeup_timer_;
  LoopTimer close_timer_;
  LoopTimer departure_timer_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;

  std::optional<Tick> wakeup_;        // what wakeup_timer_ waits for
  std::optional<MonoTime> expected_;  // when the next round has to begin at the latest
  bool wheel_work_left_ = false;
  // What expired and is not handled yet, by the part of the tick in which its deadline lies: when
  // very many expire at once, those who have waited longest are decided first.
  std::array<HookList, kTickParts> expired_;
  std::size_t first_expired_ = kTickParts;  // of the lists: all before it are empty
  bool stopping_ = false;
  HookList due_lingering_;  // waits for the next fence
  Fence fence_;
  InputDrain input_drain_;
  bool stalled_ = false;                    // nobody expires until input_drain_ is over
  std::vector<ShardIndex> fences_asked_;    // home shards that wait for the next input drain
  std::vector<ShardIndex> fences_running_;  // answered when input_drain_ is over
  std::vector<SessionPtr> closing_;
  Departure departure_;
  EdgeBatch edges_;
  std::vector<MailBatch> outboxes_;  // by destination
  Timer statistics_timer_;
  Timer retention_timer_;
  std::thread thread_;
};

}  // namespace pulsewheel

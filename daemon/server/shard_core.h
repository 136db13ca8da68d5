// ShardCore: what one shard decides, and in which order. Pure: told the time, does no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/time.h"
#include "daemon/core/edge.h"
#include "daemon/core/presence_registry.h"
#include "daemon/core/tick.h"
#include "daemon/core/time_wheel.h"
#include "daemon/core/timer_service.h"
#include "daemon/server/input_drain.h"
#include "daemon/server/shard_mail.h"

namespace pulsewheel {

/// The shell round a ShardCore: it has the sockets and the sessions. Called on the shard's thread.
class ShardHost {
 public:
  /// When the silence of the session that `hook` (kind kSession) is part of becomes final.
  [[nodiscard]] virtual MonoTime deadline_of(const TimerHook& hook) const noexcept = 0;
  /// The deadline of the session that `hook` is part of has come: end it, or put it off.
  virtual void on_session_due(TimerHook& hook, MonoTime now) = 0;
  /// False: that session is gone, or closed while the home shard decided.
  [[nodiscard]] virtual bool on_login_answer(const LoginAnswerMail& mail) = 0;
  /// Tell the client, if it is still there, and close.
  virtual void on_dismissed(const DismissMail& mail) = 0;
  /// Pause the deadline of that session, if it is still there, or let it go on.
  virtual void on_hold(const HoldMail& mail) = 0;

  /// Bounds on what may lie unread in this moment.
  struct UnreadMax {
    std::size_t accepts = 0;   // connections in the accept queues
    std::size_t handlers = 0;  // handlers that one event on every descriptor makes
  };
  [[nodiscard]] virtual UnreadMax unread_max() const noexcept = 0;

  /// A user's hold has come to its own end.
  virtual void on_hold_over(std::string_view uid, MonoTime now) = 0;

  /// A round began `late` after it had to. Nobody expires until everything has been read once.
  virtual void on_stall(Duration late) = 0;
  /// A tick after note_touched(): ShardCore::touch() is to be called for each session that has had
  /// packets since the last time.
  virtual void on_touches_due() {}
  /// All shards are asked to read first, because the deadlines of lingering users have come.
  virtual void on_fence() = 0;

 protected:
  ~ShardHost() = default;
};

/// The rules by which a shard turns packets, mail and time into presence, without a socket or a
/// clock in them: the daemon runs them on an event loop (Shard), and a test runs a whole node of
/// them in virtual time. Confined to the shard's thread.
///
/// The shell calls, in each round of its loop: begin_round(); while accepting(), one burst of
/// accepts and on_accepts(); what else is ready, up to its cap, and on_poll(); then expire(),
/// deliver_own_mail(), and end_round(). Mail for others and edges are taken off in between.
///
/// Rules:
/// - What had arrived when a round began is read before anybody is declared silent; nobody expires
///   by a later time than that.
/// - A round that began late by more than a tick, and more than kStallMin, is a stall: nobody
///   expires before everything that arrived meanwhile has been read once.
/// - A user whose last session fell silent, or who lingers, may be coming back through another
///   shard, in whose accept queue or sockets the LOGIN lies. So every shard reads what has arrived
///   (a fence) before such an end is final. It is asked for when somebody is due, and at most
///   once per tick.
/// - When very many expire at once, those who have waited longest are decided first.
class ShardCore {
 public:
  struct Options {
    ShardIndex index = 0;
    std::size_t shards = 1;  // of the node
    TickClock clock{MonoTime{}, std::chrono::seconds{1}};
    PresenceRegistry::Options registry;
    std::size_t expiry_budget = 256;  // expired hooks handled per round
  };

  /// `now`: the wheel's start. `host` and `timer_errors` outlive the core.
  ShardCore(const Options& options, MonoTime now, ShardHost& host, TimerErrorSink& timer_errors);
  ShardCore(const ShardCore&) = delete;
  ShardCore& operator=(const ShardCore&) = delete;

  // --- One round ---

  void begin_round(MonoTime now);
  /// How late this round began, where a deadline had asked for one and nothing came before it.
  [[nodiscard]] std::optional<Duration> wakeup_delay() const noexcept { return wakeup_delay_; }
  /// Whether the accept queues have to be emptied.
  [[nodiscard]] bool accepting() const noexcept { return input_drain_.accepting(); }
  /// A burst took at most `accepts` connections; `emptied`: it found the queues empty at the end.
  void on_accepts(std::size_t accepts, bool emptied) noexcept {
    input_drain_.on_accepts(accepts, emptied);
  }
  /// `handlers` were run; `ran_dry`: nothing was ready at the end.
  void on_poll(std::size_t handlers, bool ran_dry);
  /// Hands out what the wheel says, within the budget. Returns whether anything was due.
  bool expire();
  /// Ends behind the fence, within the budget, whoever fell silent or lingered to the end. `now`:
  /// read just before.
  void finish_due(MonoTime now);
  /// Handles the mail that this shard wrote to itself, until there is none. `now` as above.
  void deliver_own_mail(MonoTime now);

  struct Next {
    bool at_once = false;        // work is left: do not wait
    std::optional<Tick> wakeup;  // else the next tick with work, if any
  };
  [[nodiscard]] Next end_round() noexcept;
  /// Whether there is work without waiting for anything.
  [[nodiscard]] bool has_work() const noexcept;

  // --- Mail and edges ---

  /// Mail from another shard.
  void deliver(MailBatch& batch, MonoTime now);
  /// What has been written to shard `to`, until whoever carries it takes it out.
  [[nodiscard]] MailBatch& outbox(ShardIndex to) noexcept { return outboxes_[to]; }
  [[nodiscard]] MailBatch take_mail(ShardIndex to) noexcept {
    return std::exchange(outboxes_[to], {});
  }
  [[nodiscard]] const EdgeBatch& edges() const noexcept { return edges_; }
  [[nodiscard]] EdgeBatch take_edges() noexcept { return std::exchange(edges_, EdgeBatch{}); }
  /// Whose deadline has changed, at most one budget of them; none without track_deadlines. After
  /// the edges of the round: who is in it is online behind them.
  [[nodiscard]] DeadlineBatch take_deadlines();

  // --- Sessions of this shard ---

  /// Asks the uid's home shard. Where memory runs out std::bad_alloc is thrown, and nothing is
  /// sent.
  void submit_login(const LoginSubmission& login);
  /// Exactly once for each accepted login.
  void session_ended(const SessionEnd& end);

  /// Sessions have had packets: asks for them, once a tick. With track_deadlines only.
  void note_touched(MonoTime now) noexcept;
  /// A live session has had packets: its home shard hears of it at the end of the round.
  void touch(const SessionTouch& touch) { touches_[touch.user.shard].push_back(touch); }

  // --- Users whose home is here ---

  [[nodiscard]] UserView find_user(std::string_view uid, MonoTime now) const {
    return registry_.find(uid, now);
  }
  /// See PresenceRegistry::list_online().
  bool list_online(std::uint32_t* cursor, std::size_t slots, std::size_t users,
                   std::vector<ListedUser>& out) const {
    return registry_.list_online(cursor, slots, users, out);
  }
  /// Ends all sessions of a user. How many of them were connected; nullopt: not online.
  /// `last_packet`: as in PresenceRegistry::kick().
  std::optional<std::size_t> kick(std::string_view uid, MonoTime now,
                                  MonoTime last_packet = MonoTime::min());
  /// Pauses a user's expiry until `until`: see PresenceRegistry::hold().
  PresenceRegistry::HoldVerdict hold(std::string_view uid, MonoTime until, MonoTime now);
  /// How long the user was held; nullopt: not held.
  std::optional<Duration> release(std::string_view uid, MonoTime now);
  /// A user whom no node held went offline, in the ring in Redis: an edge, with reason `timeout`
  /// and without a last_seen. False, and no edge: the user is online here, and stays. Requires a
  /// uid as in LoginRequest.
  bool report_offline(std::string_view uid, MonoTime now);
  /// See PresenceRegistry::restore().
  bool restore(const UserDeadline& user, MonoTime now) {
    return registry_.restore(user.uid, user.last_seen, user.deadline, now);
  }
  /// The same for all of `users`. How many of them were taken back, online and offline.
  struct Restored {
    std::size_t online = 0;
    std::size_t offline = 0;
  };
  Restored restore(const UserImageBatch& users, MonoTime now);
  /// Takes over what PresenceRegistry::change() does, and another expiry budget.
  void change(const PresenceRegistry::Options& registry, std::size_t expiry_budget, MonoTime now);
  // For an end of the node at which users stay online.

  /// From now on a session that ends for whatever reason lets its user linger, and nobody who
  /// lingers goes offline: nobody can come back.
  void hold_lingering();
  /// Who fell silent and waits for a fence that will not come lingers at home instead.
  void release_silent(MonoTime now);

  /// Makes at most one budget of users offline with reason `shutdown`. False while some are left.
  [[nodiscard]] bool shut_users_down(MonoTime now);

  [[nodiscard]] const PresenceRegistry& registry() const noexcept { return registry_; }
  [[nodiscard]] TimeWheel& wheel() noexcept { return wheel_; }
  [[nodiscard]] TimerService& timers() noexcept { return timers_; }
  [[nodiscard]] const TimerService& timers() const noexcept { return timers_; }

  /// A round that begins this late counts as a stall even where a tick is shorter.
  static constexpr Duration kStallMin = std::chrono::milliseconds{250};
  /// Parts of a tick by which expired sessions are put in order.
  static constexpr std::size_t kTickParts = 16;
  /// Hooks that the wheel visits for each one that may be handled in a round: looking at a hook
  /// is that much cheaper than declaring its session silent.
  static constexpr std::size_t kVisitsPerHandled = 16;
  /// Changed deadlines handed on in a round: about 0.1 ms.
  static constexpr std::size_t kDeadlinesPerRound = 1'024;

 private:
  /// Whose time has come: lingering users whose home is here, and silent sessions of this shard.
  struct Due {
    HookList lingering;
    std::vector<SessionEnd> silent;
    std::size_t next_silent = 0;  // those before it are done

    [[nodiscard]] bool empty() const noexcept {
      return lingering.empty() && next_silent == silent.size();
    }
    /// Moves all of `other` behind what is here.
    void append(Due& other);
    void clear_done() noexcept;
  };
  /// Until every shard has read what had arrived when it was asked.
  struct Fence {
    std::size_t answers_missing = 0;
    MonoTime asked = MonoTime::min();

    [[nodiscard]] bool running() const noexcept { return answers_missing > 0; }
  };

  void note_delay();
  void start_input_drain();
  /// Where somebody whose deadline was at `deadline` has to wait.
  [[nodiscard]] Due& due_at(MonoTime deadline) noexcept;
  void raise_fence();
  void answer_fences();
  void sort_in(HookList& expired);
  [[nodiscard]] TimerHook* next_expired() noexcept;
  void dispatch(TimerHook& hook);
  void end_hold(TimerHook& hook);

  void on_mail(LoginMail& mail, MonoTime now);
  void on_mail(LoginAnswerMail& mail, MonoTime now);
  void on_mail(EndMail& mail, MonoTime now);
  void on_mail(TouchMail& mail, MonoTime now);
  void on_mail(DismissMail& mail, MonoTime now);
  void on_mail(HoldMail& mail, MonoTime now);
  void on_mail(FenceMail& mail, MonoTime now);
  void on_mail(FenceAnswerMail& mail, MonoTime now);
  void tell_hold(const std::vector<SessionRef>& sessions, std::optional<MonoTime> since);
  [[nodiscard]] LoginDecision decide(const LoginMail& mail, MonoTime now);
  template <class M>
  void send_mail(ShardIndex to, M mail) {
    outboxes_[to].emplace_back(std::in_place_type<M>, std::move(mail));
  }
  void forget_offline_users(MonoTime now);
  void collect_touches();

  const Options options_;  // of its registry and expiry_budget only what holds at the start
  std::size_t expiry_budget_;
  ShardHost& host_;
  TimeWheel wheel_;
  TimerService timers_;
  PresenceRegistry registry_;

  MonoTime began_{};                  // the round that runs, or the last one
  std::optional<MonoTime> expected_;  // when the next round has to begin at the latest
  bool asleep_ = false;               // since the last round, which left nothing to do
  std::optional<Duration> wakeup_delay_;
  bool wheel_work_left_ = false;
  // What expired and is not handled yet, by the part of the tick in which its deadline lies.
  std::array<HookList, kTickParts> expired_;
  std::size_t first_expired_ = kTickParts;  // of the lists: all before it are empty
  // A fence holds for everybody whose deadline had come when it was asked for, also for those who
  // are found out later: a mass expiry takes one, not one for each round.
  Due ready_;      // behind a fence that has passed
  Due fenced_;     // behind the one that runs
  Due waiting_;    // for the next one
  HookList held_;  // since hold_lingering(): lingering users whose deadline has come
  bool holding_ = false;
  Fence fence_;
  MonoTime fenced_until_ = MonoTime::min();  // deadlines up to here are behind a passed fence
  InputDrain input_drain_;
  bool stalled_ = false;  // nobody expires until input_drain_ is over
  // Shards that asked for a fence, by what they wait for: the next input drain; the one that runs;
  // the next round.
  std::vector<ShardIndex> fences_asked_;
  std::vector<ShardIndex> fences_running_;
  std::vector<ShardIndex> fences_read_;
  EdgeBatch edges_;
  std::vector<MailBatch> outboxes_;                 // by destination
  std::vector<std::vector<SessionTouch>> touches_;  // of this tick, by home shard
  Timer retention_timer_;
  Timer touch_timer_;
};

}  // namespace pulsewheel

// VirtualShard: the real decisions of a shard (ShardCore) round virtual sockets and virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/core/session_fsm.h"
#include "daemon/server/shard_core.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace pulsewheel::nodesim {

/// Which shard is the home of a uid.
inline constexpr std::uint64_t kHashSeed = 42;

/// What daemon/net/session.cc does, on a Connection instead of a socket.
struct VirtualSession : TimerHook {
  VirtualSession(ConnectionRef on, SessionRef self, MonoTime accepted, Duration login_timeout)
      : TimerHook(HookKind::kSession), fsm(accepted, login_timeout), connection(on), ref(self) {}

  [[nodiscard]] bool closed() const noexcept { return fsm.state() == SessionState::kClosed; }
  [[nodiscard]] bool takes_frames() const noexcept {
    return fsm.state() == SessionState::kAwaitingLogin || fsm.state() == SessionState::kActive;
  }

  SessionFsm fsm;
  ConnectionRef connection;
  SessionRef ref;
  UserRef user;  // generation 0 until the home shard has accepted
  std::optional<MonoTime> held_since;
  bool ready = false;          // its read stands in the loop's queue
  bool finishing = false;      // the last frame is sent
  std::vector<Packet> behind;  // read behind the LOGIN, and waiting for the answer
};

/// Where a shard's mail goes.
class MailCarrier {
 public:
  virtual void post(ShardIndex from, ShardIndex to, MailBatch batch, MonoTime at) = 0;

 protected:
  ~MailCarrier() = default;
};

/// What daemon/server/shard.cc does: rounds of the loop, sessions, mail. A round happens at one
/// moment of the world, but its clock runs on by what each handler costs. Between reading and
/// deciding, the shard may lose its processor for long.
class VirtualShard final : private ShardHost, private TimerErrorSink {
 public:
  /// `epoch`: which start of the node this is; grows.
  VirtualShard(World& world, Network& network, MailCarrier& carrier, ShardIndex index,
               std::uint32_t epoch, const Timeouts& timeouts);
  VirtualShard(const VirtualShard&) = delete;
  VirtualShard& operator=(const VirtualShard&) = delete;

  // --- What comes from outside ---

  void on_connect(Connection& connection);
  /// Something has arrived in the socket of an accepted connection.
  void on_readable(const Connection& connection);
  void on_mail(MailBatch batch);
  void post_kick(std::uint32_t user);
  void post_hold_or_release(std::uint32_t user);
  void post_reload(const Timeouts& timeouts);
  void stall(MonoTime until) noexcept { stalled_until_ = std::max(stalled_until_, until); }

  // --- Its own events ---

  void on_wake(std::uint32_t token);
  void on_round();
  void on_rest_of_round();
  void close_some();
  void renegotiate_some();

  // --- A clean stop ---

  /// Accepts nobody any more; who waits in the accept queue is turned away.
  void stop_accepting();
  /// Sends the next `count` sessions away.
  void send_away(std::size_t count);
  void shut_users_down();

  // --- Observing ---

  /// Nothing to do before the next wake-up.
  [[nodiscard]] bool at_rest() const noexcept { return !round_pending_ && !in_round_; }
  [[nodiscard]] const ShardCore& core() const noexcept { return core_; }
  [[nodiscard]] bool asleep_for_good() noexcept { return !core_.wheel().next_wakeup(); }
  [[nodiscard]] std::size_t sessions() const noexcept { return slab_.size() - free_.size(); }
  /// Of sessions that are logged in. O(sessions).
  [[nodiscard]] std::size_t active_sessions() const;

 private:
  struct Handler {
    enum class Kind : std::uint8_t { kAccept, kRead, kMail, kKick, kHold, kReload };
    Kind kind = Kind::kRead;
    std::uint32_t index = 0;  // of the session, or the user
    std::uint32_t generation = 0;
  };

  // The loop.
  void add_handler(Handler handler);
  void want_round();
  void push_event(EventKind kind, MonoTime at, std::uint32_t token = 0);
  bool run_handler();
  void poll_handlers();
  bool accept_burst();
  void deliver(MailBatch batch);
  void deliver_own_mail();
  void lie_about_reading();
  void collect_mail();
  void tell_edges();
  void tell_deadlines();
  void flush_mail();
  [[nodiscard]] MailBatch hold_logins_back(ShardIndex to, MailBatch& batch);
  void sleep_until(const ShardCore::Next& next);

  // Sessions.
  [[nodiscard]] VirtualSession* find(std::uint32_t index, std::uint32_t generation) noexcept;
  void accept(Connection& connection);
  void want_read(VirtualSession& session);
  void read(VirtualSession& session);
  void handle(VirtualSession& session, Packet packet);
  void handle_login(VirtualSession& session);
  void file_deadline(VirtualSession& session);
  void apply_timeouts(VirtualSession& session);
  [[nodiscard]] TimeoutPolicy policy() const noexcept;
  void end(VirtualSession& session, CloseReason reason);
  void end_with_farewell(VirtualSession& session, CloseReason reason);
  void release(VirtualSession& session);
  void hold_or_release(std::uint32_t user);
  void hold(VirtualSession& session, MonoTime since);
  void let_go_on(VirtualSession& session);

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
  // TimerErrorSink.
  void on_timer_failure(std::string_view, std::string_view, bool) noexcept override {}

  World& world_;
  Network& network_;
  MailCarrier& carrier_;
  const ShardIndex index_;
  const std::uint32_t epoch_;
  const TickClock clock_;
  TouchedSessions touched_;
  Timeouts timeouts_;
  Timeouts reloaded_;                    // by Handler::Kind::kReload
  std::uint32_t next_renegotiated_ = 0;  // slot of the slab

  MonoTime now_{};    // the round's own clock
  MonoTime began_{};  // of the round
  MonoTime stalled_until_ = MonoTime::min();
  bool round_pending_ = false;
  bool in_round_ = false;
  std::optional<Tick> wakeup_;
  std::uint32_t wake_token_ = 0;

  std::deque<ConnectionRef> accept_queue_;
  bool accept_ready_ = false;
  std::deque<Handler> ready_;
  std::deque<MailBatch> mailbox_;
  std::vector<MailBatch> outboxes_;
  std::vector<MailBatch> held_back_;  // by destination: Sabotage::kLoginsOvertaken
  int rounds_to_hold_ = 0;
  bool blind_ = false;  // in this round: Sabotage::kBlindStall
  MailBatch one_;       // the mail that is being delivered

  ShardCore core_;  // before the sessions, whose hooks are on its wheel
  std::vector<std::unique_ptr<VirtualSession>> slab_;
  std::vector<std::uint32_t> generations_;
  std::vector<std::uint32_t> free_;
  std::vector<SessionRef> closing_;
  int close_delays_ = 0;
  std::uint32_t next_sent_away_ = 0;
};

}  // namespace pulsewheel::nodesim

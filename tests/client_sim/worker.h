// Worker: one thread's share of the clients, with its own event loop and descriptor table.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/time.h"
#include "proto/frame.h"
#include "tests/client_sim/calendar.h"
#include "tests/client_sim/connection.h"
#include "tests/client_sim/edge_inbox.h"
#include "tests/client_sim/habits.h"
#include "tests/client_sim/judge.h"
#include "tests/client_sim/options.h"
#include "tests/client_sim/random.h"
#include "tests/client_sim/ring_record.h"
#include "tests/client_sim/run_control.h"
#include "tests/client_sim/uid_names.h"

namespace pulsewheel::sim {

/// Figures for whoever watches; written by the worker's thread only.
struct WorkerStats {
  Gauge connected;            // sockets open
  Counter first_logins;       // clients that were accepted once: the ramp is over when all were
  Counter logins;             // accepted
  Counter refusals;           // connections that ended before LOGIN_ACK
  Counter unexpected_closes;  // by the daemon, of clients that kept alive
  Counter keepalives;         // sent
  Counter keepalive_acks;
  Counter messages;  // sent
  Counter message_acks;
  Gauge online;  // by the daemon's edges
  Gauge offline_edges;
  Gauge violations;
  std::array<Counter, kChurnActs> churned;  // by act
  Counter cut;                              // connections, by a cut
  Counter back;                             // logins of clients that were cut
  Counter back_late;                        // of them, later than --back-within
  std::atomic<std::int64_t> slowest_back_ns{0};
  std::atomic<std::int64_t> last_first_login_ns{0};
};

/// Runs clients `first_client` to `first_client + clients - 1` of the run, which are the sessions
/// of whole users. Made by the main thread; run() belongs to the worker's own thread, and inbox(),
/// desk() and stats() may be used by any thread. Everything passed in must outlive it.
class Worker {
 public:
  struct Setup {
    const Options* options = nullptr;
    const Endpoint* target = nullptr;
    const UidNames* names = nullptr;
    JudgeRules rules;
    std::uint32_t first_client = 0;
    std::uint32_t clients = 0;
    std::uint32_t logins_pending_max = 64;  // what the daemon's accept queue should not exceed
    double ramp = 0;                        // connections a second of this worker; 0: unlimited
    double churn = 0;                       // acts a second of this worker
  };

  Worker(const Setup& setup, RunControl& control);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Opens the loop's descriptor, runs the clients until Phase::kEnd, and judges them.
  void run();

  [[nodiscard]] EdgeInbox& inbox() noexcept { return inbox_; }
  /// Where the judge's record is to be had while run() goes on.
  [[nodiscard]] RecordDesk& desk() noexcept { return desk_; }
  [[nodiscard]] const WorkerStats& stats() const noexcept { return stats_; }
  /// After run() returned.
  [[nodiscard]] const Verdict& verdict() const noexcept { return verdict_; }

 private:
  enum class State : std::uint8_t {
    kAway,        // no connection; may come back
    kConnecting,  // the LOGIN could not be sent yet
    kLoggingIn,   // LOGIN sent
    kLive,
    kSilent,      // connected, sends nothing more
    kLoggingOut,  // LOGOUT sent
    kGone,        // no connection, does not come back
  };

  struct Client {
    int descriptor = -1;
    std::uint32_t generation = 0;  // of the connection: what belongs to an older one is ignored
    State state = State::kAway;
    bool was_accepted = false;
    std::uint32_t timeout_ms = 0;
    std::uint32_t interval_ms = 0;
    std::uint32_t retry_after_ms = 0;  // from GOAWAY
    MonoTime last_packet;
    MonoTime keepalive_at;      // the next one, and none before
    MonoTime back_at;           // while kLoggingOut or kSilent: when it comes back; 0: never
    MonoTime calm_until;        // no churn before: what the last act causes must have been seen
    MonoTime held_until;        // nothing before: the user is being kicked
    MonoTime cut_at;            // of a cut that it is not back from; 0: none
    MonoTime superseded_until;  // when the session that it last took over ran out by itself
    std::uint32_t superseded_generation = 0;  // of the connection that it last took over from
    bool takeover_doubted = false;  // the old session may have ended before the LOGIN was read
    bool taking_over = false;       // its LOGIN is to end the session of its older connection
    bool end_expected = false;      // the daemon said why it will close
    bool is_doomed = false;         // the connection is one to a daemon that has left meanwhile
  };

  /// The old connection of a client that opened a second one, kept until the daemon ends it.
  struct Superseded {
    int descriptor = -1;
    std::uint32_t index = 0;  // of the client
    bool told = false;        // by GOAWAY
    std::vector<std::byte> input;
  };

  enum class Action : std::uint8_t {
    kConnect,
    kKeepalive,
    kHabit,
    kAnswerDeadline,
    kCloseDeadline,     // of a silent client's connection, by the daemon
    kTakeoverDeadline,  // of the old connection of a client that took over
  };

  struct Appointment {
    std::uint32_t client = 0;
    std::uint32_t generation = 0;  // that it holds for; kHabit holds for any
    Action action = Action::kConnect;
  };

  // The loop.
  void wait_and_read();
  [[nodiscard]] int wait_ms(MonoTime now) const noexcept;
  void follow_phase(MonoTime now);
  void follow_control(MonoTime now);
  void take_edges();
  void keep_appointments(MonoTime now);
  void publish_verdict() noexcept;
  void tell_findings();

  // Phases.
  void continue_ramp(MonoTime now);
  void plan_habits(MonoTime began);
  void plan_habit(std::uint32_t index, MonoTime began, Duration run);
  void continue_churn(MonoTime now);
  void fall_silent_all();
  void leave_all();

  // One client.
  void connect(std::uint32_t index);
  void send_login(std::uint32_t index);
  void send_packet(std::uint32_t index, bool wants_reply);
  void send_logout(std::uint32_t index);
  void act_on_habit(std::uint32_t index, MonoTime now);
  void act_on_churn(std::uint32_t index, ChurnAct act, MonoTime now);
  void fall_silent(std::uint32_t index);
  void fall_silent_for(std::uint32_t index, MonoTime now, Duration away);
  void take_over(std::uint32_t index);
  void cut(double percent, MonoTime now);
  void await_restart(MonoTime now);
  [[nodiscard]] bool is_left_alone(const Client& client) const;
  void kick_somebody(MonoTime now);
  void disconnect(std::uint32_t index, bool abruptly);
  void disconnect(std::uint32_t index, bool abruptly, MonoTime now, Duration away);
  void come_back_after(std::uint32_t index, MonoTime now, Duration away);
  void drop_connection(std::uint32_t index, bool abruptly) noexcept;
  void schedule_keepalive(std::uint32_t index, MonoTime due);

  // What arrives.
  void on_ready(std::uint32_t index, std::uint32_t events);
  void on_readable(std::uint32_t index);
  void on_bytes(std::uint32_t index, std::span<const std::byte> bytes);
  void on_frame(std::uint32_t index, const proto::Frame& frame);
  void on_login_ack(std::uint32_t index, const proto::LoginAck& ack);
  void on_goaway(std::uint32_t index, const proto::Goaway& goaway);
  void on_settings(std::uint32_t index, const proto::Settings& settings);
  void on_lost(std::uint32_t index, int error);
  void on_back_from_cut(Client& client, MonoTime now);
  void on_superseded_ready(std::uint64_t key);
  void on_superseded_bytes(Superseded& old, std::span<const std::byte> bytes);
  void end_superseded(std::uint64_t key, bool untold);
  void check_takeover(const Appointment& appointment, MonoTime now);

  [[nodiscard]] bool send_bytes(std::uint32_t index, std::span<const std::byte> bytes,
                                Stamp& stamp) noexcept;
  [[nodiscard]] Duration timeout_of(const Client& client) const noexcept {
    return std::chrono::milliseconds{client.timeout_ms};
  }
  [[nodiscard]] Duration allowance() const noexcept {
    return setup_.rules.tick + setup_.rules.slack + setup_.rules.grace;
  }
  [[nodiscard]] std::uint32_t user_of(std::uint32_t index) const noexcept;
  [[nodiscard]] bool is_calm(std::uint32_t index, MonoTime now) const noexcept {
    const Client& client = clients_[index];
    return client.state == State::kLive && client.calm_until <= now && client.held_until <= now;
  }
  /// Whether churn may hit a session: it and the others of its user are calm, or so long gone that
  /// the daemon has dropped them. Nobody promises an order between two connections, so of two acts
  /// at once nobody could say which edges they owe.
  [[nodiscard]] bool may_churn(std::uint32_t index, MonoTime now) const noexcept;
  /// Whether a session of the same user waits for the answer to its LOGOUT.
  [[nodiscard]] bool sibling_logs_out(std::uint32_t index) const noexcept;
  /// The sessions of the user that session `index` belongs to.
  [[nodiscard]] std::span<const Client> siblings_of(std::uint32_t index) const noexcept;
  /// How epoll knows a connection.
  [[nodiscard]] static std::uint64_t key_of(std::uint32_t generation,
                                            std::uint32_t index) noexcept {
    return std::uint64_t{generation} << 32 | index;
  }

  Setup setup_;
  RunControl& control_;
  Judge judge_;
  Random random_;
  std::vector<Client> clients_;
  Calendar<Appointment> calendar_;
  EdgeInbox inbox_;
  RecordDesk desk_;
  std::vector<UserEdge> edges_;  // taken from the inbox
  /// Starts of frames whose rest has not come yet, by client. Rare: answers are small.
  std::unordered_map<std::uint32_t, std::vector<std::byte>> partial_;
  std::unordered_map<std::uint64_t, Superseded> superseded_;  // by key_of()
  std::array<std::byte, 16 * 1024> read_buffer_;
  int epoll_ = -1;
  std::uint32_t next_to_connect_ = 0;
  std::uint32_t logins_pending_ = 0;
  std::uint32_t wish_ms_ = 0;
  std::uint64_t next_message_id_ = 1;
  MonoTime began_;
  MonoTime churned_until_;
  MonoTime churn_ends_;
  std::size_t stall_steps_done_ = 0;
  std::size_t restarts_done_ = 0;
  bool daemon_is_away_ = false;
  std::uint32_t cuts_done_ = 0;
  bool planned_ = false;
  bool silenced_ = false;
  WorkerStats stats_;
  Verdict verdict_;
};

}  // namespace pulsewheel::sim

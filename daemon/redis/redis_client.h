// RedisClient: keeps one connection to a Redis server, and sends commands over it.
//
//     RedisClient redis(io, options);        // on the thread that runs io
//     redis.start();
//     if (auto ec = redis.submit({"HEXISTS", key, uid}, [](error_code ec, RedisReply reply) { ...
//     }))
//       ...                                  // refused: nothing was sent, the callback is dropped
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/redis/backoff.h"
#include "daemon/redis/host_resolver.h"
#include "daemon/redis/redis_command.h"
#include "daemon/redis/redis_connection.h"
#include "daemon/redis/redis_counters.h"
#include "daemon/redis/redis_script.h"

namespace pulsewheel {

/// Confined to the thread that runs its io_context; only state() and counters() are for all
/// threads. It connects again by itself, after a back-off with jitter, for as long as it is
/// started.
///
/// Nothing is sent twice by itself: when a connection is lost, every command in flight gets an
/// error and may or may not have been carried out; whoever sent it repairs. (The one exception is a
/// script that the server has answered not to know.) Nothing waits for a connection either: without
/// one, and beyond the bounds on what is in flight, a command is refused.
///
/// The look-up of the host's name has a thread of its own, which nothing ever waits for: see
/// HostResolver. Addresses in digits and sockets need none.
class RedisClient {
 public:
  enum class State : std::uint8_t {
    kStopped,
    kConnecting,
    kReady,    // commands are accepted
    kWaiting,  // for the next attempt to connect
  };

  struct Options {
    RedisConnectionOptions connection;
    Backoff::Options backoff;
    /// A connection has to stand for this long before a loss of it counts as a new trouble, with
    /// the shortest back-off again.
    Duration stable_after = std::chrono::seconds{5};
    std::uint64_t seed = 0;  // of the back-off's jitter; a node's own

    /// Commands are accepted from now on. May submit; must not destroy the client.
    std::function<void()> on_ready{};
    /// An attempt failed or a connection was lost; the commands in flight have been failed. The
    /// client tries again. Must not destroy it.
    std::function<void(const RedisDown&)> on_down{};
  };

  /// Opens nothing but what the io_context needs for a timer: make it before any thread separates
  /// its descriptor table. The io_context outlives the client.
  RedisClient(boost::asio::io_context& io, Options options);
  /// stop().
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  /// Starts to connect. Once more after stop() is fine.
  void start();

  /// Closes the connection and tries no more. The callbacks of the commands in flight run, with
  /// kStopped, before this returns; on_down does not. Idempotent.
  void stop();

  /// Ends a wait for the next attempt: something has changed (a reload). Else no effect.
  void retry_now();

  /// Sends a command. On success `callback` is called once, later or from within stop(), on the
  /// client's thread; it may submit, and must not destroy the client. Refused with kNotConnected,
  /// kTooManyCommands or kTooManyBytes: nothing is sent and the callback is dropped. O(bytes).
  /// `args` needs to live for the call only, holds at least one word, and is no command that
  /// changes what replies mean (SUBSCRIBE, MONITOR, HELLO, CLIENT REPLY).
  [[nodiscard]] std::error_code submit(RedisArgs args, RedisCallback callback);
  [[nodiscard]] std::error_code submit(std::initializer_list<std::string_view> args,
                                       RedisCallback callback);

  /// Calls a script, by its hash and, where the server does not know that, once more by its source;
  /// the order of commands stays (see RedisConnection). Else as submit(). `script` outlives the
  /// call.
  [[nodiscard]] std::error_code eval(const RedisScript& script, RedisArgs keys, RedisArgs args,
                                     RedisCallback callback);
  /// The same for a call that must not overtake, or come behind, what is sent after it: a script
  /// that the server does not know is not called, and `callback` gets the error reply (NOSCRIPT).
  [[nodiscard]] std::error_code eval_in_turn(const RedisScript& script, RedisArgs keys,
                                             RedisArgs args, RedisCallback callback);

  [[nodiscard]] State state() const noexcept { return state_.load(std::memory_order_relaxed); }
  [[nodiscard]] const RedisCounters& counters() const noexcept { return counters_; }

 private:
  using Executor = boost::asio::io_context::executor_type;

  void connect();
  void on_ready();
  void on_closed(const RedisDown& down);
  void wait(std::chrono::milliseconds delay);
  void set_state(State state) noexcept;
  [[nodiscard]] std::error_code refuse() noexcept;

  boost::asio::io_context& io_;
  const Options options_;
  const std::string name_;  // the URL without secrets, for the log
  HostResolver resolver_;
  RedisCounters counters_;
  Backoff backoff_;
  std::atomic<State> state_{State::kStopped};
  std::size_t attempt_ = 0;  // to connect
  MonoTime ready_since_{};
  std::shared_ptr<RedisConnection> connection_;  // null unless connecting or ready
  boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>, Executor>
      retry_timer_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

[[nodiscard]] std::string_view to_string(RedisClient::State state) noexcept;  // "ready", ...

}  // namespace pulsewheel

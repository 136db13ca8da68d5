// RedisConnection: one connection to a Redis server, from the look-up of its name to its end.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>

#include "daemon/base/time.h"
#include "daemon/redis/host_resolver.h"
#include "daemon/redis/redis_command.h"
#include "daemon/redis/redis_counters.h"
#include "daemon/redis/redis_errc.h"
#include "daemon/redis/redis_handshake.h"
#include "daemon/redis/redis_reply.h"
#include "daemon/redis/redis_script.h"
#include "daemon/redis/redis_secret.h"
#include "daemon/redis/redis_stream.h"
#include "daemon/redis/redis_url.h"
#include "daemon/redis/reply_reader.h"

namespace pulsewheel {

/// Takes what became of a command: an error of redis_category() and a nil reply, or no error and
/// the server's reply, which may be an error reply.
using RedisCallback = std::function<void(std::error_code, RedisReply)>;

/// Why a connection is not there.
struct RedisDown {
  RedisErrc reason = RedisErrc::kNone;
  bool was_ready = false;  // it stood, and was lost
  bool is_slow = false;    // somebody has to change something before it is worth another attempt
  std::string detail{};    // for the log; may be empty
};

/// Where to connect to, and what may be used up on the way.
struct RedisConnectionOptions {
  RedisUrl url;        // its user and password are not looked at
  RedisSecret secret;  // for AUTH
  RedisTls tls;        // for rediss://
  std::string client_name = "pulsewheel";

  Duration connect_timeout = std::chrono::seconds{5};  // from the look-up to the PONG
  Duration command_timeout = std::chrono::seconds{5};  // of the oldest command in flight

  std::size_t commands_in_flight_max = 1024;
  std::size_t bytes_in_flight_max = 8 * 1024 * 1024;  // as sent; a script's call is kept a second
                                                      // time until it is answered
  ReplyLimits reply;
};

/// The shell round RedisHandshake and ReplyReader. Confined to its io_context's thread. Kept alive
/// by its pending operations and by its owner, which gets two events: ready, at most once, and
/// closed, once, unless it has called abandon(). After either, options, resolver and counters are
/// not used.
///
/// Commands are sent in the order of their submission, and answered in it, also when scripts have
/// to be sent again: from the first NOSCRIPT on all that is submitted waits until what is under way
/// has been answered, then the forgotten scripts go first. (Another client that loads the script
/// between two of our calls of it can make the second one overtake the first.)
class RedisConnection : public std::enable_shared_from_this<RedisConnection> {
 public:
  struct Events {
    std::function<void()> ready;
    std::function<void(const RedisDown&)> closed;
  };

  /// `resolver` is for the URL's host.
  RedisConnection(boost::asio::io_context& io, const RedisConnectionOptions& options,
                  HostResolver& resolver, RedisCounters& counters, Events events);

  /// Starts to connect. Of a name's addresses the one at `attempt`, modulo their number, is tried
  /// first, so that one that does not answer does not hide the others for ever. Call once.
  void start(std::size_t attempt);

  /// See RedisClient.
  [[nodiscard]] std::error_code submit(RedisArgs args, RedisCallback callback);
  [[nodiscard]] std::error_code eval(const RedisScript& script, RedisArgs keys, RedisArgs args,
                                     RedisCallback callback);
  [[nodiscard]] std::error_code eval_in_turn(const RedisScript& script, RedisArgs keys,
                                             RedisArgs args, RedisCallback callback);

  /// Ends it without a `closed` event. Every command in flight gets `kStopped` before this returns.
  void abandon();

 private:
  enum class Phase : std::uint8_t { kResolving, kConnecting, kHandshake, kReady, kClosed };
  using Tcp = boost::asio::ip::tcp;
  using Executor = boost::asio::io_context::executor_type;
  using Endpoints = std::vector<RedisStream::Socket::endpoint_type>;

  /// An accepted command without a reply yet.
  struct Command {
    RedisCallback callback;
    MonoTime submitted{};
    std::size_t bytes = 0;
    bool may_lack_script = false;            // NOSCRIPT is an answer, and no trouble
    const RedisScript* script = nullptr;     // of an EVALSHA that is sent again after NOSCRIPT
    std::vector<std::string> script_args{};  // what stands behind the script in its call
  };
  /// Commands in order, and their bytes that have not been given to the socket.
  struct Lane {
    std::deque<Command> commands;
    std::string bytes;
  };

  void do_resolve(std::size_t attempt);
  void on_resolved(std::size_t attempt, const HostAddresses& found);
  void do_connect(Endpoints endpoints);
  void on_connected(boost::system::error_code ec);
  void do_tls_handshake();
  void do_handshake();
  void do_read();
  void on_read(boost::system::error_code ec, std::size_t bytes);
  void do_write();

  void on_reply(RedisReply reply);
  void on_ready();
  void on_handshake_reply(const RedisReply& reply);
  void on_command_reply(RedisReply reply);
  void on_error_reply(ReplyError error, const RedisReply& reply);
  void react(ReplyError error);
  void resend(Command command);
  void end_resending();

  [[nodiscard]] std::error_code send_call(const RedisScript& script, RedisArgs keys, RedisArgs args,
                                          Command command);
  [[nodiscard]] std::error_code check_room(RedisArgs args);
  void accept(RedisArgs args, Command command);
  void release(const Command& command);
  void arm_deadline(MonoTime deadline);
  void on_deadline();
  void close(RedisDown down);
  void fail_commands(RedisErrc reason);

  const RedisConnectionOptions& options_;
  HostResolver& resolver_;
  RedisCounters& counters_;
  Events events_;
  Phase phase_ = Phase::kConnecting;

  RedisStream stream_;
  boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>, Executor>
      deadline_;
  bool deadline_armed_ = false;

  std::optional<RedisHandshake> handshake_;
  ReplyReader reader_;
  std::array<char, 16 * 1024> read_buffer_{};  // what ReplyReader::feed() likes
  std::string write_buffer_;                   // being written; empty: nothing is

  Lane sent_;   // sent, or about to be
  Lane again_;  // scripts that were forgotten
  Lane held_;   // submitted while scripts have to be sent again
  bool is_resending_ = false;
  std::size_t commands_in_flight_ = 0;  // in all lanes
  std::size_t bytes_in_flight_ = 0;
};

}  // namespace pulsewheel

// Acceptor: one listening socket of one shard, paced.
#pragma once

#include <array>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/base/counters.h"
#include "daemon/base/time.h"
#include "daemon/net/handler_memory.h"
#include "daemon/net/session.h"

namespace pulsewheel {

/// Where accepted connections go. Called on the shard's thread.
class AcceptSink {
 public:
  /// Where it throws std::bad_alloc the connection is closed, and accepting pauses as for ENOMEM.
  virtual void on_accepted(ShardSocket&& socket) = 0;
  /// accept() failed for want of descriptors or memory, or because the listener is broken;
  /// accepting pauses for `pause`.
  virtual void on_accept_paused(int error, Duration pause) noexcept = 0;
  /// For a GOAWAY (busy), with a jitter.
  virtual std::uint32_t retry_after_ms() noexcept = 0;
  /// Whether a connection in a queue that other shards empty, too, is better left to them: this
  /// one has no room, and another one has.
  virtual bool leaves_to_others() noexcept = 0;

 protected:
  ~AcceptSink() = default;
};

/// What the kernel does about a peer's host that has gone without a word. Presence has deadlines of
/// its own; this frees the connections of clients whose timeout is long. A connection that ends so
/// is reset, and its user lingers.
struct TcpOptions {
  /// Bytes that the host does not acknowledge, or does not take because its window is closed, end
  /// the connection after this. 0: the kernel's own limit, about 15 minutes.
  Duration user_timeout{std::chrono::minutes{6}};
  /// After so long without a packet the host is asked whether it is there, kKeepaliveProbes times
  /// until user_timeout. By default only clients with timeouts of over 4 minutes are ever asked:
  /// 100,000 of them make 417 probes a second, beside 5,000 packets that as many with the default
  /// timeout make; and 4 minutes are less than it takes common NATs and load balancers to forget a
  /// connection. At most user_timeout, unless that is 0. 0: never asked.
  Duration keepalive_idle{std::chrono::minutes{4}};

  /// A bad network loses one or two.
  static constexpr int kKeepaliveProbes = 4;
};

/// Written by the shard's thread, read by any.
struct AcceptCounters {
  struct ByErrno {
    int error;
    const char* name;
    Counter count;
  };
  /// The errors that accept() has for want of something, and the peer's own; others as errno 0.
  std::array<ByErrno, 6> errors{{{EMFILE, "EMFILE", {}},
                                 {ENFILE, "ENFILE", {}},
                                 {ENOBUFS, "ENOBUFS", {}},
                                 {ENOMEM, "ENOMEM", {}},
                                 {ECONNABORTED, "ECONNABORTED", {}},
                                 {0, "other", {}}}};
  void add(int error) noexcept;
  /// Connections that were told to come back later because there was nothing to take them in with.
  Counter turned_away;
};

/// A descriptor without any use, to be given up when there is no other: a place in the table of the
/// thread that takes it, which must be the one that releases it.
class SpareDescriptor {
 public:
  SpareDescriptor() = default;
  ~SpareDescriptor() { release(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  /// Has no effect where it is held, or where there is no descriptor.
  void take() noexcept;
  void release() noexcept;

 private:
  int fd_ = -1;
};

/// Confined to its shard's thread, which also opens it: a descriptor belongs to the table of the
/// thread that made it. At most `burst` connections are accepted per call and round, so that a
/// storm of newcomers never delays those who are in.
///
/// Out of descriptors or memory it first turns away those who wait, for else they would hang in the
/// queue until they give up: with the place of a spare descriptor each is accepted, told GOAWAY
/// (busy) as far as its socket takes that at once, and closed. Then it waits 100 ms, doubling to
/// 1 s, instead of spinning on a queue that it cannot empty.
///
/// With a queue that is shared with other shards it rests for kPauseMin while these should have the
/// connections.
class Acceptor {
 public:
  Acceptor(boost::asio::io_context& io, std::size_t burst, AcceptSink& sink,
           AcceptCounters& counters);

  /// Binds with SO_REUSEPORT, so that each shard has a queue of its own; connections inherit
  /// TCP_NODELAY and what `tcp` says. Throws boost::system::system_error.
  void bind(const boost::asio::ip::tcp::endpoint& endpoint, const TcpOptions& tcp = {});
  /// In place of bind(): listens with a duplicate of `listening_descriptor`, a TCP socket that
  /// others may hold and accept from, too; it gets the same options, and becomes non-blocking for
  /// all of them. `shared`: other shards accept from it. Throws boost::system::system_error.
  void adopt(int listening_descriptor, bool shared, const TcpOptions& tcp = {});
  /// The port that bind() got, for port 0.
  [[nodiscard]] std::uint16_t port() const;

  /// Lets connections come in. On an adopted socket, sets its backlog. Throws
  /// boost::system::system_error.
  void listen(int backlog);
  /// Starts to accept. Call after listen().
  void start();
  /// Stops for good. Connections still queued are reset by the kernel, unless somebody else holds
  /// the adopted socket: then they wait for that one. Idempotent.
  void close() noexcept;

  void set_burst(std::size_t burst) noexcept { burst_ = burst; }

  /// Accepts at most one burst at once, beside the waiting that goes on. True: the queue was
  /// empty at the end, or cannot be emptied now (closed, paused).
  bool accept_burst();

  static constexpr Duration kPauseMin = std::chrono::milliseconds{100};
  static constexpr Duration kPauseMax = std::chrono::seconds{1};
  /// Bursts of connections that are turned away before a pause: each costs less than a session.
  static constexpr std::size_t kTurnedAwayBursts = 16;

 private:
  static constexpr std::size_t kOperationSize = 112;  // Asio 1.26: a wait with its Handler
  using OperationMemory = HandlerMemory<kOperationSize>;
  /// Room for what an acceptor has pending, so that it never lacks the memory to wait. Shared with
  /// the handlers, for an operation may outlive a closed acceptor.
  struct Pending {
    OperationMemory connection;
    OperationMemory pause_end;
  };
  template <void (Acceptor::*kOnEvent)(const boost::system::error_code&)>
  struct Handler;

  using Timer = boost::asio::basic_waitable_timer<MonoClock, boost::asio::wait_traits<MonoClock>,
                                                  boost::asio::io_context::executor_type>;

  void do_wait();
  void on_connection(const boost::system::error_code& error);
  /// Accepts without blocking. A descriptor, or -1 with errno.
  [[nodiscard]] int accept() noexcept;
  /// Takes over an accepted descriptor. Returns 0 or an errno.
  [[nodiscard]] int hand_on(int fd);
  void turn_waiting_away();
  void turn_away(int fd);
  void pause(int error);
  /// Accepts nothing for so long. False: there is no memory for the wait.
  bool rest(Duration length);
  void on_pause_end(const boost::system::error_code& error);

  boost::asio::io_context& io_;
  boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, boost::asio::io_context::executor_type>
      acceptor_;
  Timer timer_;
  std::shared_ptr<Pending> pending_;
  SpareDescriptor spare_;
  std::size_t burst_;
  AcceptSink& sink_;
  AcceptCounters& counters_;
  bool is_v6_ = false;
  bool shared_ = false;
  bool paused_ = false;
  Duration pause_ = kPauseMin;
};

}  // namespace pulsewheel

// Session: one client's connection. Moves bytes, and carries out what SessionFsm decides.
#pragma once

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/core/session_fsm.h"
#include "daemon/core/time_wheel.h"
#include "daemon/net/handler_memory.h"
#include "daemon/net/shard_context.h"
#include "proto/frame.h"

namespace pulsewheel {

/// Concrete executor: 40 bytes instead of 88.
using ShardSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

/// Confined to its shard's thread. Lives in the shard's slab, kept by a non-atomic count of
/// references that its pending operations hold; other shards know it only as a SessionRef. The
/// ShardContext outlives it.
///
/// Life: accepted, logged in, closed. From accept to close its hook is armed on the shard's wheel,
/// so that there is no state in which a silent peer stays for ever. Closing with a last frame
/// sends it, shuts down the sending side and discards what still arrives until the peer closes or
/// SessionOptions::finish_timeout is over: an immediate close would reset the connection and
/// throw the frame away. A peer that floods it meanwhile is cut off at kDiscardBytesMax.
///
/// A peer that does not read what it is sent has a backlog, which is bounded in bytes
/// (backlog_bytes_max) and in time: while there is one, the hook waits for the keepalive deadline
/// or the write deadline (the backlog's last progress + write_timeout), whichever is earlier.
///
/// Nothing throws out of a handler. Without memory for a long frame or a login the peer is refused,
/// without memory for a backlog it is cut off as a slow consumer; keepalives, short messages and
/// ends need none. The news of an end that its host cannot take is kept in the session, which
/// offers it again each tick.
class Session final : private TimerHook {
 public:
  /// `ref` is the slab slot that the session lives in.
  Session(ShardContext& shard, ShardSocket&& socket, SessionRef ref, MonoTime accepted) noexcept;
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Arms the login deadline and starts to read. Call once.
  void start();

  /// The home shard's answer to submit_login(). Requires !closed(): for a session that closed
  /// meanwhile the shard reports the end of an accepted login itself.
  void on_login_decided(const LoginDecision& decision, const LoginTerms& terms);

  /// SessionOptions::timeouts have changed: negotiates anew, and where that gives another timeout,
  /// moves the deadline as SessionFsm::on_policy_changed() says and tells the client by SETTINGS.
  /// No effect on a session that is not logged in: it gets the new ones with its login.
  /// Costs a send (2 us, most of it in the kernel): over many sessions, in portions.
  void apply_timeouts();

  /// The user's time stands still from `since` on: no silence is final until release(). No effect
  /// on a session that is not logged in.
  void hold(MonoTime since);
  /// Goes on with the time that was left: see SessionFsm::release(). No effect on one that is not
  /// held.
  void release(MonoTime now) noexcept;

  /// The wheel says that the deadline is reached. Declares the session silent, unless unread
  /// bytes lie in its socket: then they are read first and the next tick decides. Or cuts off a
  /// slow consumer, unless its socket takes something at last.
  void on_deadline(MonoTime now);

  /// Tells a peer whose silence was declared final, as far as it still listens, and closes. The
  /// paced part of an expiry: 11 us, most of it in the kernel.
  void dismiss() noexcept;

  /// What the home shard is to hear of the packets so far; nullopt while not logged in.
  [[nodiscard]] std::optional<SessionTouch> touch() const noexcept;

  /// Ends a live session with a GOAWAY. No effect on a closed one.
  void go_away(proto::GoawayReason goaway, CloseReason reason);

  /// Cancels what is pending and closes the descriptor. Idempotent.
  void release_socket() noexcept;

  /// The same for the end of the shard: nobody has to hear of the session's end any more.
  void abandon() noexcept;

  [[nodiscard]] const SessionFsm& fsm() const noexcept { return fsm_; }
  [[nodiscard]] SessionRef ref() const noexcept;
  [[nodiscard]] bool closed() const noexcept { return fsm_.state() == SessionState::kClosed; }
  /// "192.0.2.1:4711", asked of the kernel: the address is not kept. "?" when it is gone.
  [[nodiscard]] std::string peer_address() const;
  /// Where the shard's wheel has filed this session; nullopt while its deadline is being handled.
  [[nodiscard]] std::optional<TimeWheel::Place> wheel_place() const noexcept {
    return TimeWheel::place_of(*this);
  }

  /// The session that an expired hook of kind kSession is part of.
  [[nodiscard]] static Session& of(TimerHook& hook) noexcept { return static_cast<Session&>(hook); }
  [[nodiscard]] static const Session& of(const TimerHook& hook) noexcept {
    return static_cast<const Session&>(hook);
  }

  /// 16 keepalives, or a LOGIN with an ordinary uid. Longer frames spill to the heap.
  static constexpr std::size_t kReadBufferSize = 64;
  /// What a closed session's peer may still send before the connection is reset: more than a
  /// decent client has on its way. Each read counts for kDiscardChargeMin at least, so that very
  /// many small segments are bounded, too.
  static constexpr std::uint32_t kDiscardBytesMax = 256 * 1024;
  static constexpr std::uint32_t kDiscardChargeMin = 1024;

 private:
  friend class SessionPtr;
  friend class SessionSlab;

  static constexpr std::size_t kReadOperationSize = 120;  // Asio 1.26: a receive with ReadHandler
  using ReadMemory = HandlerMemory<kReadOperationSize>;
  struct ReadHandler;
  class Replies;
  struct Backlog {
    /// False, with nothing appended, when more than `waiting_max` bytes would wait. Amortised
    /// O(more); takes at most twice `waiting_max`, but for the growth of a vector.
    [[nodiscard]] bool append(std::span<const std::byte> more, std::size_t waiting_max);

    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    MonoTime progress_at{};  // when the socket last took some of it, or it began
  };
  struct Spill {
    explicit Spill(std::size_t frame_size)
        : bytes(std::make_unique_for_overwrite<std::byte[]>(frame_size)), size(frame_size) {}

    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;  // of the whole frame
    std::size_t filled = 0;
  };

  void do_read();
  void on_read(const boost::system::error_code& error, std::size_t size);
  void discard_input(std::size_t size);
  void process_input(MonoTime now);
  [[nodiscard]] proto::ErrorCode keep_rest(std::span<const std::byte> rest, std::size_t frame_size);
  [[nodiscard]] proto::ErrorCode begin_spill(std::span<const std::byte> begun,
                                             std::size_t frame_size);
  void drop_spill() noexcept;

  // What is wrong with the frame; kNone: it is handled.
  [[nodiscard]] proto::ErrorCode handle_frame(const proto::Frame& frame, MonoTime now,
                                              Replies& replies);
  [[nodiscard]] proto::ErrorCode handle_login(const proto::Frame& frame, MonoTime now);
  [[nodiscard]] proto::ErrorCode handle_keepalive(const proto::Frame& frame, MonoTime now,
                                                  Replies& replies);
  [[nodiscard]] proto::ErrorCode handle_message(const proto::Frame& frame, MonoTime now,
                                                Replies& replies);
  [[nodiscard]] proto::ErrorCode handle_logout(MonoTime now, Replies& replies);
  [[nodiscard]] MonoTime next_deadline() const noexcept;
  void file_deadline() noexcept;
  void postpone_deadline() noexcept;
  [[nodiscard]] std::optional<MonoTime> held_since() const noexcept;

  void send(std::span<const std::byte> bytes);
  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) noexcept;
  void queue(std::span<const std::byte> bytes);
  [[nodiscard]] bool do_wait_writable() noexcept;
  void on_writable(const boost::system::error_code& error);
  [[nodiscard]] bool send_backlog() noexcept;
  void on_progress() noexcept;
  void on_write_deadline(MonoTime now);
  void drop_backlog() noexcept;
  void shut_down_sending() noexcept;

  void fail(proto::ErrorCode code, CloseReason reason);
  void refuse_login(LoginVerdict verdict);
  void end(CloseReason reason);
  void report_end() noexcept;
  void keep_for_report(bool keep) noexcept;
  void on_report_due();
  void end_and_close_later(CloseReason reason);
  void end_with(std::span<const std::byte> last_frame, CloseReason reason);
  void finish();
  void on_peer_closed(CloseReason reason);
  void cut_off();

  [[nodiscard]] proto::Stage stage() const noexcept;
  [[nodiscard]] bool takes_frames() const noexcept;
  [[nodiscard]] std::span<const std::byte> input() const noexcept;

  void add_reference() noexcept { ++references_; }
  void drop_reference() noexcept;

  ShardContext& shard_;
  ShardSocket socket_;
  SessionFsm fsm_;
  UserRef user_;  // generation 0 until the home shard has accepted
  std::uint32_t index_;
  std::uint32_t generation_;
  std::uint32_t discarded_ = 0;  // charged since the session closed; see kDiscardBytesMax
  std::uint16_t references_ = 0;
  std::uint8_t filled_ = 0;                              // bytes of buffer_
  CloseReason close_reason_ = CloseReason::kPeerClosed;  // valid once closed
  bool reading_ : 1 = false;                             // a read is pending
  bool write_waiting_ : 1 = false;                       // a wait for writability is pending
  bool send_failed_ : 1 = false;     // the connection is reset, and the next read says so
  bool finishing_ : 1 = false;       // the last frame is sent or queued: nothing follows it
  bool end_unreported_ : 1 = false;  // the host has had no memory for it; holds a reference
  std::unique_ptr<Backlog> backlog_;
  std::unique_ptr<Spill> spill_;
  std::array<std::byte, kReadBufferSize> buffer_;
  ReadMemory read_memory_;
};

static_assert(sizeof(Session) <= 344, "the memory of a session is a promise: see the README");

/// Keeps a session's memory while an operation is pending. Not atomic: shard's thread only.
class SessionPtr {
 public:
  explicit SessionPtr(Session& session) noexcept : session_(&session) { session.add_reference(); }
  SessionPtr(const SessionPtr& other) noexcept : session_(other.session_) {
    if (session_ != nullptr) session_->add_reference();
  }
  SessionPtr(SessionPtr&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  SessionPtr& operator=(SessionPtr other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~SessionPtr() {
    if (session_ != nullptr) session_->drop_reference();
  }
  Session& operator*() const noexcept { return *session_; }
  Session* operator->() const noexcept { return session_; }

 private:
  Session* session_;
};

}  // namespace pulsewheel

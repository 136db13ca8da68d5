#include "daemon/net/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstring>

#include "daemon/base/check.h"

namespace pulsewheel {

/// What the pending read holds: the session itself, and the session's memory for the operation.
struct Session::ReadHandler {
  SessionPtr session;

  using allocator_type = HandlerAllocator<void, ReadMemory>;
  [[nodiscard]] allocator_type get_allocator() const noexcept {
    return allocator_type(session->read_memory_);
  }
  void operator()(const boost::system::error_code& error, std::size_t size) {
    session->on_read(error, size);
  }
};

/// The replies to one read, sent together: a burst of keepalives costs one send.
class Session::Replies {
 public:
  explicit Replies(Session& session) noexcept : session_(session) {}

  void add(std::span<const std::byte> frame) {
    if (size_ + frame.size() > bytes_.size()) flush();
    std::memcpy(bytes_.data() + size_, frame.data(), frame.size());
    size_ += frame.size();
  }
  void flush() {
    const auto bytes = std::span<const std::byte>(bytes_).first(size_);
    size_ = 0;
    if (!bytes.empty()) session_.send(bytes);
  }

 private:
  Session& session_;
  std::size_t size_ = 0;
  std::array<std::byte, 256> bytes_;
};

Session::Session(ShardContext& shard, ShardSocket&& socket, SessionRef ref,
                 MonoTime accepted) noexcept
    : TimerHook(HookKind::kSession),
      shard_(shard),
      socket_(std::move(socket)),
      fsm_(accepted, shard.options.login_timeout),
      index_(ref.index),
      generation_(ref.generation) {
  shard_.counters.accepted.add();
  shard_.counters.sessions.add(1);
}

Session::~Session() = default;

SessionRef Session::ref() const noexcept {
  return {index_, generation_, shard_.shard};
}

void Session::start() {
  add_reference();  // the open connection's; release_socket() drops it
  file_deadline();
  do_read();
}

void Session::drop_reference() noexcept {
  PULSEWHEEL_CHECK(references_ > 0);
  if (--references_ == 0) shard_.host.destroy(*this);
}

std::string Session::peer_address() const {
  boost::system::error_code error;
  const auto peer = socket_.remote_endpoint(error);
  if (error) return "?";
  const std::string port = std::to_string(peer.port());
  const std::string address = peer.address().to_string();
  return peer.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

// --- Reading ------------------------------------------------------------------------------------

void Session::do_read() {
  if (reading_ || !socket_.is_open()) return;
  reading_ = true;
  const auto room =
      spill_
          ? boost::asio::buffer(spill_->bytes.get() + spill_->filled, spill_->size - spill_->filled)
          : boost::asio::buffer(buffer_.data() + filled_, buffer_.size() - filled_);
  socket_.async_read_some(room, ReadHandler{SessionPtr(*this)});
}

void Session::on_read(const boost::system::error_code& error, std::size_t size) {
  reading_ = false;
  if (!socket_.is_open()) return;
  if (error == boost::asio::error::eof) return on_peer_closed(CloseReason::kPeerClosed);
  if (error) return on_peer_closed(CloseReason::kPeerReset);
  // The clock is read after the bytes: a packet's time is never earlier than its arrival.
  const MonoTime now = shard_.stamp();
  shard_.counters.bytes_received.add(size);
  if (!finishing_) {
    if (spill_) {
      spill_->filled += size;
    } else {
      filled_ = static_cast<std::uint8_t>(filled_ + size);
    }
    process_input(now);
  }
  if (fsm_.state() != SessionState::kLoginPending) do_read();
}

std::span<const std::byte> Session::input() const noexcept {
  if (spill_) return {spill_->bytes.get(), spill_->filled};
  return std::span<const std::byte>(buffer_).first(filled_);
}

proto::Stage Session::stage() const noexcept {
  switch (fsm_.state()) {
    case SessionState::kAwaitingLogin:
      return proto::Stage::kBeforeLogin;
    case SessionState::kLoginPending:
      return proto::Stage::kLoginPending;
    case SessionState::kActive:
    case SessionState::kClosed:
      break;
  }
  return proto::Stage::kAfterLogin;
}

void Session::process_input(MonoTime now) {
  Replies replies(*this);
  const std::span<const std::byte> bytes = input();
  std::size_t used = 0;
  // A frame that arrives while the home shard decides waits: its order must not change.
  while (fsm_.state() == SessionState::kAwaitingLogin || fsm_.state() == SessionState::kActive) {
    const auto cut = proto::next_frame(bytes.subspan(used), stage(), shard_.options.limits);
    if (cut.status == proto::NextFrame::Status::kNeedMore) {
      const bool fits = cut.size <= kReadBufferSize || spill_ != nullptr;
      if (!fits && !begin_spill(bytes.subspan(used), cut.size)) {
        replies.flush();
        return fail(proto::ErrorCode::kServerFull, CloseReason::kBusy);
      }
      if (!fits) used = bytes.size();
      break;
    }
    if (cut.status == proto::NextFrame::Status::kError) {
      replies.flush();
      return fail(cut.error, CloseReason::kProtocolError);
    }
    handle_frame(cut.frame, now, replies);
    used += cut.size;
  }
  if (!closed()) keep_rest(used);
  replies.flush();
}

/// Drops the first `used` bytes of the input. A spilled frame goes as a whole: no byte of the
/// next one is ever read into its memory.
void Session::keep_rest(std::size_t used) noexcept {
  if (used == 0) return;
  if (spill_ && spill_->filled == used) return drop_spill();
  if (spill_) {  // just begun: the bytes are in both places
    filled_ = 0;
    return;
  }
  std::memmove(buffer_.data(), buffer_.data() + used, filled_ - used);
  filled_ = static_cast<std::uint8_t>(filled_ - used);
}

bool Session::begin_spill(std::span<const std::byte> begun, std::size_t frame_size) {
  auto& in_use = shard_.counters.spill_bytes;
  const auto limit = static_cast<std::int64_t>(shard_.options.spill_bytes_max);
  if (in_use.value() + static_cast<std::int64_t>(frame_size) > limit) return false;
  auto spill = std::make_unique<Spill>();
  spill->bytes = std::make_unique_for_overwrite<std::byte[]>(frame_size);
  spill->size = frame_size;
  spill->filled = begun.size();
  std::memcpy(spill->bytes.get(), begun.data(), begun.size());
  in_use.add(static_cast<std::int64_t>(frame_size));
  spill_ = std::move(spill);
  return true;
}

void Session::drop_spill() noexcept {
  if (!spill_) return;
  shard_.counters.spill_bytes.add(-static_cast<std::int64_t>(spill_->size));
  spill_.reset();
}

// --- Frames -------------------------------------------------------------------------------------

void Session::handle_frame(const proto::Frame& frame, MonoTime now, Replies& replies) {
  switch (frame.header.type) {
    case proto::FrameType::kKeepalive:
      return handle_keepalive(frame, now, replies);
    case proto::FrameType::kMessage:
      return handle_message(frame, now, replies);
    case proto::FrameType::kLogin:
      return handle_login(frame, now);
    case proto::FrameType::kLogout:
      return handle_logout(now, replies);
    default:
      break;
  }
  // next_frame() lets no other type through.
  fail(proto::ErrorCode::kUnknownType, CloseReason::kProtocolError);
}

void Session::handle_keepalive(const proto::Frame& frame, MonoTime now, Replies& replies) {
  if (fsm_.on_keepalive(now) != SessionStep::kAlive) {
    return fail(proto::ErrorCode::kNotAllowed, CloseReason::kProtocolError);
  }
  file_deadline();
  shard_.counters.keepalives.add();
  if ((frame.header.flags & proto::kNoReply) == 0) replies.add(proto::kKeepaliveAck);
}

void Session::handle_message(const proto::Frame& frame, MonoTime now, Replies& replies) {
  proto::Message message;
  if (const auto error = proto::decode_message(frame.payload, message);
      error != proto::ErrorCode::kNone) {
    return fail(error, CloseReason::kProtocolError);
  }
  if (fsm_.on_message(now) != SessionStep::kAlive) {
    return fail(proto::ErrorCode::kNotAllowed, CloseReason::kProtocolError);
  }
  file_deadline();
  shard_.counters.messages.add();
  std::array<std::byte, proto::kMessageAckFrameSize> ack;
  replies.add(std::span(ack).first(proto::encode_message_ack(message.id, ack)));
}

void Session::handle_logout(MonoTime now, Replies& replies) {
  if (fsm_.on_logout(now) != SessionStep::kLogout) {
    return fail(proto::ErrorCode::kNotAllowed, CloseReason::kProtocolError);
  }
  shard_.counters.logouts.add();
  replies.add(proto::kLogoutAck);
  replies.flush();
  end(CloseReason::kLogout);
  finish();
}

void Session::handle_login(const proto::Frame& frame, MonoTime now) {
  proto::Login login;
  if (const auto error = proto::decode_login(frame.payload, login);
      error != proto::ErrorCode::kNone) {
    return fail(error, CloseReason::kProtocolError);
  }
  if (fsm_.on_login() != SessionStep::kSubmitLogin) {
    return fail(proto::ErrorCode::kNotAllowed, CloseReason::kProtocolError);
  }
  const auto timeout = negotiate(shard_.options.timeouts, login.interval_ms,
                                 static_cast<std::uint32_t>(shard_.jitter()));
  shard_.host.submit_login({{login.uid, login.device, ref(), now}, {now, timeout, login.version}});
}

void Session::on_login_decided(const LoginDecision& decision, const LoginTerms& terms) {
  PULSEWHEEL_CHECK(fsm_.state() == SessionState::kLoginPending);
  if (decision.verdict != LoginVerdict::kAccepted) return refuse_login(decision.verdict);
  user_ = decision.user;
  fsm_.on_login_accepted(terms.login_at, terms.timeout);
  file_deadline();
  shard_.counters.logins_accepted.add();

  std::array<std::byte, proto::kLoginAckFrameSize> ack;
  const std::size_t size =
      proto::encode_login_ack({.status = decision.taken_over ? proto::LoginStatus::kTookOver
                                                             : proto::LoginStatus::kAccepted,
                               .version = terms.version,
                               .timeout_ms = terms.timeout.timeout_ms,
                               .interval_ms = terms.timeout.interval_ms,
                               .session_id = decision.session_id},
                              ack);
  send(std::span(ack).first(size));
  process_input(shard_.stamp());  // what came in behind the LOGIN
  if (fsm_.state() != SessionState::kLoginPending) do_read();
}

void Session::refuse_login(LoginVerdict verdict) {
  shard_.counters.logins_refused.add();
  fail(verdict == LoginVerdict::kTooManySessions ? proto::ErrorCode::kTooManySessions
                                                 : proto::ErrorCode::kServerFull,
       CloseReason::kLoginRefused);
}

/// Tells the wheel when silence becomes final. On the packet path: one store, as long as the
/// deadline only moves later.
void Session::file_deadline() noexcept {
  shard_.wheel.arm(*this, shard_.clock.ceil(fsm_.deadline()));
}

// --- The end ------------------------------------------------------------------------------------

void Session::on_deadline(MonoTime now) {
  if (finishing_) return release_socket();
  if (fsm_.deadline() > now) return file_deadline();
  if (fsm_.state() != SessionState::kActive) {
    return fail(proto::ErrorCode::kLoginTimeout, CloseReason::kLoginTimeout);
  }
  std::byte unread;
  if (::recv(socket_.native_handle(), &unread, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
    shard_.counters.reprieves.add();
    shard_.wheel.arm(*this, shard_.clock.floor(now) + 1);
    return;
  }
  end(CloseReason::kTimeout);
  shard_.host.close_later(*this);
}

void Session::dismiss() noexcept {
  if (!socket_.is_open()) return;
  std::array<std::byte, proto::kGoawayFrameSize> bytes;
  const std::size_t size =
      proto::encode_goaway({.reason = proto::GoawayReason::kTimeout, .retry_after_ms = 0}, bytes);
  send(std::span(bytes).first(size));
  release_socket();
}

void Session::go_away(proto::GoawayReason goaway, CloseReason reason) {
  if (closed()) return;
  std::array<std::byte, proto::kGoawayFrameSize> bytes;
  const std::size_t size =
      proto::encode_goaway({.reason = goaway, .retry_after_ms = retry_after_ms()}, bytes);
  send(std::span(bytes).first(size));
  end(reason);
  finish();
}

std::uint32_t Session::retry_after_ms() {
  const auto base =
      std::chrono::duration_cast<std::chrono::milliseconds>(shard_.options.retry_after);
  const auto ms = static_cast<std::uint32_t>(base.count());
  return ms + static_cast<std::uint32_t>(shard_.jitter()) % (ms + 1);
}

void Session::fail(proto::ErrorCode code, CloseReason reason) {
  if (closed()) return;
  shard_.counters.refusals[refusal_index(code)].add();
  shard_.host.report_refusal(*this, code);
  std::array<std::byte, proto::kErrorFrameSizeMax> bytes;
  const std::size_t size = proto::encode_error({code, proto::error_text(code)}, bytes);
  send(std::span(bytes).first(size));
  end(reason);
  finish();
}

void Session::end(CloseReason reason) {
  if (closed()) return;
  fsm_.close();
  shard_.counters.closes[static_cast<std::size_t>(reason)].add();
  if (user_.generation != 0) {
    shard_.host.session_ended({user_, ref(), reason, fsm_.last_packet(), fsm_.deadline()});
  }
}

/// After the last frame: no more from us, and what still comes in is thrown away.
void Session::finish() {
  if (!socket_.is_open()) return;
  finishing_ = true;
  drop_spill();
  filled_ = 0;
  if (!backlog_) {
    boost::system::error_code ignored;  // the peer may be gone already
    socket_.shutdown(ShardSocket::shutdown_send, ignored);
  }
  shard_.wheel.arm(*this, shard_.clock.ceil(MonoClock::now() + shard_.options.finish_timeout));
  do_read();
}

void Session::on_peer_closed(CloseReason reason) {
  end(reason);
  release_socket();
}

void Session::release_socket() noexcept {
  if (!socket_.is_open()) return;
  shard_.wheel.cancel(*this);
  shard_.counters.sessions.add(-1);
  drop_spill();
  drop_backlog();
  boost::system::error_code ignored;  // the descriptor is gone whatever close() says
  socket_.close(ignored);
  drop_reference();
}

// --- Writing ------------------------------------------------------------------------------------

/// Sends at once what the socket takes and queues the rest. False: the session has ended.
bool Session::send(std::span<const std::byte> bytes) {
  if (!socket_.is_open() || finishing_) return false;
  if (backlog_) return queue(bytes);
  const ssize_t n =
      ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) return true;  // the pending read will report it
  const auto sent = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  shard_.counters.bytes_sent.add(sent);
  return sent == bytes.size() || queue(bytes.subspan(sent));
}

bool Session::queue(std::span<const std::byte> bytes) {
  if (!backlog_) backlog_ = std::make_unique<Backlog>();
  const std::size_t waiting = backlog_->bytes.size() - backlog_->sent;
  if (waiting + bytes.size() > shard_.options.backlog_bytes_max) {
    end(CloseReason::kSlowConsumer);
    release_socket();
    return false;
  }
  backlog_->bytes.insert(backlog_->bytes.end(), bytes.begin(), bytes.end());
  shard_.counters.backlog_bytes.add(static_cast<std::int64_t>(bytes.size()));
  do_wait_writable();
  return true;
}

void Session::do_wait_writable() {
  if (write_waiting_) return;
  write_waiting_ = true;
  socket_.async_wait(ShardSocket::wait_write,
                     [self = SessionPtr(*this)](const boost::system::error_code& error) {
                       self->on_writable(error);
                     });
}

void Session::on_writable(const boost::system::error_code& error) {
  write_waiting_ = false;
  if (!socket_.is_open() || !backlog_) return;
  if (error) return on_peer_closed(CloseReason::kPeerReset);
  const auto rest = std::span<const std::byte>(backlog_->bytes).subspan(backlog_->sent);
  const ssize_t n =
      ::send(socket_.native_handle(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) return on_peer_closed(CloseReason::kPeerReset);
  const auto sent = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  shard_.counters.bytes_sent.add(sent);
  shard_.counters.backlog_bytes.add(-static_cast<std::int64_t>(sent));
  backlog_->sent += sent;
  if (backlog_->sent < backlog_->bytes.size()) return do_wait_writable();
  backlog_.reset();
  if (finishing_) {
    boost::system::error_code ignored;
    socket_.shutdown(ShardSocket::shutdown_send, ignored);
  }
}

void Session::drop_backlog() noexcept {
  if (!backlog_) return;
  shard_.counters.backlog_bytes.add(
      -static_cast<std::int64_t>(backlog_->bytes.size() - backlog_->sent));
  backlog_.reset();
}

}  // namespace pulsewheel

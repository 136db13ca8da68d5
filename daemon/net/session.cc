// A session on the packet path: what it reads, what the frames mean, and what it answers. Its end
// and its backlog have files of their own.
#include "daemon/net/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstring>
#include <new>

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
  boost::asio::ip::address address = peer.address();
  // So an IPv4 client shows on a listener for both kinds, which systemd makes by default.
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  }
  return address.is_v6() ? "[" + address.to_string() + "]:" + port
                         : address.to_string() + ":" + port;
}

// --- Reading ------------------------------------------------------------------------------------

void Session::do_read() {
  if (reading_ || !socket_.is_open()) return;
  if (closed()) {  // what still comes is thrown away
    drop_spill();
    filled_ = 0;
  }
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
  if (error) {
    // A send that failed has taken the error off the socket, and the read finds a mere end.
    const bool is_fin = error == boost::asio::error::eof && !send_failed_;
    return on_peer_closed(is_fin ? CloseReason::kPeerClosed : CloseReason::kPeerReset);
  }
  // The clock is read after the bytes: a packet's time is never earlier than its arrival.
  const MonoTime now = shard_.stamp();
  shard_.counters.bytes_received.add(size);
  if (closed()) return discard_input(size);
  if (spill_) {
    spill_->filled += size;
  } else {
    filled_ = static_cast<std::uint8_t>(filled_ + size);
  }
  process_input(now);
  if (fsm_.state() != SessionState::kLoginPending) do_read();
}

/// Throws away what comes for a closed session: `size` bytes that were read, and what else is
/// there. A peer that does not stop costs a few large reads, and then loses the connection.
void Session::discard_input(std::size_t size) {
  std::array<std::byte, 16 * 1024> ignored;
  const ssize_t more =
      ::recv(socket_.native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  if (more > 0) {  // else the next read says why not
    shard_.counters.bytes_received.add(static_cast<std::uint64_t>(more));
    size += static_cast<std::size_t>(more);
  }
  discarded_ += std::max(static_cast<std::uint32_t>(size), kDiscardChargeMin);
  if (discarded_ > kDiscardBytesMax) return release_socket();
  do_read();
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

/// A frame that arrives while the home shard decides waits: its order must not change.
bool Session::takes_frames() const noexcept {
  return fsm_.state() == SessionState::kAwaitingLogin || fsm_.state() == SessionState::kActive;
}

void Session::process_input(MonoTime now) {
  Replies replies(*this);
  const std::span<const std::byte> bytes = input();
  std::size_t used = 0;
  std::size_t begun = 0;  // size of the frame that the rest is the beginning of
  auto error = proto::ErrorCode::kNone;
  while (error == proto::ErrorCode::kNone && takes_frames()) {
    const auto cut = proto::next_frame(bytes.subspan(used), stage(), shard_.options.limits);
    if (cut.status == proto::NextFrame::Status::kNeedMore) {
      begun = cut.size;
      break;
    }
    error = cut.status == proto::NextFrame::Status::kError ? cut.error
                                                           : handle_frame(cut.frame, now, replies);
    used += cut.size;
  }
  replies.flush();
  if (error == proto::ErrorCode::kNone && !closed()) error = keep_rest(bytes.subspan(used), begun);
  if (error == proto::ErrorCode::kNone) return;
  fail(error, may_retry(error) ? CloseReason::kBusy : CloseReason::kProtocolError);
}

/// Makes room for what the next read brings. `rest` is the end of input(): the beginning of a
/// frame of `frame_size` bytes, or, while a login is decided, frames that wait.
proto::ErrorCode Session::keep_rest(std::span<const std::byte> rest, std::size_t frame_size) {
  if (spill_) {  // holds one frame, and no byte of the next
    if (rest.empty()) drop_spill();
    return proto::ErrorCode::kNone;
  }
  if (frame_size > kReadBufferSize) return begin_spill(rest, frame_size);
  std::memmove(buffer_.data(), rest.data(), rest.size());
  filled_ = static_cast<std::uint8_t>(rest.size());
  return proto::ErrorCode::kNone;
}

proto::ErrorCode Session::begin_spill(std::span<const std::byte> begun, std::size_t frame_size) {
  auto& in_use = shard_.counters.spill_bytes;
  const auto limit = static_cast<std::int64_t>(shard_.options.spill_bytes_max);
  const auto size = static_cast<std::int64_t>(frame_size);
  if (in_use.value() + size > limit) return proto::ErrorCode::kServerFull;
  try {
    spill_ = std::make_unique<Spill>(frame_size);
  } catch (const std::bad_alloc&) {
    return proto::ErrorCode::kServerFull;
  }
  in_use.add(size);
  std::memcpy(spill_->bytes.get(), begun.data(), begun.size());
  spill_->filled = begun.size();
  filled_ = 0;
  return proto::ErrorCode::kNone;
}

void Session::drop_spill() noexcept {
  if (!spill_) return;
  shard_.counters.spill_bytes.add(-static_cast<std::int64_t>(spill_->size));
  spill_.reset();
}

// --- Frames -------------------------------------------------------------------------------------

proto::ErrorCode Session::handle_frame(const proto::Frame& frame, MonoTime now, Replies& replies) {
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
  return proto::ErrorCode::kUnknownType;  // next_frame() lets no other type through
}

proto::ErrorCode Session::handle_keepalive(const proto::Frame& frame, MonoTime now,
                                           Replies& replies) {
  if (fsm_.on_keepalive(now) != SessionStep::kAlive) return proto::ErrorCode::kNotAllowed;
  postpone_deadline();
  shard_.touched.add(index_);
  shard_.counters.keepalives.add();
  if ((frame.header.flags & proto::kNoReply) == 0) replies.add(proto::kKeepaliveAck);
  return proto::ErrorCode::kNone;
}

proto::ErrorCode Session::handle_message(const proto::Frame& frame, MonoTime now,
                                         Replies& replies) {
  proto::Message message;
  if (const auto error = proto::decode_message(frame.payload, message);
      error != proto::ErrorCode::kNone) {
    return error;
  }
  if (fsm_.on_message(now) != SessionStep::kAlive) return proto::ErrorCode::kNotAllowed;
  postpone_deadline();
  shard_.touched.add(index_);
  shard_.counters.messages.add();
  std::array<std::byte, proto::kMessageAckFrameSize> ack;
  replies.add(std::span(ack).first(proto::encode_message_ack(message.id, ack)));
  return proto::ErrorCode::kNone;
}

proto::ErrorCode Session::handle_logout(MonoTime now, Replies& replies) {
  if (fsm_.on_logout(now) != SessionStep::kLogout) return proto::ErrorCode::kNotAllowed;
  shard_.counters.logouts.add();
  end(CloseReason::kLogout);
  replies.add(proto::kLogoutAck);
  replies.flush();
  finish();
  return proto::ErrorCode::kNone;
}

proto::ErrorCode Session::handle_login(const proto::Frame& frame, MonoTime now) {
  proto::Login login;
  if (const auto error = proto::decode_login(frame.payload, login);
      error != proto::ErrorCode::kNone) {
    return error;
  }
  if (fsm_.on_login(login.interval_ms) != SessionStep::kSubmitLogin) {
    return proto::ErrorCode::kNotAllowed;
  }
  const auto timeout = negotiate(shard_.options.timeouts, login.interval_ms,
                                 static_cast<std::uint32_t>(shard_.jitter()));
  try {
    shard_.host.submit_login(
        {{login.uid, login.device, ref(), now}, {now, timeout, login.version}});
  } catch (const std::bad_alloc&) {
    return proto::ErrorCode::kServerFull;
  }
  return proto::ErrorCode::kNone;
}

void Session::on_login_decided(const LoginDecision& decision, const LoginTerms& terms) {
  PULSEWHEEL_CHECK(fsm_.state() == SessionState::kLoginPending);
  const SessionPtr self(*this);  // no read is pending that would keep it
  if (decision.verdict != LoginVerdict::kAccepted) return refuse_login(decision.verdict);
  user_ = decision.user;
  fsm_.on_login_accepted(terms.login_at, terms.timeout);
  if (decision.held_since) hold(*decision.held_since);
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
  apply_timeouts();               // what changed while the home shard decided
  process_input(shard_.stamp());  // what came in behind the LOGIN
  if (fsm_.state() != SessionState::kLoginPending) do_read();
}

void Session::apply_timeouts() {
  const auto changed =
      fsm_.on_policy_changed(shard_.options.timeouts, static_cast<std::uint32_t>(shard_.jitter()),
                             held_since().value_or(shard_.stamp()));
  if (!changed) return;
  const SessionPtr self(*this);  // the send may release the socket
  file_deadline();
  shard_.touched.add(index_);
  std::array<std::byte, proto::kSettingsFrameSize> bytes;
  const std::size_t size = proto::encode_settings(
      {.timeout_ms = changed->timeout_ms, .interval_ms = changed->interval_ms}, bytes);
  send(std::span(bytes).first(size));
}

/// Without memory to remember it the session is not held: should it fall silent, its user stays
/// online all the same, and only the connection is closed.
void Session::hold(MonoTime since) {
  if (fsm_.state() != SessionState::kActive) return;
  try {
    shard_.held_since.try_emplace(index_, since);
  } catch (const std::bad_alloc&) {
    return;
  }
  fsm_.hold();
}

void Session::release(MonoTime now) noexcept {
  if (!fsm_.held() || closed()) return;
  fsm_.release(*held_since(), now);
  shard_.held_since.erase(index_);
  file_deadline();
  shard_.touched.add(index_);
}

std::optional<MonoTime> Session::held_since() const noexcept {
  if (!fsm_.held()) return std::nullopt;
  return shard_.held_since.find(index_)->second;
}

void Session::refuse_login(LoginVerdict verdict) {
  shard_.counters.logins_refused.add();
  fail(verdict == LoginVerdict::kTooManySessions ? proto::ErrorCode::kTooManySessions
                                                 : proto::ErrorCode::kServerFull,
       CloseReason::kLoginRefused);
}

/// When silence becomes final, or waiting for the socket to take the backlog.
MonoTime Session::next_deadline() const noexcept {
  if (!backlog_) [[likely]]
    return fsm_.deadline();
  return std::min(fsm_.deadline(), backlog_->progress_at + shard_.options.write_timeout);
}

void Session::file_deadline() noexcept {
  shard_.wheel.arm(*this, shard_.clock.ceil(next_deadline()));
}

/// The same on the packet path, where the deadline only moves later: one store. But that of a
/// backlog may have moved nearer, by a reload.
void Session::postpone_deadline() noexcept {
  if (backlog_) [[unlikely]]
    return file_deadline();
  TimeWheel::postpone(*this, shard_.clock.ceil(fsm_.deadline()));
}

std::optional<SessionTouch> Session::touch() const noexcept {
  if (fsm_.state() != SessionState::kActive) return std::nullopt;
  return SessionTouch{user_, ref(), fsm_.last_packet(), fsm_.unheld_deadline()};
}

// --- Answers ------------------------------------------------------------------------------------

/// Sends what the socket takes at once and queues the rest. A backlog that passes its cap ends
/// the session.
void Session::send(std::span<const std::byte> bytes) {
  if (!socket_.is_open() || finishing_) return;
  if (!backlog_) {
    const auto sent = write_some(bytes);
    if (!sent) {
      send_failed_ = true;  // for the pending read, which comes behind what the peer sent before
      return;
    }
    bytes = bytes.subspan(*sent);
  }
  if (!bytes.empty()) queue(bytes);
}

/// Returns how much of `bytes` the socket took; nullopt when the connection has failed.
std::optional<std::size_t> Session::write_some(std::span<const std::byte> bytes) noexcept {
  const ssize_t n =
      ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n < 0) return std::nullopt;
  const auto sent = static_cast<std::size_t>(n);
  shard_.counters.bytes_sent.add(sent);
  return sent;
}

}  // namespace pulsewheel

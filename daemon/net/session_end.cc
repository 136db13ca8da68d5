// How a session ends: by its deadlines, by what its peer or its shard does, and with which last
// frame.
#include "daemon/net/session.h"

#include <sys/socket.h>

#include <array>
#include <new>

namespace pulsewheel {

void Session::on_deadline(MonoTime now) {
  if (end_unreported_) return on_report_due();
  if (finishing_) return release_socket();
  if (next_deadline() > now) return file_deadline();
  if (fsm_.deadline() > now) return on_write_deadline(now);
  if (fsm_.state() != SessionState::kActive) {
    return fail(proto::ErrorCode::kLoginTimeout, CloseReason::kLoginTimeout);
  }
  std::byte unread;
  if (::recv(socket_.native_handle(), &unread, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
    shard_.counters.reprieves.add();
    shard_.wheel.arm(*this, shard_.clock.floor(now) + 1);
    return;
  }
  end_and_close_later(CloseReason::kTimeout);
}

/// The peer may have read at last, and the loop not have come round to it: one more try decides.
void Session::on_write_deadline(MonoTime now) {
  if (!send_backlog()) return on_peer_closed(CloseReason::kPeerReset);
  if (next_deadline() > now) return file_deadline();
  end_and_close_later(CloseReason::kSlowConsumer);
}

void Session::dismiss() noexcept {
  if (!socket_.is_open()) return;
  std::array<std::byte, proto::kGoawayFrameSize> bytes;
  const std::size_t size =
      proto::encode_goaway({.reason = proto::GoawayReason::kTimeout, .retry_after_ms = 0}, bytes);
  if (!backlog_) write_some(std::span(bytes).first(size));
  release_socket();
}

void Session::go_away(proto::GoawayReason goaway, CloseReason reason) {
  if (closed()) return;
  std::array<std::byte, proto::kGoawayFrameSize> bytes;
  const std::size_t size =
      proto::encode_goaway({.reason = goaway, .retry_after_ms = shard_.retry_after_ms()}, bytes);
  end_with(std::span(bytes).first(size), reason);
}

void Session::fail(proto::ErrorCode code, CloseReason reason) {
  if (closed()) return;
  shard_.counters.refusals[refusal_index(code)].add();
  shard_.host.report_refusal(*this, code);
  std::array<std::byte, proto::kErrorFrameSizeMax> bytes;
  const std::size_t size = proto::encode_error({code, proto::error_text(code)}, bytes);
  end_with(std::span(bytes).first(size), reason);
}

/// The end comes first: a peer that does not read its last frame does not change the reason.
void Session::end_with(std::span<const std::byte> last_frame, CloseReason reason) {
  const SessionPtr self(*this);  // the send may release the socket
  end(reason);
  send(last_frame);
  finish();
}

void Session::end(CloseReason reason) {
  if (closed()) return;
  fsm_.close();
  close_reason_ = reason;
  shard_.counters.closes[static_cast<std::size_t>(reason)].add();
  if (user_.generation != 0) report_end();
}

/// The news of an end must not be lost: the user would stay online for ever. Without memory for it
/// the next tick tries again, whatever becomes of the connection meanwhile.
void Session::report_end() noexcept {
  try {
    shard_.host.session_ended({user_, ref(), close_reason_, fsm_.last_packet(),
                               fsm_.unheld_deadline(), held_since(), fsm_.timeout()});
    if (fsm_.held()) shard_.held_since.erase(index_);
    keep_for_report(false);
  } catch (const std::bad_alloc&) {
    keep_for_report(true);
    shard_.wheel.arm(*this, shard_.wheel.now() + 1);
  }
}

/// A session with news outlives its connection.
void Session::keep_for_report(bool keep) noexcept {
  if (keep == end_unreported_) return;
  end_unreported_ = keep;
  keep ? add_reference() : drop_reference();
}

/// Of a session that finishes the hook was needed for the report: a tick was time enough.
void Session::on_report_due() {
  const SessionPtr self(*this);
  report_end();
  if (finishing_) release_socket();
}

void Session::end_and_close_later(CloseReason reason) {
  end(reason);
  try {
    shard_.host.close_later(*this);
  } catch (const std::bad_alloc&) {
    dismiss();
  }
}

/// After the last frame: no more from us, and what still comes in is thrown away.
void Session::finish() {
  if (!socket_.is_open()) return;
  finishing_ = true;
  if (!backlog_) shut_down_sending();
  if (!end_unreported_) {
    shard_.wheel.arm(*this, shard_.clock.ceil(MonoClock::now() + shard_.options.finish_timeout));
  }
  do_read();
}

void Session::on_peer_closed(CloseReason reason) {
  end(reason);
  release_socket();
}

void Session::release_socket() noexcept {
  if (!socket_.is_open()) return;
  if (!end_unreported_) shard_.wheel.cancel(*this);
  shard_.counters.sessions.add(-1);
  drop_spill();
  drop_backlog();
  boost::system::error_code ignored;  // the descriptor is gone whatever close() says
  socket_.close(ignored);
  drop_reference();
}

void Session::abandon() noexcept {
  const SessionPtr self(*this);
  release_socket();
  shard_.wheel.cancel(*this);
  keep_for_report(false);
}

void Session::cut_off() {
  end(CloseReason::kSlowConsumer);
  release_socket();
}

}  // namespace pulsewheel

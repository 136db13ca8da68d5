// What a session's socket does not take at once: kept, bounded, and sent when the peer reads again.
#include "daemon/net/session.h"

#include <memory>
#include <new>

namespace pulsewheel {

/// Keeps `bytes` until the socket takes them. Beyond the cap, or without memory for them, the
/// session ends.
void Session::queue(std::span<const std::byte> bytes) {
  try {
    const bool is_first = !backlog_;
    if (is_first) backlog_ = std::make_unique<Backlog>();
    if (backlog_->append(bytes, shard_.options.backlog_bytes_max)) {
      shard_.counters.backlog_bytes.add(static_cast<std::int64_t>(bytes.size()));
      if (is_first) on_progress();
      if (do_wait_writable()) return;
    }
  } catch (const std::bad_alloc&) {  // as good as a cap
  }
  cut_off();
}

bool Session::Backlog::append(std::span<const std::byte> more, std::size_t waiting_max) {
  const std::size_t waiting = bytes.size() - sent;
  if (waiting + more.size() > waiting_max) return false;
  // A peer that always reads a little late must not make the part that is sent grow for ever.
  if (sent >= waiting) {
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(sent));
    sent = 0;
  }
  bytes.insert(bytes.end(), more.begin(), more.end());
  return true;
}

/// False where there is no memory to wait with.
bool Session::do_wait_writable() noexcept {
  if (write_waiting_) return true;
  try {
    socket_.async_wait(ShardSocket::wait_write,
                       [self = SessionPtr(*this)](const boost::system::error_code& error) {
                         self->on_writable(error);
                       });
  } catch (const std::bad_alloc&) {
    return false;
  }
  write_waiting_ = true;
  return true;
}

void Session::on_writable(const boost::system::error_code& error) {
  write_waiting_ = false;
  if (!socket_.is_open() || !backlog_) return;
  if (error || !send_backlog()) return on_peer_closed(CloseReason::kPeerReset);
  if (backlog_ && !do_wait_writable()) cut_off();
}

/// Sends what the socket takes of the backlog. False when the connection has failed.
bool Session::send_backlog() noexcept {
  const auto rest = std::span<const std::byte>(backlog_->bytes).subspan(backlog_->sent);
  const auto sent = write_some(rest);
  if (!sent) return false;
  shard_.counters.backlog_bytes.add(-static_cast<std::int64_t>(*sent));
  backlog_->sent += *sent;
  if (*sent > 0) on_progress();
  if (*sent < rest.size()) return true;
  backlog_.reset();
  if (finishing_) shut_down_sending();
  return true;
}

/// The backlog has begun, or become less: from now on it has the whole write timeout. A closed
/// session has another deadline, or none.
void Session::on_progress() noexcept {
  backlog_->progress_at = shard_.stamp();
  if (!closed()) file_deadline();
}

void Session::shut_down_sending() noexcept {
  boost::system::error_code ignored;  // the peer may be gone already
  socket_.shutdown(ShardSocket::shutdown_send, ignored);
}

void Session::drop_backlog() noexcept {
  if (!backlog_) return;
  shard_.counters.backlog_bytes.add(
      -static_cast<std::int64_t>(backlog_->bytes.size() - backlog_->sent));
  backlog_.reset();
}

}  // namespace pulsewheel

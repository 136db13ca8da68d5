// What a Worker's clients send and receive.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "proto/frame.h"
#include "tests/client_sim/program.h"
#include "tests/client_sim/worker.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// For LOGIN_ACK, and for the close that follows a LOGOUT.
constexpr Duration kAnswerDeadline = 15s;
/// A client that was refused or cut off waits this long at least, and up to twice as long.
constexpr Duration kRetryPause = 1s;
/// A first keepalive comes after a random part of the interval, at least this much of it, so that
/// a fast ramp is no herd that comes back every interval.
constexpr double kFirstIntervalMin = 0.1;

constexpr auto kMessageBody =
    std::array{std::byte{'h'}, std::byte{'e'}, std::byte{'l'}, std::byte{'l'}, std::byte{'o'}};

std::string describe(int error) {
  return std::generic_category().message(error);
}

}  // namespace

void Worker::connect(std::uint32_t index) {
  Client& client = clients_[index];
  ++client.generation;
  client.retry_after_ms = 0;
  client.is_doomed = false;
  const int opened = open_connection(*setup_.target, setup_.first_client + index);
  ++logins_pending_;
  client.state = State::kConnecting;
  if (opened < 0) {
    on_lost(index, -opened);
    return;
  }
  client.descriptor = opened;
  stats_.connected.add(1);
  calendar_.add(MonoClock::now() + kAnswerDeadline,
                {index, client.generation, Action::kAnswerDeadline});
  // On loopback the handshake is over when connect() returns, and the LOGIN can go at once.
  send_login(index);
  if (client.descriptor < 0) return;
  epoll_event event{};
  event.events = client.state == State::kConnecting ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = key_of(client.generation, index);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, client.descriptor, &event) != 0) on_lost(index, errno);
}

void Worker::send_login(std::uint32_t index) {
  const std::uint32_t session = setup_.first_client + index;
  UidNames::Buffer uid;
  proto::Login login;
  login.interval_ms = wish_ms_;
  login.uid = setup_.names->write(user_of(index), uid);
  const std::array<char, 2> device{'d', static_cast<char>('a' + session % setup_.options->devices)};
  if (names_devices(*setup_.options)) login.device = {device.data(), device.size()};
  std::array<std::byte, 128> frame;
  const std::size_t size = proto::encode_login(login, frame);
  Stamp stamp;
  if (!send_bytes(index, std::span(frame).first(size), stamp)) return;
  judge_.login_sent(index, stamp);
  clients_[index].state = State::kLoggingIn;
  clients_[index].last_packet = stamp.before;
}

bool Worker::send_bytes(std::uint32_t index, std::span<const std::byte> bytes,
                        Stamp& stamp) noexcept {
  stamp.before = MonoClock::now();
  const ssize_t sent =
      ::send(clients_[index].descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const int error = errno;
  stamp.after = MonoClock::now();
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  const bool still_connecting =
      sent < 0 && error == EAGAIN && clients_[index].state == State::kConnecting;
  // A socket that does not take a few bytes is one that the daemon does not read: give it up.
  if (!still_connecting) on_lost(index, sent < 0 ? error : ENOBUFS);
  return false;
}

void Worker::send_packet(std::uint32_t index, bool wants_reply) {
  Client& client = clients_[index];
  const bool is_message = random_.happens(setup_.options->message_percent);
  std::array<std::byte, 64> buffer;
  std::size_t size = 0;
  if (is_message) {
    size = proto::encode_message({next_message_id_++, kMessageBody}, buffer);
  } else {
    const auto keepalive = proto::encode_keepalive(wants_reply ? 0 : proto::kNoReply);
    size = static_cast<std::size_t>(std::copy(keepalive.begin(), keepalive.end(), buffer.begin()) -
                                    buffer.begin());
  }
  Stamp stamp;
  if (!send_bytes(index, std::span(buffer).first(size), stamp)) return;
  judge_.packet_sent(index, stamp);
  (is_message ? stats_.messages : stats_.keepalives).add();
  client.last_packet = stamp.before;
  schedule_keepalive(index, stamp.before + std::chrono::milliseconds{client.interval_ms});
}

void Worker::send_logout(std::uint32_t index) {
  Stamp stamp;
  if (!send_bytes(index, proto::kLogout, stamp)) return;
  judge_.logout_sent(index, stamp);
  control_.owe_until(stamp.after + allowance());
  clients_[index].state = State::kLoggingOut;
  calendar_.add(stamp.after + kAnswerDeadline,
                {index, clients_[index].generation, Action::kAnswerDeadline});
}

void Worker::drop_connection(std::uint32_t index, bool abruptly) noexcept {
  Client& client = clients_[index];
  if (client.descriptor < 0) return;
  close_connection(client.descriptor, abruptly);
  client.descriptor = -1;
  ++client.generation;
  partial_.erase(index);
  stats_.connected.add(-1);
}

void Worker::on_ready(std::uint32_t index, std::uint32_t events) {
  Client& client = clients_[index];
  if (client.state == State::kConnecting) {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(client.descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      on_lost(index, error);
      return;
    }
    send_login(index);
    if (client.state != State::kLoggingIn) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key_of(client.generation, index);
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, client.descriptor, &event);
  }
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) on_readable(index);
}

void Worker::on_readable(std::uint32_t index) {
  Client& client = clients_[index];
  // Level-triggered: what does not fit is announced again.
  const ssize_t got = ::recv(client.descriptor, read_buffer_.data(), read_buffer_.size(), 0);
  if (got > 0) {
    on_bytes(index, std::span(read_buffer_).first(static_cast<std::size_t>(got)));
  } else if (got == 0) {
    on_lost(index, 0);
  } else if (errno != EAGAIN && errno != EINTR) {
    on_lost(index, errno);
  }
}

void Worker::on_bytes(std::uint32_t index, std::span<const std::byte> bytes) {
  const std::uint32_t generation = clients_[index].generation;
  std::vector<std::byte> joined;
  if (const auto start = partial_.find(index); start != partial_.end()) {
    joined = std::move(start->second);
    partial_.erase(start);
    joined.insert(joined.end(), bytes.begin(), bytes.end());
    bytes = joined;
  }
  while (true) {
    const proto::NextFrame next = proto::next_server_frame(bytes);
    if (next.status == proto::NextFrame::Status::kError) {
      control_.note_trouble("the daemon sent a frame that breaks the protocol: " +
                            std::string(proto::error_text(next.error)));
      on_lost(index, EPROTO);
      return;
    }
    if (next.status == proto::NextFrame::Status::kNeedMore) break;
    on_frame(index, next.frame);
    if (clients_[index].generation != generation) return;  // closed meanwhile
    bytes = bytes.subspan(next.size);
  }
  if (!bytes.empty()) partial_[index].assign(bytes.begin(), bytes.end());
}

void Worker::on_frame(std::uint32_t index, const proto::Frame& frame) {
  using proto::ErrorCode;
  switch (frame.header.type) {
    case proto::FrameType::kKeepaliveAck:
      stats_.keepalive_acks.add();
      break;
    case proto::FrameType::kMessageAck:
      stats_.message_acks.add();
      break;
    case proto::FrameType::kLoginAck: {
      proto::LoginAck ack;
      if (proto::decode_login_ack(frame.payload, ack) == ErrorCode::kNone) on_login_ack(index, ack);
      break;
    }
    case proto::FrameType::kSettings: {
      proto::Settings settings;
      if (proto::decode_settings(frame.payload, settings) != ErrorCode::kNone) break;
      on_settings(index, settings);
      break;
    }
    case proto::FrameType::kGoaway: {
      proto::Goaway goaway;
      if (proto::decode_goaway(frame.payload, goaway) == ErrorCode::kNone) on_goaway(index, goaway);
      break;
    }
    case proto::FrameType::kError: {
      proto::Error error;
      if (proto::decode_error(frame.payload, error) != ErrorCode::kNone) break;
      control_.note_trouble("the daemon says: " + std::string(error.text));
      break;
    }
    case proto::FrameType::kLogoutAck:
      if (clients_[index].state == State::kLoggingOut) judge_.logout_answered(index);
      break;
    default:
      break;  // pushes are for others
  }
}

void Worker::on_login_ack(std::uint32_t index, const proto::LoginAck& ack) {
  Client& client = clients_[index];
  if (client.state != State::kLoggingIn) return;
  const MonoTime now = MonoClock::now();
  const Options& options = *setup_.options;
  client.state = State::kLive;
  client.timeout_ms = ack.timeout_ms;
  client.interval_ms = ack.interval_ms;
  if (options.keepalive) {
    client.interval_ms = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(*options.keepalive / 1ms, 1, UINT32_MAX));
  }
  if (client.interval_ms >= ack.timeout_ms && !options.expect_offline) {
    control_.fail(kExitUsage, "a keepalive every " + std::to_string(client.interval_ms) +
                                  " ms cannot keep a user online whom the daemon grants " +
                                  std::to_string(ack.timeout_ms) +
                                  " ms: choose a shorter one, or --expect-offline");
  }
  judge_.login_accepted(index, now, std::chrono::milliseconds{ack.timeout_ms});
  client.calm_until = now + allowance();
  client.end_expected = false;
  --logins_pending_;
  stats_.logins.add();
  if (client.cut_at != MonoTime{}) on_back_from_cut(client, now);
  if (client.taking_over) {
    client.taking_over = false;
    // A frozen daemon may find the old session run out when it reads the LOGIN.
    if (now >= client.superseded_until) client.takeover_doubted = true;
    if (ack.status != proto::LoginStatus::kTookOver && !client.takeover_doubted) {
      judge_.takeover_untold(index, now);
    }
    calendar_.add(now + allowance(),
                  {index, client.superseded_generation, Action::kTakeoverDeadline});
  }
  if (!client.was_accepted) {
    client.was_accepted = true;
    stats_.first_logins.add();
    stats_.last_first_login_ns.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  if (silenced_) {
    client.state = State::kSilent;
    control_.owe_until(now + timeout_of(client) + allowance());
    return;
  }
  const std::chrono::milliseconds interval{client.interval_ms};
  const double part = kFirstIntervalMin + (1 - kFirstIntervalMin) * random_.unit();
  // The answer may have been long in coming: the interval counts from the LOGIN.
  schedule_keepalive(index, std::min(now + std::chrono::round<Duration>(interval * part),
                                     client.last_packet + interval));
}

void Worker::on_settings(std::uint32_t index, const proto::Settings& settings) {
  Client& client = clients_[index];
  client.timeout_ms = settings.timeout_ms;
  judge_.timeout_changed(index, std::chrono::milliseconds{settings.timeout_ms}, MonoClock::now());
  if (setup_.options->keepalive) return;
  client.interval_ms = settings.interval_ms;
  const MonoTime due = client.last_packet + std::chrono::milliseconds{client.interval_ms};
  if (client.state == State::kLive && due < client.keepalive_at) schedule_keepalive(index, due);
}

void Worker::on_goaway(std::uint32_t index, const proto::Goaway& goaway) {
  Client& client = clients_[index];
  client.retry_after_ms = goaway.retry_after_ms;
  const bool silent = client.state == State::kSilent || setup_.options->expect_offline;
  client.end_expected =
      (goaway.reason == proto::GoawayReason::kTimeout && silent) ||
      (goaway.reason == proto::GoawayReason::kKicked && client.held_until > MonoClock::now());
  if (!client.end_expected && !is_left_alone(client)) {
    std::string trouble =
        "the daemon says: go away (" + std::string(proto::to_string(goaway.reason)) + ")";
    if (goaway.reason == proto::GoawayReason::kTimeout) {
      // Whether it is right, or this client was late itself.
      const auto silence =
          std::chrono::round<std::chrono::milliseconds>(MonoClock::now() - client.last_packet);
      trouble += ", " + std::to_string(silence.count()) + " ms after the last packet, with " +
                 std::to_string(client.timeout_ms) + " ms to go without any";
    }
    control_.note_trouble(trouble);
  }
}

void Worker::on_lost(std::uint32_t index, int error) {
  Client& client = clients_[index];
  const State state = client.state;
  const MonoTime now = MonoClock::now();
  drop_connection(index, /*abruptly=*/false);
  if (!client.end_expected) judge_.lost(index);
  switch (state) {
    case State::kConnecting:
    case State::kLoggingIn:
      --logins_pending_;
      if (!is_left_alone(client)) stats_.refusals.add();
      if (state == State::kLoggingIn) judge_.login_refused(index);
      if (client.taking_over) {
        // Whether the old connection is still good is as open as whether the LOGIN was read.
        client.taking_over = false;
        end_superseded(key_of(client.superseded_generation, index), /*untold=*/false);
      }
      if (error == ECONNREFUSED && stats_.first_logins.value() == 0) {
        control_.fail(kExitUnavailable, setup_.target->text + ": " + describe(error));
      }
      if (is_left_alone(client)) break;
      control_.note_trouble("a login failed: " +
                            (error == 0 ? "connection closed" : describe(error)));
      break;
    case State::kLive:
      // The daemon may be gone before await_restart() says that it is going.
      if (is_left_alone(client) && client.cut_at == MonoTime{}) client.cut_at = now;
      if (!setup_.options->expect_offline && !client.end_expected && !is_left_alone(client)) {
        stats_.unexpected_closes.add();
        control_.note_trouble("the daemon closed the connection of a live client");
      }
      break;
    case State::kLoggingOut:
      client.state = State::kAway;
      come_back_after(index, now, std::max(client.back_at - now, Duration::zero()));
      return;
    case State::kSilent:
      if (client.back_at != MonoTime{} && !silenced_) {
        client.state = State::kAway;
        come_back_after(index, now, std::max(client.back_at - now, Duration::zero()));
        return;
      }
      [[fallthrough]];
    case State::kAway:
    case State::kGone:
      client.state = State::kGone;
      return;
  }
  client.state = silenced_ ? State::kGone : State::kAway;
  const Duration pause =
      std::max<Duration>(kRetryPause, std::chrono::milliseconds{client.retry_after_ms});
  come_back_after(index, now, random_.between(pause, 2 * pause));
}

void Worker::on_back_from_cut(Client& client, MonoTime now) {
  const Duration away = now - client.cut_at;
  client.cut_at = MonoTime{};
  stats_.back.add();
  const auto& limit = setup_.options->back_within;
  if (limit && away > *limit) stats_.back_late.add();
  if (away.count() > stats_.slowest_back_ns.load(std::memory_order_relaxed)) {
    stats_.slowest_back_ns.store(away.count(), std::memory_order_relaxed);
  }
}

void Worker::on_superseded_ready(std::uint64_t key) {
  const auto found = superseded_.find(key);
  if (found == superseded_.end()) return;
  Superseded& old = found->second;
  const ssize_t got = ::recv(old.descriptor, read_buffer_.data(), read_buffer_.size(), 0);
  if (got > 0) {
    on_superseded_bytes(old, std::span(read_buffer_).first(static_cast<std::size_t>(got)));
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    Client& client = clients_[old.index];
    if (client.taking_over && MonoClock::now() >= client.superseded_until) {
      client.takeover_doubted = true;
    }
    end_superseded(key, /*untold=*/!old.told);
  }
}

void Worker::on_superseded_bytes(Superseded& old, std::span<const std::byte> bytes) {
  old.input.insert(old.input.end(), bytes.begin(), bytes.end());
  std::size_t used = 0;
  while (true) {
    const proto::NextFrame next =
        proto::next_server_frame(std::span(std::as_const(old.input)).subspan(used));
    if (next.status != proto::NextFrame::Status::kFrame) break;
    used += next.size;
    proto::Goaway goaway;
    if (next.frame.header.type == proto::FrameType::kGoaway &&
        proto::decode_goaway(next.frame.payload, goaway) == proto::ErrorCode::kNone) {
      old.told = old.told || goaway.reason == proto::GoawayReason::kTakenOver;
    }
  }
  old.input.erase(old.input.begin(), old.input.begin() + static_cast<std::ptrdiff_t>(used));
}

void Worker::end_superseded(std::uint64_t key, bool untold) {
  const auto found = superseded_.find(key);
  if (found == superseded_.end()) return;
  const std::uint32_t index = found->second.index;
  if (untold && !clients_[index].takeover_doubted) {
    judge_.takeover_untold(index, MonoClock::now());
  }
  close_connection(found->second.descriptor, /*abruptly=*/true);
  superseded_.erase(found);
  stats_.connected.add(-1);
}

void Worker::check_takeover(const Appointment& appointment, MonoTime now) {
  const std::uint64_t key = key_of(appointment.generation, appointment.client);
  if (!superseded_.contains(key)) return;
  if (judge_.is_stalled(now)) {
    calendar_.add(now + setup_.rules.drain, appointment);
    return;
  }
  end_superseded(key, /*untold=*/true);
}

}  // namespace pulsewheel::sim

// A daemon for the simulator's own tests: small, slow and simple, and it lies when it is told to.
//
// It takes the flags of pulsewheeld that --spawn passes, speaks the protocol, and writes an event
// log. It shares no code with the daemon but the protocol's. Keys of its own, by --set:
//   lie.early=DURATION    expire this much before the timeout
//   lie.drop_every=N      leave out every Nth edge
//   lie.double_every=N    write every Nth edge twice
//   lie.grant=DURATION    grant this timeout, whatever the client wished for
//   lie.repeat_every=N    give every Nth edge the number of the one before it
//   lie.skip_every=N      leave out a number before every Nth edge
//   lie.reason=REASON     give every offline edge this reason
//   lie.blind=1           after a stall, expire first and read afterwards
//   lie.hold=DURATION     after a stall, wait this long before expiring
//   lie.impatient=1       take a user offline as soon as the connection closes
//   lie.mute_logout=1     let a user who logs out linger
//   lie.mute_takeover=1   close the old connection without a word
//   lie.keep_old=1        leave the old connection open
//   lie.hide_takeover=1   do not tell the new connection
//   lie.takeover_edges=1  write both edges for a takeover
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "daemon/base/descriptor_tables.h"
#include "daemon/base/time.h"
#include "proto/frame.h"
#include "tests/client_sim/options.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// A round that begins this much later than it should: the process was stopped.
constexpr Duration kStall = 250ms;

struct Settings {
  std::string folder;
  std::string ports_file;
  Duration tick = 1s;
  Duration timeout = 30s;
  Duration early{0};
  Duration grant{0};
  Duration hold{0};
  std::uint64_t drop_every = 0;
  std::uint64_t double_every = 0;
  std::uint64_t repeat_every = 0;
  std::uint64_t skip_every = 0;
  std::string reason;
  bool blind = false;
  bool impatient = false;
  bool mute_logout = false;
  bool mute_takeover = false;
  bool keep_old = false;
  bool hide_takeover = false;
  bool takeover_edges = false;
};

Settings read_settings(int argc, char** argv) {
  std::vector<std::string> sets;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--set") sets.emplace_back(argv[i + 1]);
  }
  const auto duration = [&](const char* key, Duration otherwise) {
    const auto text = value_of(sets, key);
    return text ? parse_duration(*text).value_or(otherwise) : otherwise;
  };
  const auto number = [&](const char* key) {
    return std::stoull(value_of(sets, key).value_or("0"));
  };
  Settings out;
  out.folder = value_of(sets, "server.state_dir").value_or(".");
  out.ports_file = value_of(sets, "server.ports_file").value_or("");
  out.tick = duration("presence.tick", out.tick);
  out.timeout = duration("presence.timeout", out.timeout);
  out.early = duration("lie.early", out.early);
  out.grant = duration("lie.grant", out.grant);
  out.drop_every = number("lie.drop_every");
  out.hold = duration("lie.hold", out.hold);
  out.double_every = number("lie.double_every");
  out.repeat_every = number("lie.repeat_every");
  out.skip_every = number("lie.skip_every");
  out.reason = value_of(sets, "lie.reason").value_or("");
  out.blind = number("lie.blind") != 0;
  out.impatient = number("lie.impatient") != 0;
  out.mute_logout = number("lie.mute_logout") != 0;
  out.mute_takeover = number("lie.mute_takeover") != 0;
  out.keep_old = number("lie.keep_old") != 0;
  out.hide_takeover = number("lie.hide_takeover") != 0;
  out.takeover_edges = number("lie.takeover_edges") != 0;
  return out;
}

/// The event log, with the lies that concern it.
class Log {
 public:
  explicit Log(const Settings& settings)
      : settings_(settings), file_(settings.folder + "/events.jsonl", std::ios::app) {}

  void write(const std::string& uid, const char* kind, const char* reason) {
    ++edges_;
    if (is_turn_of(settings_.drop_every)) return;
    if (is_turn_of(settings_.skip_every)) ++seq_;
    if (is_turn_of(settings_.repeat_every)) --seq_;
    if (!settings_.reason.empty() && kind == std::string_view("offline")) {
      reason = settings_.reason.c_str();
    }
    for (int i = 0; i < (is_turn_of(settings_.double_every) ? 2 : 1); ++i) {
      file_ << R"({"seq":)" << ++seq_ << R"(,"epoch":1,"uid":")" << uid << R"(","kind":")" << kind
            << R"(","reason":")" << reason
            << R"(","at":"2000-01-01T00:00:00.000000Z","last_seen":"2000-01-01T00:00:00.000000Z",)"
            << R"("sessions":0})" << '\n';
    }
  }
  void flush() { file_.flush(); }

 private:
  [[nodiscard]] bool is_turn_of(std::uint64_t every) const noexcept {
    return every != 0 && edges_ % every == 0;
  }

  const Settings& settings_;
  std::ofstream file_;
  std::uint64_t edges_ = 0;
  std::uint64_t seq_ = 0;
};

struct User {
  bool online = false;
  std::set<int> connections;
  std::map<std::string, MonoTime> lingering;  // deadlines of closed connections, by device
};

struct Connection {
  std::string uid;  // empty: not logged in
  std::string device;
  Duration timeout{0};
  MonoTime deadline;
  std::vector<std::byte> input;
};

class StandIn {
 public:
  explicit StandIn(const Settings& settings) : settings_(settings), log_(settings) {}
  int run();

 private:
  void listen();
  [[nodiscard]] bool accept_all();
  void on_readable(int descriptor);
  bool on_frame(int descriptor, const proto::Frame& frame);
  void on_login(int descriptor, const proto::Login& login);
  [[nodiscard]] bool take_over(int descriptor, const Connection& connection);
  void on_logout(int descriptor);
  void go_offline(const std::string& uid, const char* reason);
  void end(int descriptor);
  void close(int descriptor);
  void expire(MonoTime now);
  void alive(Connection& connection);
  [[nodiscard]] MonoTime deadline_of(const User& user) const;
  void watch(int descriptor);

  template <class Frame>
  static void send(int descriptor, const Frame& frame) {
    [[maybe_unused]] const ssize_t sent =
        ::send(descriptor, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  Settings settings_;
  Log log_;
  int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  int listener_ = -1;
  std::unordered_map<int, Connection> connections_;
  std::unordered_map<std::string, User> users_;
};

void StandIn::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
}

void StandIn::listen() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 4096) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "listen");
  }
  watch(listener_);
  if (settings_.ports_file.empty()) return;
  const std::string unfinished = settings_.ports_file + ".new";
  std::ofstream(unfinished) << R"({"pid":)" << ::getpid()
                            << R"(,"listeners":[{"address":"127.0.0.1","port":)"
                            << ntohs(address.sin_port) << R"(,"protocol":"native"}]})";
  ::rename(unfinished.c_str(), settings_.ports_file.c_str());
}

int StandIn::run() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  ::sigprocmask(SIG_BLOCK, &stops, nullptr);
  const int stop = ::signalfd(-1, &stops, SFD_CLOEXEC);
  watch(stop);
  listen();
  MonoTime next_tick = MonoClock::now() + settings_.tick;
  std::optional<MonoTime> held_until;  // behind a stall
  std::array<epoll_event, 256> events;
  while (true) {
    const MonoTime began = MonoClock::now();
    const auto wait = std::max(next_tick - began, Duration::zero());
    const int ready =
        ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                     static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
    const MonoTime woke = MonoClock::now();
    if (woke > next_tick + kStall && !held_until) {
      held_until = woke + settings_.hold;
      if (settings_.blind) expire(woke);
    }
    bool accepted = false;
    for (int i = 0; i < ready; ++i) {
      const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
      if (descriptor == stop) return 0;
      if (descriptor == listener_) {
        accepted = accept_all();
      } else if (connections_.contains(descriptor)) {
        on_readable(descriptor);
      }
    }
    // Not before everything was read: there may be more behind a full batch, on a connection that
    // is new, and when SIGCONT interrupted the wait.
    const bool drained = ready >= 0 && ready < static_cast<int>(events.size()) && !accepted;
    // And by no later time than one before the look at the sockets: in between it may be stopped.
    if (began >= next_tick && drained && (!held_until || began >= *held_until)) {
      expire(began);
      held_until.reset();
      while (next_tick <= began)
        next_tick += settings_.tick;
    }
    log_.flush();
  }
}

bool StandIn::accept_all() {
  int accepted;
  bool any = false;
  while ((accepted = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    connections_[accepted];
    watch(accepted);
    any = true;
  }
  return any;
}

void StandIn::on_readable(int descriptor) {
  std::array<std::byte, 4096> buffer;
  const ssize_t got = ::recv(descriptor, buffer.data(), buffer.size(), 0);
  if (got <= 0) {
    close(descriptor);
    return;
  }
  Connection& connection = connections_[descriptor];
  connection.input.insert(connection.input.end(), buffer.begin(), buffer.begin() + got);
  std::size_t used = 0;
  while (true) {
    const auto stage =
        connection.uid.empty() ? proto::Stage::kBeforeLogin : proto::Stage::kAfterLogin;
    const auto next = proto::next_frame(std::span(connection.input).subspan(used), stage, {});
    if (next.status == proto::NextFrame::Status::kError) {
      close(descriptor);
      return;
    }
    if (next.status == proto::NextFrame::Status::kNeedMore) break;
    used += next.size;
    if (!on_frame(descriptor, next.frame)) return;
  }
  connection.input.erase(connection.input.begin(),
                         connection.input.begin() + static_cast<std::ptrdiff_t>(used));
}

bool StandIn::on_frame(int descriptor, const proto::Frame& frame) {
  switch (frame.header.type) {
    case proto::FrameType::kLogin: {
      proto::Login login;
      if (proto::decode_login(frame.payload, login) != proto::ErrorCode::kNone) {
        close(descriptor);
        return false;
      }
      on_login(descriptor, login);
      return true;
    }
    case proto::FrameType::kMessage: {
      proto::Message message;
      static_cast<void>(proto::decode_message(frame.payload, message));
      std::array<std::byte, proto::kMessageAckFrameSize> ack;
      static_cast<void>(proto::encode_message_ack(message.id, ack));
      send(descriptor, ack);
      break;
    }
    case proto::FrameType::kLogout:
      on_logout(descriptor);
      return false;
    default:
      if ((frame.header.flags & proto::kNoReply) == 0) send(descriptor, proto::kKeepaliveAck);
  }
  alive(connections_[descriptor]);
  return true;
}

void StandIn::on_login(int descriptor, const proto::Login& login) {
  Connection& connection = connections_[descriptor];
  connection.uid = login.uid;
  connection.device = login.device;
  connection.timeout = login.interval_ms == 0
                           ? settings_.timeout
                           : Duration{std::chrono::milliseconds{login.interval_ms}} * 3 / 2;
  if (settings_.grant != Duration::zero()) connection.timeout = settings_.grant;
  const bool took_over = take_over(descriptor, connection) && !settings_.hide_takeover;
  User& user = users_[connection.uid];
  user.connections.insert(descriptor);
  user.lingering.erase(connection.device);
  alive(connection);
  if (!user.online) {
    user.online = true;
    log_.write(connection.uid, "online", "login");
  }
  const auto timeout_ms = static_cast<std::uint32_t>(connection.timeout / 1ms);
  std::array<std::byte, proto::kLoginAckFrameSize> ack;
  static_cast<void>(proto::encode_login_ack(
      {took_over ? proto::LoginStatus::kTookOver : proto::LoginStatus::kAccepted, 1, timeout_ms,
       std::max(1U, timeout_ms * 2 / 3), 1},
      ack));
  send(descriptor, ack);
}

void StandIn::alive(Connection& connection) {
  connection.deadline = MonoClock::now() + connection.timeout - settings_.early;
}

MonoTime StandIn::deadline_of(const User& user) const {
  MonoTime latest;
  for (const auto& [device, deadline] : user.lingering)
    latest = std::max(latest, deadline);
  for (const int descriptor : user.connections) {
    latest = std::max(latest, connections_.at(descriptor).deadline);
  }
  return latest;
}

bool StandIn::take_over(int descriptor, const Connection& connection) {
  if (connection.device.empty()) return false;
  User& user = users_[connection.uid];
  const auto old = std::find_if(user.connections.begin(), user.connections.end(), [&](int other) {
    return other != descriptor && connections_.at(other).device == connection.device;
  });
  if (old == user.connections.end()) return false;
  if (settings_.takeover_edges) {
    log_.write(connection.uid, "offline", "disconnect");
    log_.write(connection.uid, "online", "login");
  }
  const int superseded = *old;
  user.connections.erase(old);
  connections_.at(superseded).uid.clear();  // nobody's: what it still sends changes nothing
  if (settings_.keep_old) return true;
  std::array<std::byte, proto::kGoawayFrameSize> goaway;
  static_cast<void>(proto::encode_goaway({proto::GoawayReason::kTakenOver, 0}, goaway));
  if (!settings_.mute_takeover) send(superseded, goaway);
  end(superseded);
  return true;
}

void StandIn::on_logout(int descriptor) {
  Connection& connection = connections_[descriptor];
  const std::string uid = connection.uid;
  if (!settings_.mute_logout) connection.deadline = MonoTime{};
  send(descriptor, proto::kLogoutAck);
  close(descriptor);
  if (users_[uid].online && deadline_of(users_[uid]) <= MonoClock::now()) go_offline(uid, "logout");
}

void StandIn::go_offline(const std::string& uid, const char* reason) {
  users_[uid].online = false;
  log_.write(uid, "offline", reason);
}

void StandIn::close(int descriptor) {
  const Connection& connection = connections_.at(descriptor);
  if (!connection.uid.empty()) {
    const std::string uid = connection.uid;
    User& user = users_[uid];
    user.connections.erase(descriptor);
    user.lingering[connection.device] = connection.deadline;
    if (settings_.impatient && user.online) go_offline(uid, "disconnect");
  }
  end(descriptor);
}

void StandIn::end(int descriptor) {
  connections_.erase(descriptor);
  ::close(descriptor);
}

void StandIn::expire(MonoTime now) {
  for (auto& [uid, user] : users_) {
    if (!user.online || deadline_of(user) > now) continue;
    go_offline(uid, user.connections.empty() ? "disconnect" : "timeout");
  }
  std::vector<int> silent;
  for (const auto& [descriptor, connection] : connections_) {
    if (!connection.uid.empty() && !users_[connection.uid].online) silent.push_back(descriptor);
  }
  std::array<std::byte, proto::kGoawayFrameSize> goaway;
  static_cast<void>(proto::encode_goaway({proto::GoawayReason::kTimeout, 0}, goaway));
  for (const int descriptor : silent) {
    send(descriptor, goaway);
    close(descriptor);
  }
}

}  // namespace
}  // namespace pulsewheel::sim

int main(int argc, char** argv) {
  try {
    pulsewheel::raise_descriptor_limit();
    return pulsewheel::sim::StandIn(pulsewheel::sim::read_settings(argc, argv)).run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

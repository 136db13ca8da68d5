#include "tests/integration/mirrored_crowd.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "proto/frame.h"
#include "tests/integration/ring_reader.h"

namespace pulsewheel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Between two steps in which keepalives are sent, and between two questions of run_until().
constexpr milliseconds kStep{20};
constexpr milliseconds kQuestionInterval{250};
/// A packet is in the ring by then: a tick, and the mirror's lag.
constexpr milliseconds kMirrorLag{2'000};
/// By which a deadline may be later than the packet says: the daemon reads a little later than we
/// send, and what waited for Redis got there with the time that was left before.
constexpr milliseconds kLateness{1'000};
/// Each of two clocks is cut to milliseconds.
constexpr milliseconds kRounding{2};
constexpr seconds kStartLimit{60};

}  // namespace

MirroredCrowd::MirroredCrowd(const RedisServer& redis, const Options& options)
    : redis_(redis), timeout_(options.timeout), interval_(options.timeout * 2 / 3) {
  config_ = "[server]\nshards = 2\nmax_connections = 12000\n[presence]\ntimeout = \"" +
            std::to_string(timeout_.count()) + "s\"\n[redis]\nmode = \"mirror\"\nurl = \"" +
            redis.url() + "\"\nnode = \"n1\"\n" + options.settings;
  if (!options.password.empty()) {
    write_password(options.password);
    config_ += "password_file = \"" + (folder_ / "password") + "\"\n";
  }
  daemon_.emplace(Daemon::Options{.config = config_});
  swarm_.emplace(daemon_->port());
  kept_alive_at_ = Clock::now();
  log_in("u", options.users);
  if (!run_until([this] { return differences().empty(); }, kStartLimit)) {
    throw std::runtime_error("the ring is wrong from the start: " + differences().front());
  }
}

void MirroredCrowd::log_in(const std::string& prefix, std::size_t count) {
  const auto before = Clock::now();
  if (!swarm_->add_users(prefix, count)) throw std::runtime_error("users cannot log in");
  const Packet login{before, Clock::now()};
  for (std::size_t i = 0; i < count; ++i) {
    std::string uid = count == 1 ? prefix : prefix + "-" + std::to_string(i);
    edges_.insert("online " + uid + " login");
    users_.push_back({.uid = std::move(uid), .last = login, .before = login});
  }
}

/// Sends the keepalives that are due.
void MirroredCrowd::keep_alive() {
  static const auto keepalive = proto::encode_keepalive();
  const auto now = Clock::now();
  const auto users = static_cast<Clock::rep>(users_.size());
  const Clock::rep due = users * (now - kept_alive_at_).count() / interval_.count();
  if (due == 0) return;
  kept_alive_at_ += Clock::duration{due * interval_.count() / users};
  for (Clock::rep i = 0; i < std::min(due, users); ++i) {
    User& user = users_[next_to_keep_alive_];
    if (user.online) {
      swarm_->send(next_to_keep_alive_, keepalive);
      user.before = std::exchange(user.last, {now, now + kLateness});
    }
    next_to_keep_alive_ = (next_to_keep_alive_ + 1) % users_.size();
  }
}

void MirroredCrowd::run(Clock::duration time) {
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
    keep_alive();
    swarm_->drive(kStep);
  }
}

bool MirroredCrowd::run_until(const std::function<bool()>& done, Clock::duration limit) {
  const auto give_up = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() > give_up) return false;
    run(kQuestionInterval);
  }
  return true;
}

void MirroredCrowd::change(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    User& user = users_[next_to_leave_];
    swarm_->send(next_to_leave_, proto::kLogout);
    user.online = false;
    edges_.insert("offline " + user.uid + " logout");
    ++next_to_leave_;
  }
  log_in("new" + std::to_string(++changes_), count);
}

std::vector<std::string> MirroredCrowd::differences() const {
  const auto before = Clock::now();
  Ring ring = read_ring(redis_);
  const Packet reading{before, Clock::now()};
  std::vector<std::string> found = std::move(ring.faults);
  for (const User& user : users_) {
    const auto filed = ring.users.extract(user.uid);
    if (filed.empty() == user.online) {
      found.push_back(user.uid + (user.online ? " is missing" : " is left behind"));
    } else if (user.online) {
      const auto flaw = flaw_of(user, filed.mapped().remaining_ms, reading);
      if (flaw) found.push_back(*flaw);
    }
  }
  for (const auto& [uid, user] : ring.users)
    found.push_back(uid + " is nobody of us");
  return found;
}

/// `reading` is when the ring was read: between its two times.
std::optional<std::string> MirroredCrowd::flaw_of(const User& user, std::int64_t remaining_ms,
                                                  const Packet& reading) const {
  const milliseconds remaining{remaining_ms};
  const bool last_is_there = user.last.read <= reading.sent - kMirrorLag;
  const Packet& oldest = last_is_there ? user.last : user.before;
  const auto least = oldest.sent + timeout_ - reading.read - kRounding;
  const auto most = user.last.read + timeout_ - reading.sent + kLateness + kRounding;
  if (remaining >= least && remaining <= most) return std::nullopt;
  const auto text = [](Clock::duration time) {
    return std::to_string(std::chrono::duration_cast<milliseconds>(time).count());
  };
  return user.uid + " has " + text(remaining) + " ms left and not " + text(least) + " to " +
         text(most);
}

std::optional<MirroredCrowd::Clock::duration> MirroredCrowd::equal_within(Clock::duration limit,
                                                                          Clock::time_point since) {
  auto equal_at = since;
  const bool is_equal = run_until(
      [&] {
        equal_at = Clock::now();
        return differences().empty();
      },
      since + limit - Clock::now());
  if (!is_equal) return std::nullopt;
  return equal_at - since;
}

std::multiset<std::string> MirroredCrowd::edges_in_log() const {
  std::multiset<std::string> found;
  for (const nlohmann::json& edge : daemon_->edges()) {
    found.insert(edge.at("kind").get<std::string>() + " " + edge.at("uid").get<std::string>() +
                 " " + edge.at("reason").get<std::string>());
  }
  return found;
}

void MirroredCrowd::write_password(const std::string& password) const {
  write_file(folder_ / "password", password + "\n");
}

void MirroredCrowd::reload() const {
  if (!daemon_->reload(config_)) throw std::runtime_error("the daemon does not reload");
}

}  // namespace pulsewheel::test

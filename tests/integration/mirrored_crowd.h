// MirroredCrowd: users who keep themselves alive on a daemon that mirrors them into a real Redis,
// and a record of what the ring and the event log have to say of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/daemon.h"
#include "tests/integration/swarm.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {

/// Everybody sends a keepalive each two thirds of the timeout, spread evenly; but nothing happens
/// between calls, as with a Swarm.
class MirroredCrowd {
 public:
  using Clock = Swarm::Clock;

  struct Options {
    std::size_t users = 0;
    std::chrono::seconds timeout{30};
    std::string password{};  // of Redis; empty: none
    std::string settings{};  // more of the daemon's configuration, as TOML under [redis]
  };

  /// Starts the daemon and logs the users in. Fails the test (throws) when that is not in the ring
  /// in the end. `redis` outlives it.
  MirroredCrowd(const RedisServer& redis, const Options& options);

  /// Lets time go by.
  void run(Clock::duration time);
  /// The same until `done`, which is asked now and then; false at the limit.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, Clock::duration limit);

  /// `count` users log out, and as many new ones log in.
  void change(std::size_t count);

  /// What the ring says that is not so: a line for each user who is missing, left behind, filed
  /// wrongly, or has a deadline that the packets do not explain. Takes Redis some 10 ms.
  [[nodiscard]] std::vector<std::string> differences() const;
  /// Runs until there are none; nullopt at the limit. How long that took since `since`.
  [[nodiscard]] std::optional<Clock::duration> equal_within(Clock::duration limit,
                                                            Clock::time_point since);

  /// "offline u-7 logout" for each edge that there had to be, logins included.
  [[nodiscard]] const std::multiset<std::string>& edges() const { return edges_; }
  /// The same of what the daemon's event log says.
  [[nodiscard]] std::multiset<std::string> edges_in_log() const;

  /// Replaces the daemon's password file.
  void write_password(const std::string& password) const;
  /// HUP.
  void reload() const;

  [[nodiscard]] const Daemon& daemon() const { return *daemon_; }

 private:
  /// When a packet was sent, and when it had been read at the latest.
  struct Packet {
    Clock::time_point sent;
    Clock::time_point read;
  };
  struct User {
    std::string uid;
    bool online = true;
    Packet last;
    Packet before;  // the one before the last
  };

  void log_in(const std::string& prefix, std::size_t count);
  void keep_alive();
  [[nodiscard]] std::optional<std::string> flaw_of(const User& user, std::int64_t remaining_ms,
                                                   const Packet& reading) const;

  const RedisServer& redis_;
  const std::chrono::seconds timeout_;
  const Clock::duration interval_;
  TemporaryFolder folder_;
  std::string config_;
  std::optional<Daemon> daemon_;
  std::optional<Swarm> swarm_;
  std::vector<User> users_;  // as the swarm's peers
  std::multiset<std::string> edges_;
  std::size_t changes_ = 0;        // calls of change()
  std::size_t next_to_leave_ = 0;  // of users_
  std::size_t next_to_keep_alive_ = 0;
  Clock::time_point kept_alive_at_;
};

}  // namespace pulsewheel::test

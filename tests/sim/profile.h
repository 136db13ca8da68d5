// Profile: what a simulated node and its clients are like, and what befalls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/base/time.h"
#include "tests/sim/random.h"

namespace pulsewheel::nodesim {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// What a logged-in client does next, as weights.
struct Habits {
  unsigned keepalive = 900;
  unsigned message = 60;
  unsigned logout = 6;
  unsigned fin = 8;        // closes without a word, and comes back
  unsigned reset = 4;      // the same, harder
  unsigned half_open = 6;  // from now on all its packets vanish, in both directions
  unsigned silence = 6;    // keeps the connection and says nothing
  unsigned move = 6;       // logs in through another connection while the old one stands
  unsigned race = 4;       // the same with two connections at once
};

/// How wishes become timeouts: 1.5 x the wish, within the bounds; no wish: the default.
struct Timeouts {
  Duration standard = seconds{30};
  Duration min = seconds{5};
  Duration max = hours{1};

  [[nodiscard]] Duration of_wish(std::uint32_t wish_ms) const;
};

struct Profile {
  std::string_view name;
  std::string_view about;

  // The node.
  std::size_t shards = 4;
  Duration tick = seconds{1};
  bool linger = true;
  Timeouts timeouts;
  bool track_deadlines = false;  // somebody mirrors until when each user stays online
  Duration retention = minutes{10};
  std::size_t offline_users_max = 100'000;
  std::uint32_t sessions_per_user_max = 4;
  std::size_t accept_burst = 16;
  std::size_t handlers_max = 64;
  std::size_t expiry_budget = 256;

  // How fast it runs.
  Span round_latency{microseconds{1}, microseconds{200}};  // from having work to a round
  Span handler_cost{microseconds{0}, microseconds{5}};
  Span mail_delay{microseconds{1}, microseconds{50}};  // what a post to another shard takes
  Duration stall_every{0};                             // on average; 0: never
  Span stall{milliseconds{300}, seconds{60}};
  unsigned whole_node_stalls = 0;  // of a thousand
  unsigned stalls_inside_round =
      0;  // of a thousand stalls of one shard: between reading and deciding

  // The network.
  Span network_delay{milliseconds{1}, milliseconds{120}};
  unsigned lost = 0;  // of a thousand packets; they come later
  Span retransmission{milliseconds{200}, seconds{4}};

  // The clients.
  std::size_t users = 1'000;
  Habits habits;
  unsigned labelled = 400;      // of a thousand users: all their sessions have device labels
  unsigned near_deadline = 20;  // of a thousand keepalives: sent within two ticks of the deadline
  unsigned impatient = 20;      // of a thousand logins: goes on before the answer is there
  unsigned speechless = 5;      // of a thousand connections: no LOGIN follows
  Span away{milliseconds{10}, minutes{2}};  // between two connections
  Duration kick_every{0};                   // on average; 0: never
  Duration hold_every{0};                   // the operator pauses a user's expiry, or lets it go on
  Span hold{milliseconds{100}, minutes{3}};
  Duration storm_every{0};   // all connections are cut at once, and come back
  Duration reload_every{0};  // the operator sets other timeouts
  Duration restart_every{0};
  unsigned crashes = 500;  // of a thousand restarts

  /// How long after its due tick an edge may be decided, given these latencies and no stall. The
  /// way of a session's end is: its shard's round, mail, the home's round, a fence (mail, each
  /// shard's rounds until everything is read, mail), the home's round; behind a crowd, the rounds
  /// that the crowd takes.
  Duration lateness_max{0};
};

/// Every profile, by name in the order of the README of this folder (simulation.h).
[[nodiscard]] std::span<const Profile> profiles() noexcept;
/// nullptr: no such profile.
[[nodiscard]] const Profile* find_profile(std::string_view name) noexcept;

}  // namespace pulsewheel::nodesim

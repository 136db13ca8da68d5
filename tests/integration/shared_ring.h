// Nodes that share one ring in a real Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/daemon.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {

/// A node of a shared ring.
Daemon::Options sharing(const RedisServer& redis, const std::string& node,
                        const std::vector<std::string>& more = {});

/// Waits until it writes to the ring.
bool joins(const Daemon& node);

/// An edge in the stream.
struct StreamEdge {
  std::string kind, uid, reason, node;
  std::int64_t at_ms = 0;  // by Redis' clock
};
std::vector<StreamEdge> read_stream(const RedisServer& redis);

/// What becomes of a node that is killed.
enum class Afterlife {
  kNone,       // it stays dead
  kRestarted,  // it starts at once, under its name and on its state folder
};

/// Three nodes, with all users on the first, which is killed. A third of them comes back through
/// the second one and stays; the others are silent, and are due before the lease of the dead is
/// over or behind that. Fails the test unless each of these goes offline once, in [T, T + lease +
/// two seconds of the hand] after the last packet of which Redis knew, by Redis' own clock, and
/// nobody else does; and unless a restarted node joins as soon as its old lease is over.
void check_a_killed_node(std::size_t users, Afterlife afterlife);

}  // namespace pulsewheel::test

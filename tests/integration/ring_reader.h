// The ring in a real Redis as a test sees it: read in one moment, and checked against the layout.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/redis_server.h"

namespace pulsewheel::test {

/// Under the default names.
struct Ring {
  struct User {
    std::string slot;
    std::string owners;
    std::int64_t deadline_ms = 0;
    std::int64_t remaining_ms = 0;
  };
  /// Who is in the index.
  std::map<std::string, User> users;
  /// What the layout does not allow, a line each: a user of ours in two slots or in a wrong one, a
  /// deadline or an owner of nobody, and the like.
  std::vector<std::string> faults;
};

Ring read_ring(const RedisServer& redis);

/// "online alice login", in the order of the stream.
std::vector<std::string> read_edges(const RedisServer& redis);

}  // namespace pulsewheel::test

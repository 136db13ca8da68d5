// What a repair decides about one user: whether what Redis says of it is what memory says.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/redis/redis_reply.h"
#include "daemon/redis/ring_layout.h"

namespace pulsewheel {

/// What Redis has of a user.
struct FiledUser {
  std::optional<std::string> slot;      // in the index
  std::optional<std::string> deadline;  // unix ms
  std::string owners;
};

/// As memory has it, in a moment of Redis' clock.
struct ExpectedUser {
  std::chrono::milliseconds now{0};        // Redis' time
  std::chrono::milliseconds remaining{0};  // until the deadline
  std::chrono::milliseconds slack{0};      // by which the two may differ
  /// How old the entry of a deadline may be that lies beyond the ring: such a user is filed at its
  /// far end, again and again.
  std::chrono::milliseconds refile_period{0};
};

/// Whether `filed` is right for a user whom `node` holds. `slots` are the names in the ring's
/// order. Deadlines of users whom others hold too may be later. Pure.
[[nodiscard]] bool is_filed_right(const FiledUser& filed, const ExpectedUser& expected,
                                  const RingLayout& layout, const std::vector<std::string>& slots,
                                  const RingNode& node);

/// Whether `owners` ("node:epoch,...") has a node of this name, in whatever epoch. Pure.
[[nodiscard]] bool is_held_by(std::string_view owners, std::string_view name) noexcept;

/// The same, and whether no other node is in it. Pure.
[[nodiscard]] bool is_held_only_by(std::string_view owners, std::string_view name) noexcept;

/// Whether `owners` has this life of this node. Pure.
[[nodiscard]] bool is_held_by(std::string_view owners, const RingNode& node);

/// The deadline that `text` is; nullopt when it is none. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_unix_ms(std::string_view text);

/// What TIME answers, as unix time; nullopt when it is something else. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_redis_time(const RedisReply& reply);

/// Whether this is what HSCAN and SSCAN answer: a cursor and a list. Pure.
[[nodiscard]] bool is_scan_page(const RedisReply& reply) noexcept;

}  // namespace pulsewheel

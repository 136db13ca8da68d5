// RedisRing: reads the ring from Redis, over hiredis and nothing of the daemon's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"
#include "tests/client_sim/ring_check.h"
#include "tests/client_sim/uid_names.h"

struct redisContext;
struct redisReply;

namespace pulsewheel::sim {

/// Redis cannot be reached, or what is in it is no ring; what() is one line.
class RedisTrouble : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// redis://HOST[:PORT][/DATABASE] or unix:///PATH[?db=DATABASE].
struct RedisAddress {
  std::string host;  // without brackets; empty: `path`
  std::uint16_t port = 6379;
  std::string path;
  std::uint32_t database = 0;

  /// Throws UsageError, with one sentence that says what is allowed.
  [[nodiscard]] static RedisAddress parse(const std::string& url);
};

/// The keys, as the daemon's redis.list_key, .index_key and .key_prefix name them. The SETs' names
/// are in the list.
struct RingKeys {
  std::string list = "testlist";
  std::string index = "timeline-index";
  std::string prefix = "pulsewheel:";

  [[nodiscard]] std::string deadlines() const { return prefix + "deadline"; }
};

/// A blocking connection, made when it is first needed and again after a failure. Confined to one
/// thread, in which SIGPIPE is blocked: hiredis writes to sockets that the server may have closed.
/// Every function that reads throws RedisTrouble; each wait in it ends after kTimeout.
class RedisRing {
 public:
  RedisRing(RedisAddress address, RingKeys keys, const UidNames& names, std::uint32_t users);

  /// Redis' clock, with our own before and after.
  [[nodiscard]] RingClock clock();

  /// Everything, by HSCAN and SSCAN: no command holds Redis up, and users move meanwhile. Whoever
  /// looks wrong is for reread(). O(ring).
  [[nodiscard]] RingSnapshot scan();

  /// Reads these users, and the strangers of `ring`, again, kUsersAtOnce each in one moment.
  void reread(RingSnapshot& ring, std::span<const DifferentUser> users);

  static constexpr std::chrono::seconds kTimeout{5};
  /// Users in one transaction: 1,700 look-ups with 32 slots, a millisecond of Redis' time.
  static constexpr std::size_t kUsersAtOnce = 50;

 private:
  using Words = std::vector<std::string>;
  struct FreeContext {
    void operator()(redisContext* context) const noexcept;
  };
  struct FreeReply {
    void operator()(redisReply* reply) const noexcept;
  };
  using Reply = std::unique_ptr<redisReply, FreeReply>;

  void connect();
  [[noreturn]] void fail(const std::string& what);
  void append(const Words& words);
  [[nodiscard]] Reply next_reply();
  [[nodiscard]] Reply command(const Words& words);

  void read_slot_names();
  /// Calls `visit` with each element of a hash (its value follows its field) or a set.
  void scan_key(const std::string& command, const std::string& key,
                const std::function<void(std::span<redisReply* const>)>& visit);
  [[nodiscard]] RingEntry* entry_of(RingSnapshot& ring, std::string_view uid) const;
  [[nodiscard]] std::int8_t slot_named(std::string_view name) const noexcept;
  /// What these uids are now: one transaction.
  [[nodiscard]] std::vector<RingEntry> read_entries(std::span<const std::string> uids);

  RedisAddress address_;
  RingKeys keys_;
  const UidNames& names_;
  std::uint32_t users_;
  std::unique_ptr<redisContext, FreeContext> context_;
  std::vector<std::string> slots_;
};

}  // namespace pulsewheel::sim

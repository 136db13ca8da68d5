#include "daemon/redis/redis_errc.h"

#include <string>

namespace pulsewheel {
namespace {

constexpr std::array<RedisErrcFacts, kRedisErrcCount> kFacts{{
    {RedisErrc::kNone, "none", "redis", "no error"},
    {RedisErrc::kNotConnected, "not_connected", "redis", "there is no connection to Redis"},
    {RedisErrc::kTooManyCommands, "too_many_commands", "redis",
     "as many commands are in flight to Redis as may be"},
    {RedisErrc::kTooManyBytes, "too_many_bytes", "redis",
     "as many bytes are in flight to Redis as may be"},
    {RedisErrc::kUnreachable, "unreachable", "redis_connect", "Redis cannot be reached"},
    {RedisErrc::kConnectTimeout, "connect_timeout", "redis_connect",
     "the connection to Redis was not ready in time"},
    {RedisErrc::kTls, "tls", "redis_tls", "no TLS with Redis"},
    {RedisErrc::kSecret, "secret", "redis_auth", "the password for Redis cannot be had"},
    {RedisErrc::kAuthRefused, "auth_refused", "redis_auth",
     "Redis refuses the user or the password"},
    {RedisErrc::kHandshakeRefused, "handshake_refused", "redis_handshake",
     "Redis refuses a command with which a connection starts"},
    {RedisErrc::kNotServing, "not_serving", "redis_not_serving",
     "Redis is there but does not serve"},
    {RedisErrc::kTimeout, "timeout", "redis_timeout", "Redis did not answer a command in time"},
    {RedisErrc::kClosedByServer, "closed", "redis_closed", "the connection to Redis broke"},
    {RedisErrc::kProtocol, "protocol", "redis_protocol", "the server's answer is none of Redis'"},
    {RedisErrc::kUnsolicited, "unsolicited", "redis_protocol",
     "Redis sent a reply that belongs to no command"},
    {RedisErrc::kNotMaster, "not_master", "redis_readonly", "this Redis is a replica"},
    {RedisErrc::kStopped, "stopped", "redis", "the Redis client was stopped"},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (static_cast<std::size_t>(kFacts[i].error) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

class RedisCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "pulsewheel.redis"; }
  std::string message(int value) const override {
    const auto index = static_cast<std::size_t>(value);
    return index < kFacts.size() ? kFacts[index].text : "an error of a later version";
  }
};

}  // namespace

const std::array<RedisErrcFacts, kRedisErrcCount>& redis_errcs() noexcept {
  return kFacts;
}

const RedisErrcFacts& facts_of(RedisErrc error) noexcept {
  return kFacts[static_cast<std::size_t>(error)];
}

const std::error_category& redis_category() noexcept {
  static const RedisCategory category;
  return category;
}

std::error_code make_error_code(RedisErrc error) noexcept {
  return {static_cast<int>(error), redis_category()};
}

}  // namespace pulsewheel

// RedisScript: a Lua script for Redis, with the name under which Redis caches it.
#pragma once

#include <string>
#include <string_view>

namespace pulsewheel {

/// Immutable. Calls in flight refer to it: it outlives the client (scripts are statics).
class RedisScript {
 public:
  /// `source` outlives the script. Throws std::runtime_error when OpenSSL has no SHA-1.
  explicit RedisScript(std::string_view source);

  [[nodiscard]] std::string_view source() const noexcept { return source_; }
  /// SHA-1 of the source in 40 lowercase hex digits: the name that EVALSHA takes.
  [[nodiscard]] const std::string& sha1() const noexcept { return sha1_; }

 private:
  std::string_view source_;
  std::string sha1_;
};

}  // namespace pulsewheel

// RedisHandshake: the commands with which a connection starts, and what the answers mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/redis/redis_errc.h"
#include "daemon/redis/redis_reply.h"
#include "daemon/redis/reply_error.h"

namespace pulsewheel {

/// AUTH, CLIENT SETNAME, SELECT and PING, as far as they are needed, all sent at once. A PONG says
/// that the server serves: one that is loading its data answers the others, too. Pure.
class RedisHandshake {
 public:
  struct Options {
    std::string user;         // empty: AUTH with the password only
    std::string password;     // empty: no AUTH
    std::string client_name;  // empty: no CLIENT SETNAME; visible ASCII without spaces
    std::uint32_t database = 0;
  };

  explicit RedisHandshake(Options options);

  /// Appends all commands to `out`.
  void append_commands(std::string& out) const;

  struct Verdict {
    enum class Kind : std::uint8_t { kMore, kReady, kFailed };
    Kind kind = Kind::kMore;
    RedisErrc error = RedisErrc::kNone;       // of kFailed
    bool is_slow = false;                     // of kFailed: somebody has to change something first
    std::optional<ReplyError> reply_error{};  // to be counted, whatever the kind
    std::string detail{};                     // of kFailed; never holds a secret
  };

  /// Takes the answer to the next command. Not after kReady or kFailed.
  [[nodiscard]] Verdict on_reply(const RedisReply& reply);

 private:
  enum class Step : std::uint8_t { kAuth, kSetName, kSelect, kPing };

  [[nodiscard]] static const char* name_of(Step step) noexcept;
  [[nodiscard]] static Verdict on_error(Step step, const RedisReply& reply);

  const Options options_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
};

}  // namespace pulsewheel

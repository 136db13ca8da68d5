// OwnUsers: reads whom earlier lives of a node have left in Redis and who may still come back.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/core/user_deadline.h"
#include "daemon/redis/redis_client.h"
#include "daemon/redis/scripts.h"

namespace pulsewheel {

/// One reading: of users whom no other node holds, since who is with another one by now will not
/// come back here. Confined to the client's thread; lives until `done` was called or the client has
/// stopped.
class OwnUsers {
 public:
  /// Gets the users whose time is not over; all that could be read, also where the connection was
  /// lost on the way.
  using Done = std::function<void(DeadlineBatch)>;

  /// `timeout`: what their last packets are reckoned from, as Redis knows deadlines only. `client`
  /// and `scripts` outlive it.
  OwnUsers(RedisClient& client, const RingScripts& scripts, Duration timeout, Done done);
  OwnUsers(const OwnUsers&) = delete;
  OwnUsers& operator=(const OwnUsers&) = delete;

  void start() { scan(); }

  static constexpr std::string_view kPerPage = "512";

 private:
  void scan();
  void on_page(const RedisReply& page);
  void read_deadlines(const std::vector<std::string>& uids);
  void on_deadlines(const std::vector<std::string>& uids, const RedisReply& time,
                    const RedisReply& deadlines);
  void finish();

  RedisClient& client_;
  const RingScripts& scripts_;
  const Duration timeout_;
  Done done_;
  std::string cursor_ = "0";
  RedisReply time_;
  DeadlineBatch users_;
};

}  // namespace pulsewheel

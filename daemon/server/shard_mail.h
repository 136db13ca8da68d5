// What shards tell each other. One batch per round and destination; order is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/core/presence_registry.h"
#include "daemon/net/shard_context.h"

namespace pulsewheel {

/// To the home shard of the uid: may this session log in?
struct LoginMail {
  std::string uid;
  std::string device;
  SessionRef session;
  LoginTerms terms;
};

/// Back to the session's shard.
struct LoginAnswerMail {
  SessionRef session;
  LoginDecision decision;
  LoginTerms terms;
};

/// To the home shard: a logged-in session ended. Behind its LoginMail, in the same order.
struct EndMail {
  SessionEnd end;
};

/// To the home shard, once a tick: these sessions have had packets. With track_deadlines only.
struct TouchMail {
  std::vector<SessionTouch> touches;
};

/// To the session's shard: the home shard has forgotten this session; tell its client and close.
struct DismissMail {
  SessionRef session;
  CloseReason reason = CloseReason::kTakenOver;
};

/// To the session's shard: the user's time stands still from `since` on, or goes on. Behind the
/// LoginAnswerMail, in the same order.
struct HoldMail {
  SessionRef session;
  std::optional<MonoTime> since;  // nullopt: released
};

/// To every shard, from one on which somebody's deadline has come: accept who is waiting and read
/// what your sockets hold, then answer. The logins found leave for their home shards first.
struct FenceMail {
  ShardIndex asker = 0;
};

struct FenceAnswerMail {};

using Mail = std::variant<LoginMail, LoginAnswerMail, EndMail, TouchMail, DismissMail, HoldMail,
                          FenceMail, FenceAnswerMail>;
using MailBatch = std::vector<Mail>;

}  // namespace pulsewheel

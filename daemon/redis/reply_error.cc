#include "daemon/redis/reply_error.h"

namespace pulsewheel {
namespace {

using enum Reaction;

constexpr std::array<ReplyErrorFacts, kReplyErrorCount> kFacts{{
    {ReplyError::kNoAuth, "NOAUTH", "noauth", "redis_noauth", kReconnectSlowly,
     "Redis wants a password and none is configured."},
    {ReplyError::kWrongPass, "WRONGPASS", "wrongpass", "redis_wrongpass", kReconnectSlowly,
     "Redis does not accept the configured user and password."},
    {ReplyError::kNoPerm, "NOPERM", "noperm", "redis_noperm", kStopKind,
     "The Redis user may not run this command or touch this key: its ACL must allow it."},
    {ReplyError::kLoading, "LOADING", "loading", "redis_loading", kRetryLater,
     "Redis is still loading its data from disk."},
    {ReplyError::kMasterDown, "MASTERDOWN", "masterdown", "redis_masterdown", kRetryLater,
     "This Redis is a replica that has lost its master and serves no stale data."},
    {ReplyError::kBusy, "BUSY", "busy", "redis_busy", kRetryLater,
     "Redis is held up by somebody's script that runs for too long."},
    {ReplyError::kReadOnly, "READONLY", "readonly", "redis_readonly", kReconnect,
     "This Redis is a replica: the address has to lead to the master."},
    {ReplyError::kOom, "OOM", "oom", "redis_oom", kRetryLater,
     "Redis has used up its maxmemory and refuses to write."},
    {ReplyError::kMisconf, "MISCONF", "misconf", "redis_misconf", kRetryLater,
     "Redis cannot save its data to disk and refuses to write."},
    {ReplyError::kNoReplicas, "NOREPLICAS", "noreplicas", "redis_noreplicas", kRetryLater,
     "Redis has fewer good replicas than its min-replicas-to-write."},
    {ReplyError::kWrongType, "WRONGTYPE", "wrongtype", "redis_wrongtype", kStopKind,
     "A key of ours holds a value of another type: somebody else uses its name."},
    {ReplyError::kNoScript, "NOSCRIPT", "noscript", "redis_noscript", kResendWithEval,
     "Redis does not know a script whose source it was just sent."},
    {ReplyError::kMoved, "MOVED", "moved", "redis_moved", kStopKind,
     "This Redis is a node of a cluster, which this version cannot use."},
    {ReplyError::kCrossSlot, "CROSSSLOT", "crossslot", "redis_crossslot", kStopKind,
     "This Redis is a cluster, and the keys are not in one slot: give them all one hash tag."},
    {ReplyError::kOther, "", "other", "redis_error", kGiveUp, "Redis refused a command."},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (static_cast<std::size_t>(kFacts[i].error) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

const std::array<ReplyErrorFacts, kReplyErrorCount>& reply_errors() noexcept {
  return kFacts;
}

const ReplyErrorFacts& facts_of(ReplyError error) noexcept {
  return kFacts[static_cast<std::size_t>(error)];
}

ReplyError classify_reply_error(std::string_view text) noexcept {
  const std::string_view word = text.substr(0, text.find(' '));
  for (const ReplyErrorFacts& facts : kFacts) {
    if (facts.word == word && !word.empty()) return facts.error;
  }
  return ReplyError::kOther;
}

}  // namespace pulsewheel

#include "daemon/redis/reply_error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "daemon/redis/redis_errc.h"

namespace pulsewheel {
namespace {

TEST(ReplyErrorTest, KnowsTheErrorsOfRealServers) {
  const struct {
    const char* text;
    ReplyError error;
    Reaction reaction;
  } kCases[] = {
      {"NOAUTH Authentication required.", ReplyError::kNoAuth, Reaction::kReconnectSlowly},
      {"WRONGPASS invalid username-password pair or user is disabled.", ReplyError::kWrongPass,
       Reaction::kReconnectSlowly},
      {"NOPERM this user has no permissions to run the 'get' command", ReplyError::kNoPerm,
       Reaction::kStopKind},
      {"LOADING Redis is loading the dataset in memory", ReplyError::kLoading,
       Reaction::kRetryLater},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
       ReplyError::kMasterDown, Reaction::kRetryLater},
      {"BUSY Redis is busy running a script.", ReplyError::kBusy, Reaction::kRetryLater},
      {"READONLY You can't write against a read only replica.", ReplyError::kReadOnly,
       Reaction::kReconnect},
      {"OOM command not allowed when used memory > 'maxmemory'.", ReplyError::kOom,
       Reaction::kRetryLater},
      {"MISCONF Redis is configured to save RDB snapshots", ReplyError::kMisconf,
       Reaction::kRetryLater},
      {"NOREPLICAS Not enough good replicas to write.", ReplyError::kNoReplicas,
       Reaction::kRetryLater},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", ReplyError::kWrongType,
       Reaction::kStopKind},
      {"NOSCRIPT No matching script. Please use EVAL.", ReplyError::kNoScript,
       Reaction::kResendWithEval},
      {"MOVED 3999 127.0.0.1:6381", ReplyError::kMoved, Reaction::kStopKind},
      {"CROSSSLOT Keys in request don't hash to the same slot", ReplyError::kCrossSlot,
       Reaction::kStopKind},
      {"ERR unknown command 'x'", ReplyError::kOther, Reaction::kGiveUp},
  };
  std::set<ReplyError> seen;
  for (const auto& [text, error, reaction] : kCases) {
    EXPECT_EQ(classify_reply_error(text), error) << text;
    EXPECT_EQ(facts_of(error).reaction, reaction) << text;
    seen.insert(error);
  }
  EXPECT_EQ(seen.size(), kReplyErrorCount);
}

TEST(ReplyErrorTest, ComparesWholeFirstWords) {
  for (const char* text : {"", " ", "BUSYGROUP Consumer Group name already exists", "LOADIN",
                           "loading x", " LOADING x", "ERR LOADING", "LOADING\r\n"})
    EXPECT_EQ(classify_reply_error(text), ReplyError::kOther) << text;
  EXPECT_EQ(classify_reply_error("LOADING"), ReplyError::kLoading);
}

TEST(ReplyErrorTest, HasAMetricLabelAndASentenceForEach) {
  std::set<std::string_view> labels;
  for (const ReplyErrorFacts& facts : reply_errors()) {
    labels.insert(facts.metric);
    EXPECT_TRUE(facts.text.ends_with('.')) << facts.metric;
  }
  EXPECT_EQ(labels.size(), kReplyErrorCount);
}

TEST(RedisErrcTest, HasAMetricLabelAndATextForEach) {
  std::set<std::string_view> labels;
  for (const RedisErrcFacts& facts : redis_errcs()) {
    labels.insert(facts.metric);
    EXPECT_EQ(make_error_code(facts.error).message(), facts.text);
  }
  EXPECT_EQ(labels.size(), kRedisErrcCount);
}

TEST(RedisErrcTest, IsACategoryOfItsOwn) {
  const std::error_code code = RedisErrc::kTimeout;
  EXPECT_TRUE(code);
  EXPECT_EQ(code, RedisErrc::kTimeout);
  EXPECT_NE(code, RedisErrc::kClosedByServer);
  EXPECT_STREQ(code.category().name(), "pulsewheel.redis");
  EXPECT_EQ(std::error_code(99, redis_category()).message(), "an error of a later version");
  EXPECT_FALSE(std::error_code(RedisErrc::kNone));
}

}  // namespace
}  // namespace pulsewheel

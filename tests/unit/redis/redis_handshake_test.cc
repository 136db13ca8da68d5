#include "daemon/redis/redis_handshake.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/unit/redis/replies.h"

namespace pulsewheel {
namespace {

using Kind = RedisHandshake::Verdict::Kind;
using testing::HasSubstr;
using testing::Not;

RedisReply status(std::string text) {
  return text_reply(RedisReply::Type::kStatus, std::move(text));
}
RedisReply error(std::string text) {
  return text_reply(RedisReply::Type::kError, std::move(text));
}

const RedisHandshake::Options kAll{
    .user = "alice", .password = "s3cret", .client_name = "pw", .database = 3};

std::string commands(RedisHandshake::Options options) {
  std::string out;
  RedisHandshake(std::move(options)).append_commands(out);
  return out;
}

TEST(RedisHandshakeTest, SendsOnlyWhatIsNeeded) {
  EXPECT_EQ(commands({}), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(commands(kAll),
            "*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\ns3cret\r\n"
            "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\npw\r\n"
            "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
            "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(commands({.user = "", .password = "p", .client_name = "", .database = 0}),
            "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*1\r\n$4\r\nPING\r\n");
}

TEST(RedisHandshakeTest, IsReadyWithThePong) {
  RedisHandshake handshake(kAll);
  EXPECT_EQ(handshake.on_reply(status("OK")).kind, Kind::kMore);
  EXPECT_EQ(handshake.on_reply(status("OK")).kind, Kind::kMore);
  EXPECT_EQ(handshake.on_reply(status("OK")).kind, Kind::kMore);
  EXPECT_EQ(handshake.on_reply(status("PONG")).kind, Kind::kReady);
}

// The verdict on `reply` to the command at `step` of AUTH, CLIENT, SELECT, PING.
RedisHandshake::Verdict verdict_at(int step, const RedisReply& reply) {
  RedisHandshake handshake(kAll);
  for (int i = 0; i < step; ++i)
    EXPECT_EQ(handshake.on_reply(status("OK")).kind, Kind::kMore);
  return handshake.on_reply(reply);
}

TEST(RedisHandshakeTest, JudgesErrorsByCommandAndKind) {
  const struct {
    int step;
    const char* reply;
    RedisErrc error;  // kNone: goes on
    bool is_slow;
  } kCases[] = {
      {0, "WRONGPASS invalid username-password pair", RedisErrc::kAuthRefused, true},
      {0, "ERR invalid password", RedisErrc::kAuthRefused, true},
      {0, "ERR AUTH <password> called without any password configured", RedisErrc::kAuthRefused,
       true},
      {0, "ERR unknown command `AUTH`, with args beginning with: `s3cret`", RedisErrc::kAuthRefused,
       true},
      {0, "NOPERM no", RedisErrc::kAuthRefused, true},
      {0, "LOADING Redis is loading", RedisErrc::kNotServing, false},
      {0, "ERR max number of clients reached", RedisErrc::kNotServing, false},
      {1, "ERR max number of clients reached", RedisErrc::kNotServing, false},
      {1, "NOPERM no", RedisErrc::kNone, false},
      {1, "ERR unknown subcommand", RedisErrc::kNone, false},
      {1, "NOAUTH Authentication required.", RedisErrc::kAuthRefused, true},
      {2, "ERR DB index is out of range", RedisErrc::kHandshakeRefused, true},
      {2, "NOPERM no", RedisErrc::kHandshakeRefused, true},
      {2, "LOADING x", RedisErrc::kNotServing, false},
      {3, "NOAUTH Authentication required.", RedisErrc::kAuthRefused, true},
      {3, "LOADING x", RedisErrc::kNotServing, false},
      {3, "MASTERDOWN x", RedisErrc::kNotServing, false},
      {3, "BUSY x", RedisErrc::kNotServing, false},
      {3, "MISCONF x", RedisErrc::kNotServing, false},
      {3, "NOPERM x", RedisErrc::kNone, false},
      {3, "ERR what", RedisErrc::kHandshakeRefused, true},
      {3, "DENIED Redis is running in protected mode", RedisErrc::kHandshakeRefused, true},
  };
  for (const auto& [step, text, wanted, is_slow] : kCases) {
    const auto verdict = verdict_at(step, error(text));
    EXPECT_EQ(verdict.error, wanted) << step << text;
    EXPECT_EQ(verdict.is_slow, is_slow) << step << text;
    EXPECT_EQ(verdict.kind == Kind::kFailed, wanted != RedisErrc::kNone) << step << text;
    EXPECT_EQ(verdict.reply_error, classify_reply_error(text));
    EXPECT_THAT(verdict.detail, Not(HasSubstr("s3cret")));
  }
}

TEST(RedisHandshakeTest, TakesAnotherAnswerForAnotherProtocol) {
  for (int step = 0; step < 4; ++step)
    EXPECT_EQ(verdict_at(step, status("HELLO")).error, RedisErrc::kProtocol);
  EXPECT_EQ(verdict_at(3, status("OK")).error, RedisErrc::kProtocol);
  EXPECT_EQ(verdict_at(3, RedisReply{}).error, RedisErrc::kProtocol);
}

TEST(RedisHandshakeTest, CutsTheServersWords) {
  EXPECT_LT(verdict_at(2, error("ERR " + std::string(5'000, 'x'))).detail.size(), 300u);
}

}  // namespace
}  // namespace pulsewheel

// How a RedisClient calls scripts: by their hash, and anew where the server has forgotten them.
#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/redis/redis_client_fixture.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::FakeRedis;
using testing::ElementsAre;

// The answers to script calls, with a cache that a test fills and empties.
class RedisClientScriptTest : public RedisClientFixture {
 protected:
  RedisClientScriptTest() {
    server_.answer = [this](const FakeRedis::Command& command) {
      if (command[0] == "EVALSHA") {
        if (!cached_) return "-NOSCRIPT No matching script.\r\n"s;
        return "+hash\r\n"s;
      }
      if (command[0] == "EVAL") {
        cached_ = !forgets_;
        return "+source\r\n"s;
      }
      return FakeRedis::usual_answer(command);
    };
  }

  // "EVALSHA a": the script calls that came, with their argument.
  [[nodiscard]] std::vector<std::string> calls() const {
    std::vector<std::string> all;
    for (const auto& command : server_.payload())
      all.push_back(command[0] + " " + command.back());
    return all;
  }

  bool cached_ = false;
  bool forgets_ = false;
};

TEST_F(RedisClientScriptTest, CallsByHashAndFallsBackToTheSource) {
  connect();
  eval(kFirst, "a");
  ASSERT_TRUE(wait_for_outcomes(1));
  eval(kFirst, "b");
  ASSERT_TRUE(wait_for_outcomes(2));
  EXPECT_THAT(outcomes_, ElementsAre("a: source", "b: hash"));
  EXPECT_THAT(server_.payload(),
              ElementsAre(ElementsAre("EVALSHA", kFirst.sha1(), "1", "key", "a"),
                          ElementsAre("EVAL", "return 1", "1", "key", "a"),
                          ElementsAre("EVALSHA", kFirst.sha1(), "1", "key", "b")));
  EXPECT_EQ(client().counters().scripts_resent.value(), 1u);
  EXPECT_EQ(client().counters().of(ReplyError::kNoScript).value(), 0u) << "it is no trouble";
  EXPECT_EQ(client().counters().commands_in_flight.value(), 0);
  EXPECT_EQ(client().counters().bytes_in_flight.value(), 0);
}

TEST_F(RedisClientScriptTest, KeepsTheOrderWhileScriptsAreSentAgain) {
  connect();
  eval(kFirst, "a");
  eval(kSecond, "b");
  eval(kFirst, "c");
  // Submitted when the first NOSCRIPT is known and those of b and c are not read yet.
  ASSERT_TRUE(run_until([&] { return client().counters().scripts_resent.value() > 0; }));
  eval(kFirst, "d");
  ASSERT_TRUE(wait_for_outcomes(4));
  EXPECT_THAT(outcomes_, ElementsAre("a: source", "b: source", "c: source", "d: hash"));
  EXPECT_THAT(calls(), ElementsAre("EVALSHA a", "EVALSHA b", "EVALSHA c", "EVAL a", "EVAL b",
                                   "EVAL c", "EVALSHA d"));
}

TEST_F(RedisClientScriptTest, HoldsWhatIsSubmittedBetweenTwoForgottenScripts) {
  server_.answer = FakeRedis::usual_answer;
  connect();
  eval(kFirst, "a");
  eval(kFirst, "b");
  ASSERT_TRUE(run_until([&] { return server_.payload().size() == 2; }));
  server_.say("-NOSCRIPT x\r\n");
  ASSERT_TRUE(run_until([&] { return client().counters().scripts_resent.value() == 1; }));
  submit({"GET", "c"});
  eval(kFirst, "d");
  EXPECT_EQ(client().counters().commands_in_flight.value(), 4);
  server_.say("-NOSCRIPT x\r\n");
  ASSERT_TRUE(run_until([&] { return server_.payload().size() == 6; }));
  EXPECT_THAT(calls(),
              ElementsAre("EVALSHA a", "EVALSHA b", "EVAL a", "EVAL b", "GET c", "EVALSHA d"));
  server_.say("+1\r\n+2\r\n+3\r\n+4\r\n");
  ASSERT_TRUE(wait_for_outcomes(4));
  EXPECT_THAT(outcomes_, ElementsAre("a: 1", "b: 2", "GET: 3", "d: 4"));
}

TEST_F(RedisClientScriptTest, SendsAScriptAgainOnceOnly) {
  server_.answer = [](const FakeRedis::Command& command) {
    return command[0].starts_with("EVAL") ? "-NOSCRIPT x\r\n"s : FakeRedis::usual_answer(command);
  };
  connect();
  eval(kFirst, "a");
  ASSERT_TRUE(wait_for_outcomes(1));
  EXPECT_THAT(outcomes_, ElementsAre("a: NOSCRIPT x"));
  EXPECT_THAT(calls(), ElementsAre("EVALSHA a", "EVAL a"));
  EXPECT_EQ(client().counters().of(ReplyError::kNoScript).value(), 1u);
}

TEST_F(RedisClientScriptTest, FailsHeldCommandsWithTheConnection) {
  server_.answer = FakeRedis::usual_answer;
  connect();
  eval(kFirst, "a");
  eval(kFirst, "b");
  ASSERT_TRUE(run_until([&] { return server_.payload().size() == 2; }));
  server_.say("-NOSCRIPT x\r\n");
  ASSERT_TRUE(run_until([&] { return client().counters().scripts_resent.value() == 1; }));
  submit({"GET"});
  server_.hang_up();
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_THAT(outcomes_, ElementsAre(failure("a", RedisErrc::kClosedByServer),
                                     failure("b", RedisErrc::kClosedByServer),
                                     failure("GET", RedisErrc::kClosedByServer)));
  EXPECT_EQ(client().counters().bytes_in_flight.value(), 0);
}

TEST_F(RedisClientScriptTest, TimesAForgottenScriptFromItsFirstSubmission) {
  options_.connection.command_timeout = 50ms;
  server_.answer = [](const FakeRedis::Command& command) {
    return command[0] == "EVALSHA" ? "-NOSCRIPT x\r\n"s : FakeRedis::usual_answer(command);
  };
  connect();
  eval(kFirst, "a");
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_THAT(outcomes_, ElementsAre(failure("a", RedisErrc::kTimeout)));
}

}  // namespace
}  // namespace pulsewheel

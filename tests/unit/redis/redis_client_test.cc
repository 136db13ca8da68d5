#include "daemon/redis/redis_client.h"

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/unit/redis/redis_client_fixture.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::FakeRedis;
using testing::ElementsAre;
using testing::HasSubstr;
using State = RedisClient::State;

class RedisClientTest : public RedisClientFixture {};

TEST_F(RedisClientTest, IntroducesItselfAndIsReady) {
  options_.connection.secret.user = "alice";
  options_.connection.secret.password = "p";
  options_.connection.client_name = "node-1";
  options_.connection.url.database = 2;
  connect();
  EXPECT_THAT(server_.commands.at(0), ElementsAre(ElementsAre("AUTH", "alice", "p"),
                                                  ElementsAre("CLIENT", "SETNAME", "node-1"),
                                                  ElementsAre("SELECT", "2"), ElementsAre("PING")));
  EXPECT_EQ(client().counters().up.value(), 1);
  EXPECT_EQ(client().counters().connections.value(), 1u);
}

TEST_F(RedisClientTest, AnswersPipelinedCommandsInOrder) {
  server_.answer = [](const FakeRedis::Command& command) {
    const std::string usual = FakeRedis::usual_answer(command);
    return usual.empty() ? "+" + command[1] + "\r\n" : usual;
  };
  connect();
  std::vector<std::string> expected;
  for (int i = 0; i < 500; ++i) {
    submit({"GET", std::to_string(i)});
    expected.push_back("GET: " + std::to_string(i));
  }
  EXPECT_EQ(client().counters().commands_in_flight.value(), 500);
  ASSERT_TRUE(wait_for_outcomes(500));
  EXPECT_EQ(outcomes_, expected);
  EXPECT_EQ(client().counters().commands_in_flight.value(), 0);
  EXPECT_EQ(client().counters().bytes_in_flight.value(), 0);
  EXPECT_EQ(client().counters().replies.value(), 500u);
  EXPECT_EQ(client().counters().round_trip.snapshot().count, 500u);
}

TEST_F(RedisClientTest, SendsAnyBytes) {
  answer_with({{"SET", "+OK\r\n"}});
  connect();
  const std::string odd = "\0\r\n$3\r\n%s \xff"s;
  submit({"SET", odd, ""});
  ASSERT_TRUE(wait_for_outcomes(1));
  EXPECT_THAT(server_.payload(), ElementsAre(ElementsAre("SET", odd, "")));
}

TEST_F(RedisClientTest, RefusesCommandsWithoutAConnection) {
  bool called = false;
  const auto callback = [&called](std::error_code, const RedisReply&) { called = true; };
  EXPECT_EQ(client().submit({"GET", "a"}, callback), RedisErrc::kNotConnected);
  client().start();
  EXPECT_EQ(client().submit({"GET", "a"}, callback), RedisErrc::kNotConnected);
  EXPECT_EQ(client().eval(kFirst, {}, {}, callback), RedisErrc::kNotConnected);
  connect();
  EXPECT_FALSE(called);
  EXPECT_TRUE(server_.payload().empty());
  EXPECT_EQ(client().counters().of(RedisErrc::kNotConnected).value(), 3u);
}

TEST_F(RedisClientTest, RefusesMoreCommandsThanMayBeInFlight) {
  options_.connection.commands_in_flight_max = 3;
  connect();
  for (int i = 0; i < 3; ++i)
    submit({"GET"});
  EXPECT_EQ(client().submit({"GET"}, outcome_of("GET")), RedisErrc::kTooManyCommands);
  ASSERT_TRUE(run_until([&] { return server_.payload().size() == 3; }));
  server_.say("+a\r\n");
  ASSERT_TRUE(wait_for_outcomes(1));
  submit({"GET"});
  EXPECT_EQ(client().submit({"GET"}, outcome_of("GET")), RedisErrc::kTooManyCommands);
}

TEST_F(RedisClientTest, KeepsTheBytesInFlightBoundedWhenTheServerDoesNotRead) {
  options_.connection.bytes_in_flight_max = 1'000'000;
  connect();
  server_.answer = [](const FakeRedis::Command&) { return ""; };
  const std::string large(10'000, 'x');
  int accepted = 0;
  while (!client().submit({"SET", large}, outcome_of("SET")))
    ++accepted;
  EXPECT_EQ(client().submit({"SET", large}, outcome_of("SET")), RedisErrc::kTooManyBytes);
  EXPECT_GT(accepted, 90);
  EXPECT_LE(client().counters().bytes_in_flight.value(), 1'000'000);
  submit({"GET"});  // there is room for a small one
}

TEST_F(RedisClientTest, NeverSendsACommandThatIsLargerThanTheBound) {
  options_.connection.bytes_in_flight_max = 1'000;
  connect();
  EXPECT_EQ(client().submit({"SET", std::string(1'000, 'x')}, outcome_of("SET")),
            RedisErrc::kTooManyBytes);
}

TEST_F(RedisClientTest, DropsTheConnectionWhenTheOldestCommandHasWaitedTooLong) {
  options_.connection.command_timeout = 50ms;
  answer_with({{"GET", ""}});
  connect();
  const auto begin = MonoClock::now();
  submit({"GET"});
  submit({"SET"});
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_GE(MonoClock::now() - begin, 50ms);
  EXPECT_THAT(outcomes_, ElementsAre(failure("GET", RedisErrc::kTimeout),
                                     failure("SET", RedisErrc::kTimeout)));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kTimeout);
  EXPECT_TRUE(downs_[0].was_ready);
  EXPECT_EQ(client().counters().of(RedisErrc::kTimeout).value(), 1u);
  EXPECT_EQ(client().counters().commands_in_flight.value(), 0);
  EXPECT_EQ(client().counters().bytes_in_flight.value(), 0);
}

TEST_F(RedisClientTest, CountsTheTimeoutFromTheOldestCommandOnly) {
  options_.connection.command_timeout = 1s;  // far more than a loaded machine takes for one
  answer_with({{"GET", "+x\r\n"}});
  connect();
  const auto begin = MonoClock::now();
  std::size_t asked = 0;
  while (MonoClock::now() - begin < 2'200ms) {
    submit({"GET"});
    ASSERT_TRUE(wait_for_outcomes(++asked));
  }
  EXPECT_TRUE(downs_.empty());
  submit({"SET"});
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kTimeout);
}

TEST_F(RedisClientTest, GivesUpAHandshakeThatIsNotAnswered) {
  options_.connection.connect_timeout = 30ms;
  server_.answer = [](const FakeRedis::Command&) { return ""; };
  client().start();
  ASSERT_TRUE(wait_for_downs(2));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kConnectTimeout);
  EXPECT_FALSE(downs_[0].was_ready);
  EXPECT_EQ(server_.connections, 2u);
}

TEST_F(RedisClientTest, ReportsAServerThatIsNotThereAndComesBack) {
  server_.stop_listening();
  client().start();
  ASSERT_TRUE(wait_for_downs(3));
  for (const RedisDown& down : downs_) {
    EXPECT_EQ(down.reason, RedisErrc::kUnreachable);
    EXPECT_THAT(down.detail, HasSubstr("refused"));
  }
  EXPECT_EQ(client().counters().up.value(), 0);
  server_.listen_again();
  ASSERT_TRUE(run_until([&] { return client().state() == State::kReady; }));
}

TEST_F(RedisClientTest, FindsAServerByName) {
  options_.connection.url.host = "localhost";
  connect();
}

// What the server says after the handshake, and why that ends the connection.
struct BadAnswer {
  const char* name;
  std::string bytes;
  RedisErrc reason;

  friend void PrintTo(const BadAnswer& answer, std::ostream* out) { *out << answer.name; }
};
class RedisClientBadAnswerTest : public RedisClientTest,
                                 public testing::WithParamInterface<BadAnswer> {};

TEST_P(RedisClientBadAnswerTest, FailsTheCommandsOnceAndConnectsAgain) {
  answer_with({{"GET", GetParam().bytes}});
  connect();
  submit({"GET"});
  submit({"SET"});
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, GetParam().reason);
  EXPECT_THAT(outcomes_,
              ElementsAre(failure("GET", GetParam().reason), failure("SET", GetParam().reason)));
  ASSERT_TRUE(run_until([&] { return client().state() == State::kReady; }));
  EXPECT_EQ(outcomes_.size(), 2u);
  // Nothing is sent again by itself.
  EXPECT_THAT(server_.commands.back(),
              ElementsAre(ElementsAre("CLIENT", "SETNAME", "pulsewheel"), ElementsAre("PING")));
}

INSTANTIATE_TEST_SUITE_P(
    All, RedisClientBadAnswerTest,
    testing::Values(BadAnswer{"Garbage", "HTTP/1.1 400 Bad Request\r\n\r\n", RedisErrc::kProtocol},
                    BadAnswer{"Zeros", std::string(100, '\0'), RedisErrc::kProtocol},
                    BadAnswer{"HugeArray", "*2147483647\r\n", RedisErrc::kProtocol},
                    BadAnswer{"HugeString", "$2147483647\r\n", RedisErrc::kProtocol},
                    BadAnswer{"NegativeLength", "$-5\r\n", RedisErrc::kProtocol},
                    BadAnswer{"Resp3", ">2\r\n+a\r\n+b\r\n", RedisErrc::kProtocol},
                    BadAnswer{"Close", "\x04", RedisErrc::kClosedByServer},
                    BadAnswer{"HalfReplyThenClose", "\x04$10\r\nhel", RedisErrc::kClosedByServer}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(RedisClientTest, ClosesWhenAReplyBelongsToNoCommand) {
  connect();
  server_.say("-ERR something went wrong here\r\n");
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kUnsolicited);
  EXPECT_THAT(downs_[0].detail, HasSubstr("something went wrong here"));
}

TEST_F(RedisClientTest, ClosesWhenACommandIsAnsweredTwice) {
  answer_with({{"GET", "+a\r\n+b\r\n"}});
  connect();
  submit({"GET"});
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kUnsolicited);
  EXPECT_THAT(outcomes_, ElementsAre("GET: a"));
}

TEST_F(RedisClientTest, DoesNotTakeAGreetingForAnAnswer) {
  server_.greeting = "220 mail.example ESMTP\r\n";
  client().start();
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kProtocol);
}

TEST_F(RedisClientTest, WaitsForAServerThatIsLoading) {
  server_.answer = [this](const FakeRedis::Command& command) {
    return command[0] == "PING" && server_.connections < 4
               ? "-LOADING Redis is loading the dataset in memory\r\n"s
               : FakeRedis::usual_answer(command);
  };
  connect();
  EXPECT_EQ(downs_.size(), 3u);
  for (const RedisDown& down : downs_)
    EXPECT_EQ(down.reason, RedisErrc::kNotServing);
  EXPECT_EQ(client().counters().of(ReplyError::kLoading).value(), 3u);
}

TEST_F(RedisClientTest, HandsOnErrorRepliesAndKeepsTheConnection) {
  answer_with({{"GET", "-WRONGTYPE Operation against a key\r\n"}, {"SET", "-OOM no\r\n"}});
  connect();
  submit({"GET"});
  submit({"SET"});
  ASSERT_TRUE(wait_for_outcomes(2));
  EXPECT_THAT(outcomes_, ElementsAre("GET: WRONGTYPE Operation against a key", "SET: OOM no"));
  EXPECT_EQ(client().counters().of(ReplyError::kWrongType).value(), 1u);
  EXPECT_EQ(client().counters().of(ReplyError::kOom).value(), 1u);
  EXPECT_EQ(client().state(), State::kReady);
}

TEST_F(RedisClientTest, LeavesAServerThatBecameAReplica) {
  answer_with({{"SET", "-READONLY You can't write against a read only replica.\r\n"}});
  connect();
  submit({"SET"});
  submit({"GET"});
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kNotMaster);
  EXPECT_FALSE(downs_[0].is_slow);
  EXPECT_THAT(outcomes_, ElementsAre("SET: READONLY You can't write against a read only replica.",
                                     failure("GET", RedisErrc::kNotMaster)));
}

TEST_F(RedisClientTest, ComesBackSlowlyWhenItMustLogInAnew) {
  answer_with({{"GET", "-NOAUTH Authentication required.\r\n"}});
  connect();
  submit({"GET"});
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kAuthRefused);
  EXPECT_TRUE(downs_[0].is_slow);
}

TEST_F(RedisClientTest, ReadsTheSecretAnewForEachConnection) {
  const test::TemporaryFolder folder;
  options_.connection.secret.password_file = folder / "secret";
  client().start();
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(downs_[0].reason, RedisErrc::kSecret);
  EXPECT_TRUE(downs_[0].is_slow);
  test::write_file(folder / "secret", "one\n");
  ASSERT_TRUE(run_until([&] { return client().state() == State::kReady; }));
  test::write_file(folder / "secret", "two\n");
  server_.hang_up();
  ASSERT_TRUE(run_until([&] { return client().counters().connections.value() == 2; }));
  EXPECT_THAT(server_.commands.at(server_.connections - 2).at(0), ElementsAre("AUTH", "one"));
  EXPECT_THAT(server_.commands.back().at(0), ElementsAre("AUTH", "two"));
}

TEST_F(RedisClientTest, LetsCallbacksSubmit) {
  answer_with({{"GET", "+a\r\n"}, {"SET", "+OK\r\n"}});
  options_.on_ready = [this] {
    ASSERT_FALSE(client().submit({"GET"}, [this](std::error_code, const RedisReply&) {
      ASSERT_FALSE(client().submit({"SET"}, outcome_of("SET")));
    }));
  };
  client().start();
  ASSERT_TRUE(wait_for_outcomes(1));
  EXPECT_THAT(outcomes_, ElementsAre("SET: OK"));
}

TEST_F(RedisClientTest, RefusesWhatACallbackOfALostConnectionSubmits) {
  answer_with({{"GET", "\x04"}});
  connect();
  std::error_code again;
  ASSERT_FALSE(client().submit({"GET"}, [&](std::error_code, const RedisReply&) {
    again = client().submit({"GET"}, outcome_of("GET"));
  }));
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(again, RedisErrc::kNotConnected);
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(RedisClientTest, FailsWhatIsInFlightWhenStopped) {
  connect();
  submit({"GET"});
  submit({"SET"});
  client().stop();
  EXPECT_THAT(outcomes_, ElementsAre(failure("GET", RedisErrc::kStopped),
                                     failure("SET", RedisErrc::kStopped)));
  EXPECT_EQ(client().state(), State::kStopped);
  client().stop();
  EXPECT_TRUE(downs_.empty());
  EXPECT_EQ(outcomes_.size(), 2u);
}

TEST_F(RedisClientTest, CanBeStoppedFromACallback) {
  answer_with({{"GET", "+a\r\n+never\r\n"}});
  connect();
  ASSERT_FALSE(
      client().submit({"GET"}, [&](std::error_code, const RedisReply&) { client().stop(); }));
  submit({"SET"});
  ASSERT_TRUE(wait_for_outcomes(1));
  EXPECT_THAT(outcomes_, ElementsAre(failure("SET", RedisErrc::kStopped)));
  EXPECT_TRUE(downs_.empty());
}

TEST_F(RedisClientTest, CanBeStoppedFromACallbackOfALostConnection) {
  answer_with({{"GET", "\x04"}});
  connect();
  ASSERT_FALSE(
      client().submit({"GET"}, [&](std::error_code, const RedisReply&) { client().stop(); }));
  ASSERT_TRUE(run_until([&] { return client().state() == State::kStopped; }));
  EXPECT_TRUE(downs_.empty());
}

TEST_F(RedisClientTest, CanBeStoppedWhenReadyOrDown) {
  options_.on_ready = [this] { client().stop(); };
  client().start();
  ASSERT_TRUE(run_until([&] { return client().counters().connections.value() == 1; }));
  EXPECT_EQ(client().state(), State::kStopped);
  client_.reset();
  options_.on_ready = {};
  options_.on_down = [this](const RedisDown& down) {
    downs_.push_back(down);
    client().stop();
  };
  connect();
  server_.hang_up();
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(client().state(), State::kStopped);
}

TEST_F(RedisClientTest, StartsAgainAfterStop) {
  connect();
  client().stop();
  connect();
  EXPECT_EQ(client().counters().connections.value(), 2u);
}

TEST_F(RedisClientTest, LeavesNothingToRunBehind) {
  options_.connection.command_timeout = 1h;
  options_.backoff = {.first = 3'600'000ms, .cap = 3'600'000ms};
  connect();
  submit({"GET"});
  server_.hang_up();
  ASSERT_TRUE(wait_for_downs(1));  // and the next attempt is far away
  client_.reset();
  server_.stop_listening();
  EXPECT_LT(io_.run_for(20s), 50u);
  EXPECT_TRUE(io_.stopped());
}

TEST_F(RedisClientTest, RetriesAtOnceWhenTold) {
  options_.backoff = {.first = 3'600'000ms, .cap = 3'600'000ms};
  connect();
  server_.hang_up();
  ASSERT_TRUE(wait_for_downs(1));
  EXPECT_EQ(client().state(), State::kWaiting);
  client().retry_now();
  ASSERT_TRUE(run_until([&] { return client().state() == State::kReady; }));
  client().retry_now();  // nothing to do
  EXPECT_EQ(client().state(), State::kReady);
  EXPECT_EQ(server_.connections, 2u);
}

TEST_F(RedisClientTest, StartsWithShortDelaysAgainOnlyAfterAStableConnection) {
  options_.backoff = {.first = 1ms, .cap = 3'600'000ms};
  options_.stable_after = 0s;
  connect();
  // Each connection counts as stable: no delay grows.
  for (std::size_t i = 1; i <= 40; ++i) {
    server_.hang_up();
    ASSERT_TRUE(wait_for_downs(i));
    ASSERT_TRUE(run_until([&] { return client().state() == State::kReady; }));
  }
}

TEST_F(RedisClientTest, WaitsLongerEachTimeAConnectionDoesNotLast) {
  // A hang-up after each handshake: with delays that stay at 1 ms the 30 rounds take an instant.
  options_.backoff = {.first = 1ms, .cap = 64ms};
  options_.stable_after = 1h;
  connect();
  const auto begin = MonoClock::now();
  for (std::size_t i = 1; i <= 30; ++i) {
    server_.hang_up();
    ASSERT_TRUE(wait_for_downs(i));
    ASSERT_TRUE(run_until([&] { return client().state() == State::kReady; }));
  }
  EXPECT_GT(MonoClock::now() - begin, 300ms);
}

}  // namespace
}  // namespace pulsewheel

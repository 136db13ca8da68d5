// A RedisClient and a server that says what the test tells it.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/redis/redis_client.h"
#include "tests/support/run_until.h"
#include "tests/unit/redis/fake_redis.h"

namespace pulsewheel {

inline const RedisScript kFirst("return 1");
inline const RedisScript kSecond("return 2");

/// A client and a fake server on one io_context, run by the test's thread.
class RedisClientFixture : public testing::Test {
 protected:
  RedisClientFixture() {
    options_.connection.url =
        RedisUrl::parse("redis://127.0.0.1:" + std::to_string(server_.port()));
    options_.connection.connect_timeout = std::chrono::seconds{20};
    options_.connection.command_timeout = std::chrono::seconds{20};
    options_.backoff = {.first = std::chrono::milliseconds{1}, .cap = std::chrono::milliseconds{2}};
    options_.on_down = [this](const RedisDown& down) { downs_.push_back(down); };
  }

  // The first call makes it: set options_ before.
  RedisClient& client() {
    if (!client_) client_ = std::make_unique<RedisClient>(io_, options_);
    return *client_;
  }

  template <class Predicate>
  [[nodiscard]] bool run_until(Predicate predicate) {
    return test::run_until(io_, predicate);
  }

  void connect() {
    client().start();
    ASSERT_TRUE(run_until([this] { return client().state() == RedisClient::State::kReady; }));
  }

  // Submits, and expects to be accepted. The outcome goes to outcomes_.
  void submit(const std::vector<std::string>& words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    ASSERT_FALSE(client().submit(views, outcome_of(words[0])));
  }
  void eval(const RedisScript& script, const std::string& name) {
    const std::vector<std::string_view> keys{"key"};
    const std::vector<std::string_view> args{name};
    ASSERT_FALSE(client().eval(script, keys, args, outcome_of(name)));
  }
  RedisCallback outcome_of(std::string name) {
    return [this, name = std::move(name)](std::error_code ec, const RedisReply& reply) {
      outcomes_.push_back(name + ": " + (ec ? ec.message() : reply.text));
    };
  }
  [[nodiscard]] bool wait_for_outcomes(std::size_t count) {
    return run_until([&] { return outcomes_.size() >= count; });
  }
  [[nodiscard]] bool wait_for_downs(std::size_t count) {
    return run_until([&] { return downs_.size() >= count; });
  }

  // Answers payload commands by their first word; silence for those without an entry.
  void answer_with(std::map<std::string, std::string> answers) {
    server_.answer = [answers = std::move(answers)](const test::FakeRedis::Command& command) {
      const auto found = answers.find(command[0]);
      return found != answers.end() ? found->second : test::FakeRedis::usual_answer(command);
    };
  }

  boost::asio::io_context io_{1};
  test::FakeRedis server_{io_};
  RedisClient::Options options_;
  std::vector<std::string> outcomes_;
  std::vector<RedisDown> downs_;
  std::unique_ptr<RedisClient> client_;
};

/// How RedisClientFixture writes down that a command has failed.
inline std::string failure(const char* name, RedisErrc error) {
  return std::string(name) + ": " + facts_of(error).text;
}

}  // namespace pulsewheel

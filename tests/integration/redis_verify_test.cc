// pulsewheel-sim --verify-redis with the real daemon and a real Redis: it finds nothing in a mirror
// that is right, and names what is wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/client_sim/tests/simulator_test.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kUsers = 300;

class RedisVerifyTest : public sim::SimulatorTest {
 protected:
  RedisVerifyTest() : SimulatorTest(PULSEWHEEL_SIM) {}

  Outcome verify(const std::string& url, const std::string& flags) {
    return simulate(PULSEWHEEL_DAEMON, "--set presence.tick=100ms --connections " +
                                           std::to_string(kUsers) + " --grace 3s --verify-redis " +
                                           url + " " + flags);
  }

  /// A hash of Redis.
  static std::map<std::string, std::string> hash(RedisConsole& console, const std::string& key) {
    std::map<std::string, std::string> pairs;
    const RedisReply reply = console.command({"HGETALL", key});
    for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2)
      pairs[reply.elements[i].text] = reply.elements[i + 1].text;
    return pairs;
  }

  RedisServer redis_;
};

TEST_F(RedisVerifyTest, FindsNoDifferenceThroughEveryHabit) {
  const Outcome outcome =
      verify(redis_.unix_url(),
             "--timeout 5s --duration 14s --silent-percent 20 --disconnect-percent 40 "
             "--logout-percent 20 --churn 20 --message-percent 30");
  EXPECT_EQ(outcome.report["redis_differences"], 0) << outcome.report.dump(2);
  const auto& redis = outcome.report["redis"];
  EXPECT_GE(redis["checks"], 1);
  EXPECT_EQ(redis["failed_checks"], 0);
  EXPECT_EQ(redis["differing_checks"], 0);
  EXPECT_GT(redis["online"], kUsers / 10);
  EXPECT_GT(redis["offline"], kUsers / 10);
  EXPECT_EQ(redis["online"].get<std::size_t>() + redis["offline"].get<std::size_t>() +
                redis["unclear"].get<std::size_t>(),
            kUsers);
}

TEST_F(RedisVerifyTest, ATimeoutBeyondTheRingIsNoDifference) {
  const Outcome outcome = verify(redis_.url(), "--timeout 45s --keepalive 1s --duration 2s");
  EXPECT_EQ(outcome.report["redis_differences"], 0) << outcome.report.dump(2);
  EXPECT_EQ(outcome.report["redis"]["online"], kUsers);
}

TEST_F(RedisVerifyTest, NobodyIsLeftWhenAllHaveFallenSilent) {
  const Outcome outcome =
      verify(redis_.url() + "/3", "--timeout 3s --duration 1s --stop-all-at 500ms");
  EXPECT_EQ(outcome.report["redis_differences"], 0) << outcome.report.dump(2);
  EXPECT_EQ(outcome.report["redis"]["offline"], kUsers);
}

TEST_F(RedisVerifyTest, NamesEachKindOfDifference) {
  std::atomic<bool> ended{false};
  Outcome outcome;
  // Nobody sends anything between the login and the end, and no deadline lies beyond the ring: what
  // is broken stays so.
  std::jthread run([&] {
    outcome =
        verify(redis_.unix_url(), "--timeout 28s --keepalive 300s --expect-offline --duration 8s");
    ended = true;
  });
  RedisConsole console(redis_);
  std::map<std::string, std::string> index;
  auto changed_at = std::chrono::steady_clock::now();
  std::map<std::string, std::string> deadlines;
  const bool settled = eventually([&] {
    auto now = hash(console, "pulsewheel:deadline");
    if (now != deadlines) changed_at = std::chrono::steady_clock::now();
    deadlines = std::move(now);
    index = hash(console, "timeline-index");
    return ended || (index.size() == kUsers && deadlines.size() == kUsers &&
                     std::chrono::steady_clock::now() - changed_at > 500ms);
  });
  ASSERT_TRUE(settled && !ended);
  auto next = index.begin();
  const auto broken = [&](const std::vector<std::vector<std::string>>& commands) {
    for (const auto& words : commands)
      console.command(words);
    ++next;
  };
  const auto other_slot = [](const std::string& slot) {
    return slot == "slot-0" ? "slot-1" : "slot-0";
  };
  broken({{"SREM", next->second, next->first}});
  broken({{"HSET", "timeline-index", next->first, "elsewhere"}});
  broken({{"HDEL", "timeline-index", next->first}});
  broken({{"SADD", other_slot(next->second), next->first}});
  broken({{"HDEL", "pulsewheel:deadline", next->first}});
  broken({{"HINCRBY", "pulsewheel:deadline", next->first, "1000"}});
  // 32 s later it is the same slot again.
  broken({{"HINCRBY", "pulsewheel:deadline", next->first, "32000"}});
  broken({{"HINCRBY", "pulsewheel:deadline", next->first, "-32000"}});
  broken({{"SREM", next->second, next->first},
          {"HDEL", "timeline-index", next->first},
          {"HDEL", "pulsewheel:deadline", next->first}});
  console.command({"HSET", "timeline-index", next->first.substr(0, 8) + "99999999", "slot-0"});
  console.command({"HSET", "timeline-index", "somebody-else", "slot-0"});
  run.join();

  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.report["redis_differences"], 10);
  const auto& redis = outcome.report["redis"];
  const std::map<std::string, int> expected = {
      {"not_in_slot", 2},  {"not_indexed", 1},   {"several_slots", 1},  {"no_deadline", 1},
      {"wrong_slot", 1},   {"deadline_late", 1}, {"deadline_early", 1}, {"missing", 1},
      {"unknown_user", 1}, {"left_behind", 0}};
  for (const auto& [fault, count] : expected)
    EXPECT_EQ(redis[fault], count) << fault;
  EXPECT_GE(redis["settled_s"], 10.0);
}

TEST_F(RedisVerifyTest, WhoIsOfflineAndStillThereIsADifference) {
  std::atomic<bool> ended{false};
  Outcome outcome;
  std::jthread run([&] {
    outcome = verify(redis_.url(), "--timeout 3s --duration 1s --stop-all-at 500ms");
    ended = true;
  });
  RedisConsole console(redis_);
  std::string uid;
  EXPECT_TRUE(eventually([&] {
    const auto index = hash(console, "timeline-index");
    if (!index.empty()) uid = index.begin()->first;
    return ended || (!uid.empty() && index.empty());
  }));
  console.command({"SADD", "slot-5", uid});
  run.join();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.report["redis_differences"], 1);
  EXPECT_EQ(outcome.report["redis"]["left_behind"], 1);
  EXPECT_EQ(outcome.report["redis"]["examples"].at(0), uid + ": left_behind");
}

TEST_F(RedisVerifyTest, ARedisThatEndsIsADifferenceThatNobodyKnows) {
  std::atomic<bool> ended{false};
  Outcome outcome;
  std::jthread run([&] {
    outcome = verify(redis_.url(), "--duration 1s");
    ended = true;
  });
  RedisConsole console(redis_);
  EXPECT_TRUE(eventually([&] {
    return ended || console.command({"HLEN", "timeline-index"}).integer == std::int64_t{kUsers};
  }));
  redis_.kill();
  run.join();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.report["redis_differences"].is_null());
}

TEST_F(RedisVerifyTest, WithoutARedisThereIsNoRun) {
  EXPECT_EQ(verify("unix:///nowhere/redis.sock", "--duration 1s").exit_code, 69);
}

}  // namespace
}  // namespace pulsewheel::test

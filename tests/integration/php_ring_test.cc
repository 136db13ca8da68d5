// The scripts in php/, by php-cli with php-redis: the documented ring without a daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <regex>
#include <string>
#include <vector>

#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPhp = "/usr/bin/php";
const std::string kScripts = PULSEWHEEL_PHP_SCRIPTS "/";
constexpr std::int64_t kSlots = 32;

class PhpRingTest : public testing::Test {
 protected:
  /// Runs one of the scripts against the server.
  Ended php(const std::string& script, const std::vector<std::string>& arguments) const {
    std::vector<std::string> words{kPhp, kScripts + script, redis_address()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_program(words);
  }

  /// Has the hand read the slot of a second, or of "now"; prints the second in which it did and who
  /// expired.
  Ended read_slot_of(const std::string& second) const {
    return run_program({kPhp, "-r",
                        "require $argv[1]; $ring = new Ring($argv[2]);"
                        "$second = (int)($argv[3] === 'now' ? $ring->now() : $argv[3]);"
                        "echo json_encode($ring->expire($second, 30));",
                        kScripts + "ring.php", redis_address(), second});
  }

  /// The second, by Redis' clock, in which the user logged in.
  std::int64_t login(const std::string& uid, int timeout) const {
    const Ended ended = php("login.php", {uid, std::to_string(timeout)});
    EXPECT_EQ(ended.exit_code, 0) << ended.log;
    std::smatch match;
    EXPECT_TRUE(std::regex_search(ended.log, match, std::regex("second=(\\d+)"))) << ended.log;
    return match.empty() ? 0 : std::stoll(match[1]);
  }

  bool is_online(const std::string& uid) const {
    const Ended ended = php("lookup.php", {uid});
    EXPECT_THAT(ended.exit_code, testing::AnyOf(0, 1)) << ended.log;
    return ended.exit_code == 0;
  }

  std::int64_t now() const { return std::stoll(redis_.command({"TIME"}).elements.at(0).text); }

  std::string redis_address() const { return "127.0.0.1:" + std::to_string(redis_.port()); }

  std::string slot(std::int64_t second) const { return "slot-" + std::to_string(second % kSlots); }

  /// The slots that the user is a member of.
  std::vector<std::string> slots_with(const std::string& uid) const {
    std::vector<std::string> found;
    for (std::int64_t i = 0; i < kSlots; ++i) {
      if (redis_.command({"SISMEMBER", slot(i), uid}).integer == 1) found.push_back(slot(i));
    }
    return found;
  }

  RedisServer redis_;
};

TEST_F(PhpRingTest, ExpiresAUserInTheSecondBehindTheDeadline) {
  std::future<Ended> loop = std::async(std::launch::async, [&] { return php("loop.php", {"7"}); });
  const std::int64_t second = login("alice", 2);
  EXPECT_TRUE(is_online("alice"));

  const Ended ended = loop.get();

  ASSERT_EQ(ended.exit_code, 0) << ended.log;
  if (ended.log.find("late: ") != std::string::npos) {
    GTEST_SKIP() << "this machine held the loop up: " << ended.log;
  }
  std::smatch match;
  ASSERT_TRUE(std::regex_search(ended.log, match, std::regex("(\\d+)\\.\\d+ offline alice\n")))
      << ended.log;
  EXPECT_EQ(std::stoll(match[1]), second + 3);
  EXPECT_FALSE(is_online("alice"));
  EXPECT_THAT(slots_with("alice"), ElementsAre());
}

TEST_F(PhpRingTest, ARefreshMovesAUserOutOfTheOldSlot) {
  const std::int64_t first = login("alice", 30);
  ASSERT_TRUE(eventually([&] { return now() > first; }));

  const std::int64_t second = login("alice", 30);

  EXPECT_THAT(slots_with("alice"), ElementsAre(slot(second + 31)));
  EXPECT_EQ(redis_.command({"HGET", "timeline-index", "alice"}).text, slot(second + 31));
}

TEST_F(PhpRingTest, AHandThatIsLateFilesAnew) {
  const std::int64_t second = login("alice", 29);
  ASSERT_TRUE(eventually([&] { return now() > second; }));

  // The slot of the deadline, one round earlier: a second that is over.
  const Ended ended = read_slot_of(std::to_string(second + 30 - kSlots));

  EXPECT_THAT(ended.log, HasSubstr(",[]]"));
  EXPECT_TRUE(is_online("alice"));
  EXPECT_THAT(slots_with("alice"), Not(ElementsAre(slot(second + 30))));
}

TEST_F(PhpRingTest, TheHandClearsLeftoversAndReportsNobody) {
  login("alice", 30);
  for (std::int64_t i = 0; i < kSlots; ++i)
    redis_.command({"SADD", slot(i), "carol"});

  const Ended ended = read_slot_of("now");

  EXPECT_THAT(ended.log, Not(HasSubstr("carol")));
  EXPECT_EQ(slots_with("carol").size(), kSlots - 1);
}

TEST_F(PhpRingTest, UsesAListAsItIsFound) {
  std::vector<std::string> words{"RPUSH", "testlist"};
  for (int i = 0; i < 40; ++i)
    words.push_back("place:" + std::to_string(i));
  redis_.command(words);

  const std::int64_t second = login("alice", 38);

  EXPECT_EQ(redis_.command({"HGET", "timeline-index", "alice"}).text,
            "place:" + std::to_string((second + 39) % 40));
  EXPECT_EQ(redis_.command({"LLEN", "testlist"}).integer, 40);
}

TEST_F(PhpRingTest, RefusesATimeoutThatTheRingCannotHold) {
  const Ended ended = php("login.php", {"alice", "31"});

  EXPECT_EQ(ended.exit_code, 64);
  EXPECT_THAT(ended.log, HasSubstr("does not fit into a ring of 32 slots"));
  EXPECT_FALSE(is_online("alice"));
}

TEST_F(PhpRingTest, KeepsTheBytesOfAUid) {
  const std::string uid = "a b\n%:{}*'\"\xff";
  const std::int64_t second = login(uid, 2);

  EXPECT_TRUE(is_online(uid));
  EXPECT_THAT(slots_with(uid), ElementsAre(slot(second + 3)));
}

TEST_F(PhpRingTest, AUserWhoIsInTheIndexAndInNoSlotIsOffline) {
  login("alice", 30);
  redis_.command({"DEL", redis_.command({"HGET", "timeline-index", "alice"}).text});

  EXPECT_FALSE(is_online("alice"));
}

TEST(PhpLifetimesTest, ThePublishedFormulaExpiresBetween15And59Seconds) {
  const Ended ended = run_program({kPhp, kScripts + "lifetimes.php"});

  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.log, HasSubstr("published  15 to 59 s; 16 of 60 login seconds"));
  EXPECT_THAT(ended.log, HasSubstr("ring.php   31 to 31 s; 0 of 60 login seconds"));
}

}  // namespace
}  // namespace pulsewheel::test

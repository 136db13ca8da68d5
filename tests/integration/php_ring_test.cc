// The scripts in php/, by php-cli with php-redis: the documented ring, without a daemon and beside
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <regex>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/ring_reader.h"
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

  /// What came of a user who fell silent while loop.php ran.
  struct Silence {
    std::string uid;
    std::int64_t due = 0;  // the second in which the loop finds the user offline
    Ended loop;
  };

  /// Lets a user fall silent, another one (of the attempt's number) each time that the machine kept
  /// loop.php from a slot until its second was over: who is in such a slot gets another lap. At
  /// most kAttemptsMax times.
  static Silence fall_silent(const std::function<Silence(int)>& attempt) {
    for (int number = 1;; ++number) {
      Silence silence = attempt(number);
      const bool was_held_up = silence.loop.log.find("late: ") != std::string::npos;
      if (!was_held_up || number == kAttemptsMax) return silence;
    }
  }
  static constexpr int kAttemptsMax = 3;

  std::future<Ended> start_loop(const std::string& seconds) const {
    return std::async(std::launch::async, [this, seconds] { return php("loop.php", {seconds}); });
  }

  /// Fails unless loop.php found the user offline in the second in which it was due.
  static void expect_expired_in_time(const Silence& silence) {
    std::smatch match;
    const std::regex expiry("(\\d+)\\.\\d+ offline " + silence.uid + "\n");
    ASSERT_TRUE(std::regex_search(silence.loop.log, match, expiry))
        << silence.uid << " is not among those offline: " << silence.loop.log;
    EXPECT_EQ(std::stoll(match[1]), silence.due) << silence.loop.log;
  }

  Daemon::Options with_redis(const std::string& mode, const std::string& node = "n1") const {
    return {.sets = {"redis.mode=" + mode, "redis.url=" + redis_.url(), "redis.node=" + node,
                     "presence.timeout=5s"}};
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
  const Silence silence = fall_silent([&](int number) {
    const std::string uid = "alice-" + std::to_string(number);
    std::future<Ended> loop = start_loop("7");
    const std::int64_t second = login(uid, 2);
    EXPECT_TRUE(is_online(uid));
    return Silence{uid, second + 3, loop.get()};
  });

  expect_expired_in_time(silence);
  EXPECT_FALSE(is_online(silence.uid));
  EXPECT_THAT(slots_with(silence.uid), ElementsAre());
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

TEST_F(PhpRingTest, SeesAUserOfTheDaemonAndExpiresItInTimeWhenTheDaemonIsKilled) {
  const Silence silence = fall_silent([&](int number) {
    const std::string uid = "alice-" + std::to_string(number);
    Daemon daemon(with_redis("mirror", "n" + std::to_string(number)));
    std::future<Ended> loop = start_loop("10");
    Client alice(daemon.port());
    alice.login(uid);
    EXPECT_TRUE(eventually([&] { return is_online(uid); }));
    const std::string deadline_ms = redis_.command({"HGET", "pulsewheel:deadline", uid}).text;
    daemon.signal(SIGKILL);
    daemon.wait();
    EXPECT_TRUE(is_online(uid));
    return Silence{uid, std::stoll(deadline_ms) / 1000 + 1, loop.get()};
  });

  expect_expired_in_time(silence);
  EXPECT_FALSE(is_online(silence.uid));
}

TEST_F(PhpRingTest, ARefreshKeepsAUserWhoLogsOutOfTheDaemon) {
  const Daemon daemon(with_redis("mirror"));
  Client alice(daemon.port());
  alice.login("alice");
  const auto is_owned = [&] {
    return redis_.command({"HEXISTS", "pulsewheel:owners", "alice"}).integer == 1;
  };
  ASSERT_TRUE(eventually(is_owned));

  const std::int64_t second = login("alice", 30);
  alice.send_logout();
  ASSERT_TRUE(eventually([&] { return !is_owned(); }));

  EXPECT_TRUE(is_online("alice"));
  EXPECT_THAT(slots_with("alice"), ElementsAre(slot(second + 31)));
}

TEST_F(PhpRingTest, ADaemonThatMirrorsLeavesOtherUsersAlone) {
  const std::int64_t second = login("bob", 30);
  const Daemon daemon(with_redis("mirror"));
  Client alice(daemon.port());
  alice.login("alice");

  ASSERT_TRUE(eventually([&] { return is_online("alice"); }));

  EXPECT_THAT(slots_with("bob"), ElementsAre(slot(second + 31)));
}

TEST_F(PhpRingTest, ADaemonThatSharesTheRingReportsAUserOfPhpOffline) {
  const Daemon daemon(with_redis("shared"));
  ASSERT_TRUE(eventually([&] { return daemon.metric("pulsewheel_redis_joined") == 1; }));
  const std::int64_t second = login("bob", 4);
  EXPECT_TRUE(is_online("bob"));

  const auto edges = daemon.wait_for_edges(1);

  EXPECT_GE(now(), second + 5);
  ASSERT_EQ(edges.size(), 1);
  EXPECT_EQ(edges[0].at("uid"), "bob");
  EXPECT_EQ(edges[0].at("kind"), "offline");
  EXPECT_EQ(edges[0].at("reason"), "timeout");
  EXPECT_THAT(read_edges(redis_), ElementsAre("offline bob timeout"));
  EXPECT_FALSE(is_online("bob"));
  EXPECT_THAT(slots_with("bob"), ElementsAre());
}

TEST(PhpLifetimesTest, OnlyARingOf32SlotsBearsAHandThatIsLate) {
  const Ended ended = run_program({kPhp, kScripts + "lifetimes.php"});

  EXPECT_EQ(ended.exit_code, 0);
  const std::vector<std::string> lines = split_lines(ended.log);
  ASSERT_EQ(lines.size(), 7);
  EXPECT_THAT(lines[0], HasSubstr(" 15.000 to 59.000 s,  26.7 % before 30 s"));
  EXPECT_EQ(lines[4],
            "30 slots, 29 ahead, hand 5 ms late         28.006 to 29.005 s, 100.0 % before 30 s");
  EXPECT_EQ(lines[5],
            "31 slots, 31 ahead, hand 5 ms late          0.001 to 31.000 s,   0.5 % before 30 s");
  EXPECT_EQ(lines[6],
            "32 slots, 31 ahead, hand 5 ms late         30.006 to 31.005 s,   0.0 % before 30 s");
}

}  // namespace
}  // namespace pulsewheel::test

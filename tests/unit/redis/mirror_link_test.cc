#include "daemon/redis/mirror_link.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_until.h"
#include "tests/unit/redis/fake_redis.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::FakeRedis;
using testing::ElementsAre;
using testing::IsEmpty;

/// Of a shared ring's lease 2.5 are good: far more than a loaded machine takes for an answer.
constexpr auto kTick = 250ms;

/// One shard, nobody in it.
class EmptyRoster final : public RosterSource {
 public:
  [[nodiscard]] std::size_t shards() const noexcept override { return 1; }
  void ask(ShardIndex /*shard*/, std::uint32_t /*first*/, std::size_t /*slots*/) override {
    ++asked;
  }
  int asked = 0;
};

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

/// A link of the node n:5, and a Redis that knows its commands by name ("ring", "lease", "add",
/// ...) and answers each as if all were well, but for those that a test answers itself.
class MirrorLinkTest : public testing::Test {
 protected:
  MirrorLinkTest() {
    options_.connection.url =
        RedisUrl::parse("redis://127.0.0.1:" + std::to_string(server_.port()));
    options_.connection.command_timeout = 60s;
    options_.node = {"n", 5};
    options_.batch_max = 1;  // a call for each user
    options_.tick = kTick;
    const RingScripts scripts(options_.layout, options_.node, options_.stream_entries_max);
    const std::vector<RingMove> move{{"u", 1s}};
    const RingCall by_lease = scripts.move_by_lease(move);
    const std::vector<RingAdd> add{{"u", 1s, "login"}};
    const std::vector<RingRemove> remove{{"u", "logout"}};
    const std::vector<std::string_view> uids{"u"};
    for (const auto& [name, call] :
         std::map<std::string, RingCall>{{"ring", scripts.create_ring()},
                                         {"lease", scripts.lease(1s)},
                                         {"release", scripts.release()},
                                         {"claim", scripts.claim()},
                                         {"move", scripts.move(move)},
                                         {"add", scripts.add(add)},
                                         {"remove", scripts.remove(remove)},
                                         {"unfile", scripts.unfile("slot-0", uids)}}) {
      names_[call.script->sha1()] = name;
    }
    names_[by_lease.script->sha1()] = "move";
    std::string slots = "*32\r\n";
    for (const std::string& slot : options_.layout.default_slot_names())
      slots += bulk(slot);
    answers_ = {{"ring", slots},
                {"lease", bulk("5")},
                {"release", ":1\r\n"},
                {"move", "*1\r\n:0\r\n"},
                {"add", "*1\r\n:1\r\n"},
                {"remove", "*1\r\n:2\r\n"},
                {"unfile", ":0\r\n"},
                {"GET", bulk("5")},
                {"EXISTS", ":1\r\n"},
                {"HSCAN", "*2\r\n" + bulk("0") + "*0\r\n"},
                {"SSCAN", "*2\r\n" + bulk("0") + "*0\r\n"},
                {"claim", "-ERR none here\r\n"}};
    usual_ = answers_;
    server_.answer = [this](const FakeRedis::Command& command) {
      const std::string name = name_of(command);
      if (name == "GET" && count("lease") == 0) return "$-1\r\n"s;  // the name is free
      const auto found = answers_.find(name);
      return found != answers_.end() ? found->second : FakeRedis::usual_answer(command);
    };
  }

  /// The first call makes it: set options_ before.
  MirrorLink& link() {
    if (!link_) link_ = std::make_unique<MirrorLink>(io_, options_, rosters_);
    return *link_;
  }

  /// Sends nothing to `name` until the test does.
  void hold(const std::string& name) { answers_[name] = ""; }

  template <class Predicate>
  [[nodiscard]] bool run_until(Predicate predicate) {
    return test::run_until(io_, predicate);
  }
  void run_for(Duration time) {
    const MonoTime end = MonoClock::now() + time;
    while (io_.run_one_until(end) != 0) {
    }
  }

  [[nodiscard]] bool is_joined() { return link().counters().joined.value() == 1; }
  void join() {
    link().start();
    ASSERT_TRUE(run_until([this] { return is_joined(); }));
  }
  void log_in(const std::vector<std::string>& uids) {
    EdgeBatch edges;
    for (const std::string& uid : uids) {
      Edge edge{};
      edge.uid = uid;
      edge.at = edge.last_seen = MonoClock::now();
      edges.push(edge);
    }
    link().take_edges(edges, MonoClock::now());
    link().pump();
  }
  void keep_alive(const std::string& uid) {
    const auto deadlines = std::make_shared<DeadlineBatch>();
    deadlines->push({.uid = uid, .deadline = MonoClock::now() + 20s, .last_seen = {}});
    link().take_deadlines(deadlines, MonoClock::now());
    link().pump();
  }
  /// Waits until nothing is in flight: the hand tries again two seconds later.
  [[nodiscard]] bool is_quiet() {
    return run_until([this] {
      return link().hand_counters()->failures.value() == 2 &&
             link().client_counters().commands_in_flight.value() == 0;
    });
  }
  /// From now on the server says nothing. Nothing is to be in flight.
  void fall_silent() {
    leases_before_ = count("lease");
    for (const char* name : {"EXISTS", "GET", "lease", "ring", "move"})
      hold(name);
  }
  /// Waits, with a server that has fallen silent, until the lease is doubtful. What answers all
  /// that was asked for it meanwhile: others took our users out, with an edge.
  [[nodiscard]] std::string lapse() {
    const auto rings = count("ring");
    EXPECT_TRUE(run_until([&] { return count("ring") == rings + 1; }));
    std::string answers;
    for (auto i = leases_before_; i < count("lease"); ++i)
      answers += ":1\r\n" + (i == leases_before_ ? "$-1\r\n" : bulk("5")) + bulk("5");
    answers_ = usual_;
    return answers + usual_["ring"];
  }
  /// Calls of a script that move the user, whatever they were answered.
  [[nodiscard]] std::ptrdiff_t moves_of(const std::string& uid) const {
    const auto all = server_.payload();
    return std::count_if(all.begin(), all.end(), [&](const auto& command) {
      return command[0].starts_with("EVAL") && name_of(command) != "add" &&
             std::find(command.begin(), command.end(), uid) != command.end();
    });
  }
  /// Answers a question for the roster: nobody is online.
  void answer_roster() {
    const auto nobody = std::make_shared<DeadlineBatch>();
    nobody->mark_as({});
    link().take_deadlines(nobody, MonoClock::now());
  }

  [[nodiscard]] std::string name_of(const FakeRedis::Command& command) const {
    if (command[0] != "EVALSHA") return command[0];
    const auto found = names_.find(command.at(1));
    return found != names_.end() ? found->second : "?";
  }
  /// How often the command came.
  [[nodiscard]] std::ptrdiff_t count(const std::string& name) const {
    const auto all = server_.payload();
    return std::count_if(all.begin(), all.end(),
                         [&](const auto& command) { return name_of(command) == name; });
  }
  [[nodiscard]] std::vector<std::string> commands() const {
    std::vector<std::string> names;
    for (const FakeRedis::Command& command : server_.payload())
      names.push_back(name_of(command));
    return names;
  }

  boost::asio::io_context io_{1};
  FakeRedis server_{io_};
  std::map<std::string, std::string> names_;    // of scripts, by hash
  std::map<std::string, std::string> answers_;  // by name
  std::map<std::string, std::string> usual_;    // as they were at first
  std::ptrdiff_t leases_before_ = 0;            // the server fell silent
  EmptyRoster rosters_;
  MirrorOptions options_;
  std::unique_ptr<MirrorLink> link_;
};

TEST_F(MirrorLinkTest, LooksAtTheRingAndTheNameBeforeItTakesTheLease) {
  join();
  EXPECT_THAT(commands(), ElementsAre("HSCAN", "ring", "GET", "GET", "lease"));
}

TEST_F(MirrorLinkTest, WritesNothingBeforeItHasJoined) {
  hold("lease");
  link().start();
  log_in({"alice"});
  ASSERT_TRUE(run_until([this] { return count("lease") == 1; }));
  run_for(3 * kTick);
  EXPECT_EQ(count("add"), 0);
  server_.say(bulk("5"));
  EXPECT_TRUE(run_until([this] { return count("add") == 1; }));
}

TEST_F(MirrorLinkTest, TooMuchInFlightForARefreshOfTheLeaseIsNoTrouble) {
  options_.connection.commands_in_flight_max = 2;
  hold("add");
  join();
  log_in({"alice", "bob"});
  ASSERT_TRUE(run_until([this] { return count("add") == 2; }));
  const auto refusals = [this] {
    return link().client_counters().of(RedisErrc::kTooManyCommands).value();
  };
  ASSERT_TRUE(run_until([&] { return refusals() >= 3; }));
  EXPECT_TRUE(is_joined());
  const auto leases = count("lease");
  server_.say("*1\r\n:1\r\n*1\r\n:1\r\n");
  EXPECT_TRUE(run_until([&] { return count("lease") > leases; }));
  EXPECT_TRUE(is_joined());
}

TEST_F(MirrorLinkTest, AJoinThatFindsTooMuchInFlightBeginsAnewWithATick) {
  options_.shared = true;  // whose lease becomes doubtful when it cannot be refreshed
  options_.connection.commands_in_flight_max = 4;
  hold("add");
  answers_.erase("claim");
  join();
  ASSERT_TRUE(run_until([this] {  // nothing but the claim is in flight, and that stays there
    return count("claim") == 1 && link().client_counters().commands_in_flight.value() == 1;
  }));
  log_in({"alice", "bob", "carol"});
  ASSERT_TRUE(run_until([this] { return !is_joined(); }));
  run_for(2 * kTick);
  EXPECT_FALSE(is_joined());
  EXPECT_EQ(link().counters().refused.value(), 0) << "nobody has refused anything";
  server_.say("-ERR none here\r\n" + "*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n:1\r\n"s);
  EXPECT_TRUE(run_until([this] { return is_joined(); }));
}

TEST_F(MirrorLinkTest, ALeaseThatAnEarlierJoinHasAskedForJoinsNobody) {
  join();
  hold("add");
  hold("GET");
  hold("lease");
  log_in({"alice"});
  const auto leases = count("lease");
  ASSERT_TRUE(run_until([&] { return count("lease") == leases + 1; }));
  hold("ring");
  server_.say("-RINGLENGTH the list of slots is gone\r\n" + bulk("5") + bulk("5"));
  ASSERT_TRUE(run_until([this] { return count("ring") == 2; }));
  EXPECT_FALSE(is_joined());
}

TEST_F(MirrorLinkTest, WhatAnEarlierJoinHasHeardOfTheLeaseCounts) {
  options_.shared = true;
  join();
  ASSERT_TRUE(is_quiet());
  fall_silent();
  server_.say(lapse());
  ASSERT_TRUE(run_until([this] { return is_joined(); }));
  keep_alive("alice");
  ASSERT_TRUE(run_until([this] { return count("add") + count("move") == 1; }));
  EXPECT_EQ(count("add"), 1) << "she comes back with an edge";
}

TEST_F(MirrorLinkTest, AMoveThatTheServerDidNotKnowIsNotSentAgainBehindALapse) {
  options_.shared = true;
  join();
  ASSERT_TRUE(is_quiet());
  fall_silent();
  keep_alive("alice");
  const std::string answers = lapse();
  ASSERT_EQ(moves_of("alice"), 1);
  server_.say("-NOSCRIPT No matching script.\r\n" + answers);
  ASSERT_TRUE(run_until([this] { return count("add") == 1; }));
  EXPECT_EQ(moves_of("alice"), 1) << "she comes back with an edge, and in no other way";
}

TEST_F(MirrorLinkTest, AMoveThatTheServerDidNotKnowComesOnceItDoes) {
  options_.shared = true;
  join();
  ASSERT_TRUE(is_quiet());
  answers_["move"] = "-NOSCRIPT No matching script.\r\n";
  answers_["EVAL"] = "*0\r\n";
  keep_alive("alice");
  ASSERT_TRUE(run_until([this] { return count("EVAL") == 1; }));
  answers_["move"] = usual_["move"];
  ASSERT_TRUE(run_until([this] { return link().counters().moved.value() == 1; }));
  EXPECT_EQ(link().client_counters().of(ReplyError::kNoScript).value(), 0U) << "it is no trouble";
}

TEST_F(MirrorLinkTest, AMoveThatFindsTheLeaseGoneIsDecidedAnew) {
  options_.shared = true;
  join();
  answers_["move"] = "*1\r\n:7\r\n";
  keep_alive("alice");
  ASSERT_TRUE(run_until([this] { return count("ring") >= 2; }));
  answers_ = usual_;
  ASSERT_TRUE(run_until([this] { return link().counters().moved.value() == 1; }));
  EXPECT_TRUE(is_joined());
}

TEST_F(MirrorLinkTest, NoRoundOfASharedRingBeginsBesideAQuestionForTheLease) {
  options_.shared = true;
  join();
  ASSERT_TRUE(is_quiet());
  hold("lease");
  const auto leases = count("lease");
  ASSERT_TRUE(run_until([&] { return count("lease") == leases + 1; }));
  keep_alive("alice");
  for (int i = 0; i < 20; ++i)  // far more than a command takes to the server
    io_.poll();
  EXPECT_EQ(count("move"), 0);
  answers_ = usual_;
  server_.say(bulk("5"));
  EXPECT_TRUE(run_until([this] { return count("move") == 1; }));
}

TEST_F(MirrorLinkTest, ALeaseWhoseAnswerTookTooLongIsAskedForAgain) {
  options_.shared = true;
  hold("lease");
  link().start();
  log_in({"alice"});
  ASSERT_TRUE(run_until([this] { return count("lease") == 1; }));
  run_for(3 * kTick);
  answers_["lease"] = bulk("5");
  server_.say(bulk("5"));
  ASSERT_TRUE(run_until([this] { return count("add") == 1; }));
  EXPECT_GE(count("lease"), 2) << "the first one was over by then";
}

TEST_F(MirrorLinkTest, AnErrorInPlaceOfTheLeaseIsNoFlush) {
  join();
  answers_["GET"] = "-BUSY somebody's script\r\n";
  const auto leases = count("lease");
  ASSERT_TRUE(run_until([&] { return count("lease") >= leases + 3; }));
  EXPECT_TRUE(is_joined());
  EXPECT_EQ(count("ring"), 1);
}

TEST_F(MirrorLinkTest, ALeaseThatIsGoneIsAFlush) {
  join();
  answers_["GET"] = "$-1\r\n";
  ASSERT_TRUE(run_until([this] { return count("ring") == 2; }));
}

TEST_F(MirrorLinkTest, ARepairWhoseLastStepFailsIsDoneAgain) {
  join();
  answers_["SSCAN"] = "*2\r\n" + bulk("0") + "*1\r\n" + bulk("ghost");
  answers_["unfile"] = "-OOM no more\r\n";
  ASSERT_EQ(rosters_.asked, 1);
  answer_roster();
  ASSERT_TRUE(run_until([this] { return rosters_.asked == 2; }));
  EXPECT_EQ(link().counters().repairs.value(), 0U);
  answers_["unfile"] = ":0\r\n";
  answer_roster();
  EXPECT_TRUE(run_until([this] { return link().counters().repairs.value() == 1; }));
}

TEST_F(MirrorLinkTest, AStopWritesWhatWaitsAndGivesTheLeaseUp) {
  join();
  log_in({"alice", "bob"});
  bool stopped = false;
  link().stop(MonoClock::now() + 60s, [&] { stopped = true; });
  ASSERT_TRUE(run_until([&] { return stopped; }));
  EXPECT_EQ(count("add"), 2);
  EXPECT_EQ(commands().back(), "release");
}

TEST_F(MirrorLinkTest, AStopHasALimit) {
  hold("add");
  join();
  log_in({"alice"});
  bool stopped = false;
  link().stop(MonoClock::now() + kTick, [&] { stopped = true; });
  EXPECT_TRUE(run_until([&] { return stopped; }));
}

}  // namespace
}  // namespace pulsewheel

// The ring's scripts on a real redis-server.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/redis/scripts.h"
#include "tests/integration/ring_fixture.h"
#include "tests/support/eventually.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace std::string_view_literals;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class RedisRingTest : public test::RingFixture {};
using test::kStreamEntries;

TEST_F(RedisRingTest, CreatesTheRingOnceAndUsesWhatItFinds) {
  EXPECT_EQ(redis_.command({"LLEN", "testlist"}).integer, 32);
  run(a_.create_ring());
  EXPECT_EQ(redis_.command({"LLEN", "testlist"}).integer, 32);
  redis_.command({"DEL", "testlist"});
  redis_.command({"RPUSH", "testlist", "x", "y"});
  const RedisReply found = run(a_.create_ring());
  ASSERT_EQ(found.elements.size(), 2u);
  EXPECT_EQ(found.elements[0].text, "x");
}

TEST_F(RedisRingTest, FilesAUserByRedisClockUnderTheDocumentedKeys) {
  const auto now_ms = [this] {
    const RedisReply time = redis_.command({"TIME"});
    return std::stoll(time.elements[0].text) * 1000 + std::stoll(time.elements[1].text) / 1000;
  };
  const auto before = now_ms();
  EXPECT_EQ(add(a_, "alice"), RingOutcome::kAdded);
  const auto after = now_ms();
  const auto deadline = std::stoll(hash(names_.deadlines()).at("alice"));
  EXPECT_GE(deadline, before + 30'000);
  EXPECT_LE(deadline, after + 30'000);
  const std::string slot = "slot-" + std::to_string(layout_.slot_of(milliseconds{deadline}));
  EXPECT_EQ(hash("timeline-index").at("alice"), slot);
  EXPECT_EQ(by_sets(), (std::map<std::string, std::string>{{"alice", slot}}));
  EXPECT_EQ(hash(names_.owners()).at("alice"), "a:5");
}

TEST_F(RedisRingTest, WritesTheOnlineEdgeOnce) {
  add(a_, "alice");
  EXPECT_EQ(add(a_, "alice"), RingOutcome::kMoved);
  EXPECT_EQ(add(b_, "alice"), RingOutcome::kMoved);
  EXPECT_THAT(edges(), ElementsAre("online alice login"));
}

TEST_F(RedisRingTest, MovesWithoutAnEdge) {
  EXPECT_EQ(move(a_, "alice", 3s), RingOutcome::kAdded);  // after a FLUSHALL, say
  const std::string near = hash("timeline-index").at("alice");
  EXPECT_EQ(move(a_, "alice", 20s), RingOutcome::kMoved);
  EXPECT_NE(hash("timeline-index").at("alice"), near);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  EXPECT_EQ(move(a_, "alice", 3s), RingOutcome::kMoved);  // a shorter timeout
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  EXPECT_THAT(edges(), IsEmpty());
}

TEST_F(RedisRingTest, FilesALongTimeoutInTheLastSlot) {
  move(a_, "alice", 30s);
  move(a_, "bob", 1h);
  const auto deadlines = hash(names_.deadlines());
  const auto apart = std::stoll(deadlines.at("bob")) - std::stoll(deadlines.at("alice"));
  EXPECT_LT(apart, 10'000);
}

TEST_F(RedisRingTest, PutsAUserBackWhomTheSetsHaveLost) {
  add(a_, "alice");
  redis_.command({"SREM", hash("timeline-index").at("alice"), "alice"});
  move(a_, "alice");
  EXPECT_EQ(by_sets(), hash("timeline-index"));
}

TEST_F(RedisRingTest, CarriesAnyByteInAUid) {
  std::vector<std::string> uids;
  for (int byte = 0; byte < 256; ++byte)
    uids.emplace_back(1, static_cast<char>(byte));
  std::vector<RingAdd> users;
  for (const std::string& uid : uids)
    users.push_back({uid, 10s, "login"});
  EXPECT_EQ(run(a_.add(users)).elements.size(), kRingBatchMax);
  const std::vector<std::string> odd{std::string(128, '\0'), "a,b:5", "\r\n", "slot-1", "{x}*?["};
  for (const std::string& uid : odd) {
    EXPECT_EQ(move(a_, uid, 5s), RingOutcome::kAdded);
    EXPECT_EQ(move(a_, uid, 25s), RingOutcome::kMoved);
  }
  EXPECT_EQ(redis_.command({"HLEN", "timeline-index"}).integer, 256 + 5);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  for (const std::string& uid : uids)
    EXPECT_EQ(remove(a_, uid), RingOutcome::kRemoved);
  EXPECT_EQ(redis_.command({"HLEN", "timeline-index"}).integer, 5);
  EXPECT_EQ(redis_.command({"XLEN", events_}).integer, 512);
}

TEST_F(RedisRingTest, TakesTheLastOfAUserWhoIsTwiceInABatch) {
  const std::vector<RingMove> twice{{"alice", 2s}, {"bob", 2s}, {"alice", 20s}};
  const RedisReply reply = run(a_.move(twice));
  ASSERT_EQ(reply.elements.size(), 3u);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  const auto deadlines = hash(names_.deadlines());
  EXPECT_EQ(std::stoll(deadlines.at("alice")), std::stoll(deadlines.at("bob")) + 18'000);
}

TEST_F(RedisRingTest, DoesNothingForNobody) {
  const std::string before = digest();
  EXPECT_TRUE(run(a_.move({})).is_array());
  EXPECT_TRUE(run(a_.add({})).is_array());
  EXPECT_TRUE(run(a_.remove({})).is_array());
  EXPECT_EQ(digest(), before);
}

TEST_F(RedisRingTest, RemovesAUserWithOneOfflineEdge) {
  add(a_, "alice");
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kRemoved);
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kNotOurs);
  EXPECT_THAT(edges(), ElementsAre("online alice login", "offline alice timeout"));
  for (const std::string& key : {names_.index, names_.deadlines(), names_.owners()})
    EXPECT_THAT(hash(key), IsEmpty()) << key;
  EXPECT_THAT(by_sets(), IsEmpty());
}

TEST_F(RedisRingTest, KeepsAUserWhomAnotherLiveNodeHolds) {
  take_lease(a_);
  take_lease(b_);
  add(a_, "alice");
  add(b_, "alice");
  EXPECT_EQ(hash(names_.owners()).at("alice"), "a:5,b:9");
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kHeldByOther);
  EXPECT_EQ(hash(names_.owners()).at("alice"), "b:9");
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kNotOurs);
  EXPECT_EQ(remove(b_, "alice"), RingOutcome::kRemoved);
  EXPECT_THAT(edges(), ElementsAre("online alice login", "offline alice timeout"));
}

TEST_F(RedisRingTest, DoesNotCountANodeWithoutItsLease) {
  add(a_, "alice");
  add(b_, "alice");  // whose lease has run out
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kRemoved);
  add(a_, "bob");
  add(b_, "bob");
  run(RingScripts(layout_, {"b", 10}, 1).lease(1h));  // started again
  EXPECT_EQ(remove(a_, "bob"), RingOutcome::kRemoved);
}

TEST_F(RedisRingTest, TakesTheLaterDeadlineOfTwoNodes) {
  add(a_, "alice", 20s);
  const std::string later = hash(names_.deadlines()).at("alice");
  move(b_, "alice", 5s);
  EXPECT_EQ(hash(names_.deadlines()).at("alice"), later);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  move(b_, "alice", 29s);
  EXPECT_GT(hash(names_.deadlines()).at("alice"), later);
}

TEST_F(RedisRingTest, ReplacesItsOwnEarlierEpoch) {
  const RingScripts restarted(layout_, {"a", 6}, kStreamEntries);
  add(a_, "alice");
  add(b_, "alice");
  move(restarted, "alice");
  EXPECT_EQ(hash(names_.owners()).at("alice"), "b:9,a:6");
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kNotOurs);
  move(restarted, "alice");
  EXPECT_EQ(hash(names_.owners()).at("alice"), "b:9,a:6");
}

TEST_F(RedisRingTest, RemovesWhatAnEarlierLifeOfItHasLeft) {
  const RingScripts restarted(layout_, {"a", 6}, kStreamEntries);
  add(a_, "alice");
  EXPECT_EQ(remove(restarted, "alice"), RingOutcome::kRemoved);
  EXPECT_THAT(by_sets(), IsEmpty());
}

TEST_F(RedisRingTest, UnfilesOnlyWhomItHoldsAndWhoAreFiledElsewhere) {
  add(a_, "alice", 20s);
  add(b_, "bob", 20s);
  const std::string slot = hash("timeline-index").at("alice");
  const std::string other = slot == "slot-0" ? "slot-1" : "slot-0";
  for (const char* uid : {"alice", "bob", "php"})
    redis_.command({"SADD", other, uid});
  const std::vector<std::string_view> uids{"alice", "bob", "php"};
  EXPECT_EQ(run(a_.unfile(slot, uids)).integer, 0);
  EXPECT_EQ(run(a_.unfile(other, uids)).integer, 1);
  EXPECT_EQ(redis_.command({"SISMEMBER", other, "alice"}).integer, 0);
  EXPECT_EQ(redis_.command({"SCARD", other}).integer, 2);
}

TEST_F(RedisRingTest, KeepsAUserWhomPhpHasRefreshed) {
  add(a_, "alice", 5s);
  log_in_by_php("alice", 20);
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kRefreshed);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  EXPECT_EQ(by_sets().size(), 1u);
  EXPECT_THAT(edges(), ElementsAre("online alice login"));
  EXPECT_THAT(hash(names_.owners()), IsEmpty());
  EXPECT_THAT(hash(names_.deadlines()), IsEmpty());
}

TEST_F(RedisRingTest, LeavesUsersAloneWhomItDoesNotHold) {
  log_in_by_php("php");
  add(b_, "bob");
  const std::string before = digest();
  EXPECT_EQ(remove(a_, "php"), RingOutcome::kNotOurs);
  EXPECT_EQ(remove(a_, "bob"), RingOutcome::kNotOurs);
  EXPECT_EQ(remove(a_, "nobody"), RingOutcome::kNotOurs);
  EXPECT_EQ(digest(), before);
}

TEST_F(RedisRingTest, TakesOverAUserOfPhpWithoutAnEdge) {
  log_in_by_php("alice", 3);
  EXPECT_EQ(add(a_, "alice"), RingOutcome::kMoved);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  EXPECT_THAT(edges(), IsEmpty());
}

TEST_F(RedisRingTest, WritesNoEdgeForAUserWhomRedisHasForgotten) {
  add(a_, "alice");
  redis_.command({"HDEL", "timeline-index", "alice"});
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kGone);
  EXPECT_THAT(edges(), ElementsAre("online alice login"));
  EXPECT_THAT(hash(names_.owners()), IsEmpty());
}

TEST_F(RedisRingTest, BearsAnIndexThatNamesNoSlot) {
  redis_.command({"SET", "a string", "x"});
  redis_.command({"HSET", "timeline-index", "alice", "a string", "bob", "nothing", "carol", ""});
  for (const char* uid : {"alice", "bob", "carol"}) {
    EXPECT_EQ(move(a_, uid), RingOutcome::kMoved);
    EXPECT_EQ(remove(a_, uid), RingOutcome::kRemoved);
  }
  EXPECT_EQ(redis_.command({"GET", "a string"}).text, "x");
}

TEST_F(RedisRingTest, BearsNonsenseInItsOwnKeys) {
  for (const char* nonsense :
       {"", "x", "nan", "inf", "-inf", "1e400", ",", ":", ",,a:5,", "a:5,a:5"}) {
    add(a_, "alice");
    redis_.command({"HSET", names_.deadlines(), "alice", nonsense});
    redis_.command({"HSET", names_.owners(), "alice", nonsense});
    EXPECT_EQ(move(a_, "alice"), RingOutcome::kMoved) << nonsense;
    EXPECT_EQ(by_sets(), hash("timeline-index")) << nonsense;
    redis_.command({"HSET", names_.deadlines(), "alice", nonsense});
    remove(a_, "alice");
    EXPECT_EQ(by_sets(), hash("timeline-index")) << nonsense;
    redis_.command({"FLUSHALL"});
    run(a_.create_ring());
  }
}

TEST_F(RedisRingTest, ChangesNothingWhenAKeyIsOfAnotherType) {
  add(a_, "alice");
  for (const std::string& key :
       {names_.ring, names_.index, names_.deadlines(), names_.owners(), events_, "slot-17"s}) {
    redis_.command({"RENAME", key, "aside"});
    redis_.command({"SET", key, "somebody else's"});
    const std::string before = digest();
    for (const RingCall& call : {a_.move(std::vector<RingMove>{{"alice", 3s}, {"bob", 3s}}),
                                 a_.add(std::vector<RingAdd>{{"bob", 3s, "login"}}),
                                 a_.remove(std::vector<RingRemove>{{"alice", "timeout"}})}) {
      const RedisReply reply = run(call);
      EXPECT_TRUE(reply.is_error());
      EXPECT_EQ(classify_reply_error(reply.text), ReplyError::kWrongType) << reply.text;
      EXPECT_THAT(reply.text, HasSubstr(key));
    }
    EXPECT_EQ(digest(), before) << key;
    redis_.command({"DEL", key});
    redis_.command({"RENAME", "aside", key});
  }
}

TEST_F(RedisRingTest, ChangesNothingInARingOfAnotherLength) {
  redis_.command({"RPOP", "testlist"});
  const std::string before = digest();
  const RedisReply reply = run(a_.move(std::vector<RingMove>{{"alice", 3s}}));
  EXPECT_THAT(reply.text, StartsWith("RINGLENGTH the ring has 31 slots and not 32"));
  EXPECT_EQ(digest(), before);
}

TEST_F(RedisRingTest, UsesTheSlotsOfTheListWhateverTheirNames) {
  redis_.command({"DEL", "testlist"});
  for (int i = 0; i < 32; ++i)
    redis_.command({"RPUSH", "testlist", "bucket " + std::to_string(31 - i)});
  add(a_, "alice");
  const auto deadline = std::stoll(hash(names_.deadlines()).at("alice"));
  EXPECT_EQ(hash("timeline-index").at("alice"),
            "bucket " + std::to_string(31 - layout_.slot_of(milliseconds{deadline})));
  EXPECT_EQ(remove(a_, "alice"), RingOutcome::kRemoved);
}

TEST_F(RedisRingTest, WorksInTheDocumentedRingOfThirtyOne) {
  redis_.command({"DEL", "testlist"});
  const RingLayout documented({}, RingLayout::kSlotsDocumented);
  const RingScripts node(documented, {"a", 5}, kStreamEntries);
  EXPECT_EQ(run(node.create_ring()).elements.size(), 31u);
  EXPECT_EQ(add(node, "alice"), RingOutcome::kAdded);
  EXPECT_EQ(remove(node, "alice"), RingOutcome::kRemoved);
}

TEST_F(RedisRingTest, KeepsTheStreamShort) {
  const RingScripts brief(layout_, {"a", 5}, 100);
  for (int i = 0; i < 1'000; ++i) {
    add(brief, "alice");
    remove(brief, "alice");
  }
  // Whole nodes of 100 entries are dropped.
  EXPECT_LE(redis_.command({"XLEN", events_}).integer, 200);
  EXPECT_GE(redis_.command({"XLEN", events_}).integer, 100);
}

TEST_F(RedisRingTest, PutsAllKeysIntoOneSlotOfAClusterByAHashTag) {
  RingNames names;
  names.ring = "{ring}list";
  names.slot_prefix = "{ring}slot-";
  names.index = "{ring}index";
  names.prefix = "{ring}pw:";
  const RingScripts node(RingLayout(names), {"a", 5}, kStreamEntries);
  run(node.create_ring());
  EXPECT_EQ(add(node, "alice"), RingOutcome::kAdded);
  EXPECT_EQ(remove(node, "alice"), RingOutcome::kRemoved);
  EXPECT_EQ(redis_.command({"XLEN", "{ring}pw:events"}).integer, 2);
}

TEST_F(RedisRingTest, LeasesANameToOneEpoch) {
  const RingScripts later(layout_, {"a", 6}, kStreamEntries);
  EXPECT_EQ(run(a_.lease(1h)).text, "5");
  EXPECT_EQ(run(later.lease(1h)).text, "5");
  EXPECT_EQ(run(later.release()).integer, 0);
  EXPECT_EQ(run(a_.lease(2h)).text, "5");
  EXPECT_GT(redis_.command({"PTTL", names_.node("a")}).integer, 3'600'000);
  EXPECT_EQ(run(a_.release()).integer, 1);
  EXPECT_EQ(run(later.lease(1ms)).text, "6");
  EXPECT_TRUE(test::eventually([&] { return run(a_.lease(1h)).text == "5"; }));
}

TEST_F(RedisRingTest, MovesByLeaseOnlyWithTheLeaseOfThisEpoch) {
  const auto move_by_lease = [this] {
    return only(run(a_.move_by_lease(std::vector<RingMove>{{"alice", 10s}})));
  };
  const RingScripts later(layout_, {"a", 6}, kStreamEntries);
  for (const bool is_leased : {false, true}) {
    if (is_leased) run(later.lease(1h));
    const std::string before = digest();
    EXPECT_EQ(move_by_lease(), RingOutcome::kNoLease);
    EXPECT_EQ(digest(), before);
  }
  run(later.release());
  take_lease(a_);
  EXPECT_EQ(move_by_lease(), RingOutcome::kAdded);
  EXPECT_EQ(move_by_lease(), RingOutcome::kMoved);
  EXPECT_EQ(by_sets(), hash("timeline-index"));
  EXPECT_THAT(edges(), IsEmpty());
}

// Two nodes and a PHP front end do anything in any order. After each step the sets and the index
// agree, and for each user the stream has as many offline edges as the ring lost users to removals.
TEST_F(RedisRingTest, StaysConsistentWhateverHappens) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&random](std::size_t count) { return random() % count; };
  const std::vector<std::string> uids{"a", "b", "c", "d\0e"s, "f,g:1"};
  take_lease(a_);
  take_lease(b_);
  std::map<RingOutcome, int> outcomes;
  int added = 0;
  for (int step = 0; step < 1'500; ++step) {
    const RingScripts& node = draw(2) == 0 ? a_ : b_;
    const std::string& uid = uids[draw(uids.size())];
    const milliseconds remaining{draw(40'000)};
    switch (draw(8)) {
      case 0:
        log_in_by_php(uid, static_cast<int>(draw(31)));
        break;
      case 1:
      case 2:
        ++outcomes[move(node, uid, remaining)];
        break;
      case 3:
      case 4:
        if (add(node, uid, remaining) == RingOutcome::kAdded) ++added;
        break;
      default:
        ++outcomes[remove(node, uid)];
    }
    const auto index = hash("timeline-index");
    ASSERT_EQ(by_sets(), index) << step;
    for (const auto& [held, owners] : hash(names_.owners()))
      ASSERT_TRUE(index.contains(held)) << step;
  }
  const auto written = edges();
  const auto count = [&written](const char* kind) {
    return std::count_if(written.begin(), written.end(),
                         [kind](const std::string& edge) { return edge.starts_with(kind); });
  };
  EXPECT_EQ(count("online"), added);
  EXPECT_EQ(count("offline"), outcomes[RingOutcome::kRemoved]);
  for (const RingOutcome outcome :
       {RingOutcome::kMoved, RingOutcome::kAdded, RingOutcome::kRemoved, RingOutcome::kNotOurs,
        RingOutcome::kHeldByOther, RingOutcome::kRefreshed})
    EXPECT_GT(outcomes[outcome], 0) << static_cast<int>(outcome);
}

TEST_F(RedisRingTest, IsCalledThroughTheClient) {
  boost::asio::io_context io{1};
  RedisClient::Options options;
  options.connection.url = RedisUrl::parse(server_.unix_url());
  std::vector<std::int64_t> outcomes;
  std::optional<RedisClient> client;
  options.on_ready = [&] {
    for (int i = 0; i < 2; ++i) {
      const auto refused = call(*client, a_.add(std::vector<RingAdd>{{"al\0ice"sv, 30s, "login"}}),
                                [&](std::error_code ec, const RedisReply& reply) {
                                  ASSERT_FALSE(ec);
                                  ASSERT_EQ(reply.elements.size(), 1u) << reply.text;
                                  outcomes.push_back(reply.elements[0].integer);
                                  if (outcomes.size() == 2) client->stop();
                                });
      ASSERT_FALSE(refused);
    }
  };
  client.emplace(io, options);
  client->start();
  io.run_for(60s);
  EXPECT_THAT(outcomes, ElementsAre(1, 0));
  EXPECT_TRUE(hash("timeline-index").contains("al\0ice"s));
}

}  // namespace
}  // namespace pulsewheel

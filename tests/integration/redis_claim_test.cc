// A claim by the ring's hand on a real redis-server: who is claimed, once, and who stays; and
// entries that are not as they should be.
#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/integration/redis_claim_fixture.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using test::kSlots;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class RedisClaimTest : public test::RedisClaimFixture {};

// --- Who is claimed -----------------------------------------------------------------------------

TEST_F(RedisClaimTest, ClaimsAUserOfPhpWhenTheHandReadsItsSlot) {
  const auto second = early_in_a_second();
  put("now", second);
  put("next", second + 1);
  put("last", second - 1);  // of now: 31 s from now
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), ElementsAre("now"));
  EXPECT_THAT(edges(), ElementsAre("offline now timeout"));
  expect_nothing_of("now");
  expect_consistent();
  EXPECT_THAT(by_sets(), SizeIs(2));
}

TEST_F(RedisClaimTest, ClaimsAUserOfANodeThatIsGone) {
  run(RingScripts(layout_, {"b", 10}, 1).lease(1h));  // b has been started again
  const auto second = early_in_a_second();
  put_by_node("alice", second, "c:1");
  put_by_node("bob", second, "c:1,b:9");
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), UnorderedElementsAre("alice", "bob"));
  EXPECT_THAT(edges(), UnorderedElementsAre("offline alice timeout", "offline bob timeout"));
  expect_nothing_of("alice");
  expect_nothing_of("bob");
}

TEST_F(RedisClaimTest, WritesAnEdgeWithTheFieldsOfOthers) {
  add(b_, "alice");
  remove(b_, "alice");
  const auto second = early_in_a_second();
  put("bob", second);
  set_hand(second - 1);
  claim_all(a_);
  const auto entries = redis_.command({"XRANGE", events_, "-", "+"}).elements;
  ASSERT_THAT(entries, SizeIs(3));
  std::vector<std::string> names[2];
  for (int i = 0; i < 2; ++i) {
    const auto& words = entries.at(static_cast<std::size_t>(i) + 1).elements.at(1).elements;
    for (std::size_t k = 0; k < words.size(); k += 2)
      names[i].push_back(words[k].text);
  }
  EXPECT_EQ(names[0], names[1]);
}

TEST_F(RedisClaimTest, LeavesAUserOfALiveNodeToItsNode) {
  take_lease(b_);
  const auto second = early_in_a_second();
  put_by_node("alice", second, "c:1,b:9");
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  EXPECT_EQ(hash("timeline-index").at("alice"), slot(second + 1));  // comes round again
  expect_consistent();
  EXPECT_THAT(edges(), IsEmpty());
  EXPECT_EQ(remove(b_, "alice"), RingOutcome::kRemoved);
  EXPECT_THAT(edges(), ElementsAre("offline alice timeout"));
}

TEST_F(RedisClaimTest, KeepsItsOwnUsersWhateverBecameOfItsLease) {
  const auto second = early_in_a_second();
  put_by_node("alice", second, "a:5");
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  expect_consistent();
}

TEST_F(RedisClaimTest, ClaimsWithinASecondOnceTheLeaseIsGone) {
  take_lease(b_);
  const auto second = early_in_a_second();
  put_by_node("alice", second, "b:9");
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  run(b_.release());
  stop_clock(now() + 1s);
  EXPECT_THAT(claim_all(a_), ElementsAre("alice"));
}

TEST_F(RedisClaimTest, RefilesByADeadlineThatIsAhead) {
  const auto second = early_in_a_second();
  put_by_node("alice", second + kSlots, "c:1");  // TIME was a lap ahead, say
  put_by_node("bob", second + 2 * kSlots, "");
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  expect_consistent();
  for (const char* uid : {"alice", "bob"}) {
    EXPECT_LE(deadline(uid), now() + layout_.span());
    EXPECT_EQ(hash("timeline-index").at(uid),
              "slot-" + std::to_string(layout_.slot_of(deadline(uid))));
  }
}

TEST_F(RedisClaimTest, DoesNotBelieveADeadlineThatPhpHasMovedAwayFrom) {
  const auto second = early_in_a_second();
  put_by_node("alice", second - 9, "");
  log_in_by_php("alice", 20);
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  redis_.command({"SMOVE", slot(second + 21), slot(second), "alice"});
  redis_.command({"HSET", "timeline-index", "alice", slot(second)});
  set_hand(second - 1);
  redis_.command({"HSET", names_.deadlines(), "alice", std::to_string((second + 5) * 1000)});
  EXPECT_THAT(claim_all(a_), ElementsAre("alice"));
}

// --- Entries that are not as they should be -----------------------------------------------------

TEST_F(RedisClaimTest, PutsACopyWhereTheIndexSaysItIs) {
  const auto second = early_in_a_second();
  put("alice", second + 7);
  redis_.command({"SADD", slot(second), "alice"});
  put("bob", second + 7);
  redis_.command({"SMOVE", slot(second + 7), slot(second), "bob"});
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  EXPECT_THAT(by_sets(), SizeIs(2));
  expect_consistent();
}

TEST_F(RedisClaimTest, DropsAMemberThatNoReaderWouldFind) {
  const auto second = early_in_a_second();
  redis_.command({"SADD", slot(second), "nobody"});
  redis_.command({"HSET", names_.owners(), "nobody", "c:1"});
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  EXPECT_THAT(edges(), IsEmpty());
  expect_nothing_of("nobody");
}

TEST_F(RedisClaimTest, PutsBackIntoTheIndexWhomALiveNodeHolds) {
  take_lease(b_);
  const auto second = early_in_a_second();
  put_by_node("alice", second, "b:9");
  redis_.command({"HDEL", "timeline-index", "alice"});
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  EXPECT_THAT(hash("timeline-index"), SizeIs(1));
  expect_consistent();
}

TEST_F(RedisClaimTest, ClaimsAUserWhoseIndexNamesNoSlot) {
  const auto second = early_in_a_second();
  put("alice", second);
  redis_.command({"HSET", "timeline-index", "alice", "no slot"});
  set_hand(second - 1);
  EXPECT_THAT(claim_all(a_), ElementsAre("alice"));
  expect_nothing_of("alice");
}

TEST_F(RedisClaimTest, BearsNonsenseInItsKeys) {
  redis_.command({"SADD", names_.node("list"), "no lease"});
  for (const char* nonsense : {"", "x", "nan", "inf", "-inf", "-1", "1e400", "9007199254740993",
                               "99999999999999999999999", ",", ":", ",,list:1,", "a", "\0"}) {
    const auto second = early_in_a_second();
    put_by_node("alice", second, nonsense);
    redis_.command({"HSET", names_.deadlines(), "alice", nonsense});
    set_hand(second - 1);
    redis_.command({"HSET", names_.hand(), "careful_until", nonsense, "cursor", nonsense});
    EXPECT_THAT(claim_all(a_), SizeIs(testing::Le(1u))) << nonsense;
    expect_consistent();
    redis_.command({"HSET", names_.hand(), "second", nonsense});
    claim_all(a_);
    EXPECT_EQ(hash(names_.hand()).at("cursor"), "0") << nonsense;
    expect_consistent();
    redis_.command({"FLUSHALL"});
    run(a_.create_ring());
  }
}

TEST_F(RedisClaimTest, CarriesAnyByteInAUid) {
  const auto second = early_in_a_second();
  std::set<std::string> uids{std::string(128, '\0'), "a,b:5", "\r\n", "slot-1", "{x}*?["};
  for (int byte = 0; byte < 256; ++byte)
    uids.emplace(1, static_cast<char>(byte));
  std::vector<std::string> sadd{"SADD", slot(second)};
  std::vector<std::string> hset{"HSET", "timeline-index"};
  for (const std::string& uid : uids) {
    sadd.push_back(uid);
    hset.insert(hset.end(), {uid, slot(second)});
  }
  redis_.command(sadd);
  redis_.command(hset);
  set_hand(second - 1);
  const auto claimed = claim_all(a_);
  EXPECT_EQ(std::set(claimed.begin(), claimed.end()), uids);
  EXPECT_THAT(claimed, SizeIs(uids.size()));
  EXPECT_EQ(redis_.command({"DBSIZE"}).integer, 3);  // the ring, the hand, the stream
}

TEST_F(RedisClaimTest, ChangesNothingWhenAKeyIsOfAnotherType) {
  const auto second = early_in_a_second();
  put_by_node("alice", second, "c:1");
  add(a_, "bob");
  for (const std::string& key : {names_.ring, names_.index, names_.deadlines(), names_.owners(),
                                 events_, names_.hand(), slot(second)}) {
    set_hand(second - 1);
    redis_.command({"RENAME", key, "aside"});
    redis_.command({"SET", key, "somebody else's"});
    const std::string before = digest();
    const RedisReply reply = run(a_.claim());
    EXPECT_EQ(classify_reply_error(reply.text), ReplyError::kWrongType) << reply.text;
    EXPECT_THAT(reply.text, HasSubstr(key));
    EXPECT_FALSE(RingClaim::parse(reply));
    EXPECT_EQ(digest(), before) << key;
    redis_.command({"DEL", key});
    redis_.command({"RENAME", "aside", key});
  }
}

}  // namespace
}  // namespace pulsewheel

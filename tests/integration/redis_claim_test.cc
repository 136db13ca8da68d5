// The ring's hand on a real redis-server: who is claimed, once, and who stays.
#include <gmock/gmock.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/redis/ring_hand.h"
#include "daemon/redis/scripts.h"
#include "tests/integration/ring_fixture.h"
#include "tests/support/eventually.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using std::chrono::milliseconds;
using test::kStreamEntries;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr std::int64_t kSlots = 32;

class RedisClaimTest : public test::RingFixture {
 protected:
  // Stops the clock early in a second. That second.
  std::int64_t early_in_a_second() {
    const std::int64_t second = now() / 1s;
    stop_clock(second * 1s + 200ms);
    return second;
  }

  static std::string slot(std::int64_t second) { return "slot-" + std::to_string(second % kSlots); }

  // As a PHP front end would have left a user who is due at the begin of `second`.
  void put(const std::string& uid, std::int64_t second) {
    redis_.command({"SADD", slot(second), uid});
    redis_.command({"HSET", "timeline-index", uid, slot(second)});
  }
  // As a node would have. `back` ms before that second.
  void put_by_node(const std::string& uid, std::int64_t second, const std::string& owners,
                   int back = 500) {
    put(uid, second);
    redis_.command({"HSET", names_.deadlines(), uid, std::to_string(second * 1000 - back)});
    redis_.command({"HSET", names_.owners(), uid, owners});
  }
  void put_many(int users, std::int64_t second) {
    std::vector<std::string> sadd{"SADD", slot(second)};
    std::vector<std::string> hset{"HSET", "timeline-index"};
    for (int i = 0; i < users; ++i) {
      sadd.push_back("user-" + std::to_string(i));
      hset.insert(hset.end(), {sadd.back(), slot(second)});
    }
    redis_.command(sadd);
    redis_.command(hset);
  }
  // The hand has read everything up to `second`.
  void set_hand(std::int64_t second) {
    redis_.command({"DEL", names_.hand()});
    redis_.command({"HSET", names_.hand(), "second", std::to_string(second)});
  }

  RingClaim claim(const RingScripts& node) { return to_claim(run(node.claim())); }
  static RingClaim to_claim(const RedisReply& reply) {
    const auto claim = RingClaim::parse(reply);
    EXPECT_TRUE(claim.has_value()) << reply.text;
    return claim.value_or(RingClaim{});
  }
  // Until no work is left.
  std::vector<std::string> claim_all(const RingScripts& node) {
    std::vector<std::string> uids;
    for (bool work_left = true; work_left;) {
      RingClaim part = claim(node);
      uids.insert(uids.end(), part.uids.begin(), part.uids.end());
      work_left = part.work_left;
    }
    return uids;
  }
  milliseconds deadline(const std::string& uid) {
    return milliseconds{std::stoll(hash(names_.deadlines()).at(uid))};
  }
  void expect_consistent() { EXPECT_EQ(by_sets(), hash("timeline-index")); }
  void expect_nothing_of(const std::string& uid) {
    for (const std::string& key : {names_.index, names_.deadlines(), names_.owners()})
      EXPECT_FALSE(hash(key).contains(uid)) << key;
    EXPECT_FALSE(by_sets().contains(uid));
  }
};

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

// --- The hand -----------------------------------------------------------------------------------

TEST_F(RedisClaimTest, StartsTheHandAtTheSlotOfNow) {
  const auto second = early_in_a_second();
  put("now", second);
  put("before", second - 1);
  EXPECT_THAT(claim_all(a_), ElementsAre("now"));
  EXPECT_EQ(hash(names_.hand()).at("second"), std::to_string(second));
}

TEST_F(RedisClaimTest, ReadsASlotOncePerLap) {
  const auto second = early_in_a_second();
  set_hand(second - 1);
  claim_all(a_);
  put("alice", second);  // by a clock that is ahead
  EXPECT_THAT(claim_all(a_), IsEmpty());
}

TEST_F(RedisClaimTest, MovesTheHandOneSlotACall) {
  const auto second = early_in_a_second();
  set_hand(second - 4);
  for (int i = 3; i >= 0; --i) {
    const RingClaim part = claim(a_);
    EXPECT_EQ(part.work_left, i > 0);
    EXPECT_EQ(hash(names_.hand()).at("second"), std::to_string(second - i));
    EXPECT_GE(part.late, milliseconds{i * 1000});
    EXPECT_LT(part.late, milliseconds{i * 1000 + 1000});
  }
}

TEST_F(RedisClaimTest, LooksAtABoundedNumberOfMembersACall) {
  constexpr int kUsers = 3'000;
  const auto second = early_in_a_second();
  put_many(kUsers, second);
  set_hand(second - 1);
  std::set<std::string> claimed;
  int calls = 0;
  for (bool work_left = true; work_left; ++calls) {
    const RingClaim part = claim(calls % 2 == 0 ? a_ : b_);
    EXPECT_LE(part.uids.size(), kRingBatchMax + 64);
    for (const std::string& uid : part.uids)
      EXPECT_TRUE(claimed.insert(uid).second) << uid;
    work_left = part.work_left;
  }
  EXPECT_THAT(claimed, SizeIs(kUsers));
  EXPECT_THAT(edges(), SizeIs(kUsers));
  EXPECT_GE(calls, kUsers / static_cast<int>(kRingBatchMax));
}

TEST_F(RedisClaimTest, GivesUsersWithoutADeadlineMoreTimeWhenItIsLate) {
  const auto second = early_in_a_second();
  put("php", second - 2);
  put("php too", second);  // after a slot that was late it is not trusted, either
  put_by_node("gone", second - 2, "c:1");
  set_hand(second - 3);
  EXPECT_THAT(claim_all(a_), ElementsAre("gone"));
  expect_consistent();
  for (const char* uid : {"php", "php too"})
    EXPECT_GE(deadline(uid), milliseconds{(second + 30) * 1000}) << uid;
}

TEST_F(RedisClaimTest, TrustsTheSlotsAgainALapLater) {
  const auto second = early_in_a_second();
  put("alice", second);
  set_hand(second - 1);
  redis_.command({"HSET", names_.hand(), "careful_until", std::to_string(second + 1)});
  EXPECT_THAT(claim_all(a_), IsEmpty());
  put("bob", second);
  set_hand(second - 1);
  redis_.command({"HSET", names_.hand(), "careful_until", std::to_string(second)});
  EXPECT_THAT(claim_all(a_), ElementsAre("bob"));
}

TEST_F(RedisClaimTest, ClaimsNobodyWithoutADeadlineAfterAJumpOfTime) {
  for (const std::int64_t jump : {-1'000'000L, -kSlots, -2L, -1L, 2L, 20L, kSlots, 1'000'000L}) {
    const auto second = early_in_a_second();
    for (std::int64_t i = 0; i < kSlots; ++i)
      put("user-" + std::to_string(i), second + i);
    set_hand(second - jump);
    EXPECT_THAT(claim_all(a_), IsEmpty()) << jump;
    EXPECT_EQ(hash(names_.hand()).at("second"), std::to_string(second)) << jump;
    EXPECT_EQ(hash(names_.hand()).at("careful_until"), std::to_string(second + kSlots)) << jump;
    EXPECT_THAT(by_sets(), SizeIs(kSlots));
    expect_consistent();
    EXPECT_THAT(edges(), IsEmpty());
    redis_.command({"FLUSHALL"});
    run(a_.create_ring());
  }
}

TEST_F(RedisClaimTest, DoesNotTakeADeadlineOfAnEarlierLapForOneOfThis) {
  const auto second = early_in_a_second();
  put_by_node("alice", second - 2 - kSlots, "");  // and PHP has refreshed her, into the same slot
  set_hand(second - 3);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  EXPECT_GE(deadline("alice"), milliseconds{(second + 30) * 1000});
}

TEST_F(RedisClaimTest, GoesThroughALargeSlotOnceWhenMembersStayInIt) {
  constexpr int kUsers = 1'000;
  const auto second = early_in_a_second();
  put_many(kUsers, second - 1);  // 30 s from now is the very slot that is read late
  set_hand(second - 2);
  int calls = 0;
  for (bool work_left = true; work_left && calls < 100; ++calls)
    work_left = claim(a_).work_left;
  EXPECT_LT(calls, 20);
  EXPECT_THAT(edges(), IsEmpty());
}

// --- Several pollers ----------------------------------------------------------------------------

// A node that does nothing but move the hand, on a thread of its own.
class Poller {
 public:
  Poller(const test::RedisServer& server, const RingScripts& scripts) : scripts_(scripts) {
    RedisClient::Options options;
    options.connection.url = RedisUrl::parse(server.unix_url());
    options.on_ready = [this] { poller_->start(); };
    options.on_down = [this](const RedisDown&) { poller_->stop(); };
    client_.emplace(io_, options);
    poller_.emplace(io_, *client_, scripts_, [this](std::vector<std::string> uids) {
      claimed.insert(claimed.end(), uids.begin(), uids.end());
    });
    thread_ = std::thread([this] {
      client_->start();
      io_.run();
    });
  }
  ~Poller() { stop(); }
  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }
  const RingHandCounters& counters() const { return poller_->counters(); }

  std::vector<std::string> claimed;  // after stop()

 private:
  const RingScripts scripts_;
  boost::asio::io_context io_{1};
  std::optional<RedisClient> client_;
  std::optional<RingPoller> poller_;
  std::thread thread_;
};

TEST_F(RedisClaimTest, ClaimsEachUserOnceByWhicheverPollerComesFirst) {
  constexpr int kUsers = 2'000;
  std::multiset<std::string> claimed;
  {
    Poller a(server_, a_);
    Poller b(server_, b_);
    for (int i = 0; i < kUsers; ++i)
      log_in_by_php("user-" + std::to_string(i), 1 + i % 3);
    EXPECT_TRUE(test::eventually([&] {
      return a.counters().claimed_users.value() + b.counters().claimed_users.value() >= kUsers;
    }));
    a.stop();
    b.stop();
    claimed.insert(a.claimed.begin(), a.claimed.end());
    claimed.insert(b.claimed.begin(), b.claimed.end());
  }
  EXPECT_THAT(claimed, SizeIs(kUsers));
  EXPECT_THAT(std::set<std::string>(claimed.begin(), claimed.end()), SizeIs(kUsers));
  EXPECT_THAT(edges(), SizeIs(kUsers));
  EXPECT_THAT(hash("timeline-index"), IsEmpty());
  EXPECT_THAT(by_sets(), IsEmpty());
}

TEST_F(RedisClaimTest, GoesOnWhenRedisComesBack) {
  Poller a(server_, a_);
  EXPECT_TRUE(test::eventually([&] { return a.counters().claims.value() > 0; }));
  server_.kill();
  server_.start();
  std::vector<std::string> ring{"RPUSH", "testlist"};
  for (const std::string& name : layout_.default_slot_names())
    ring.push_back(name);
  server_.command(ring);
  const auto before = a.counters().claims.value();
  EXPECT_TRUE(test::eventually([&] { return a.counters().claims.value() > before; }));
}

// --- Whatever happens ---------------------------------------------------------------------------

// What a claim has to do, in the words of its contract, on the state as it was before.
struct NaiveRing {
  std::map<std::string, std::set<std::string>> sets;  // by slot
  std::map<std::string, std::string> index, deadlines, owners;
  std::int64_t done = 0, careful_until = 0;

  // What it has to claim.
  std::set<std::string> claim(milliseconds now, const std::set<std::string>& live) {
    const RingLayout layout;
    const std::int64_t second = now / 1s;
    if (done != second && done != second - 1) {
      careful_until = second + kSlots;
      done = std::clamp(done, second - kSlots, second - 1);
    }
    if (done == second) return {};
    const std::int64_t reading = ++done;
    const std::string here = "slot-" + std::to_string(reading % kSlots);
    std::set<std::string> claimed;
    for (const std::string& uid : std::set(sets[here])) {
      const auto place = index.find(uid);
      sets[here].erase(uid);
      if (place != index.end() && place->second != here) {
        sets[place->second].insert(uid);
        continue;
      }
      const bool held = owners.contains(uid) && live.contains(owners[uid]);
      if (place == index.end() && !held) {
        deadlines.erase(uid);
        owners.erase(uid);
        continue;
      }
      std::optional<milliseconds> due;
      if (deadlines.contains(uid)) due = milliseconds{std::stoll(deadlines[uid])};
      if (due && "slot-" + std::to_string(layout.slot_of(*due)) != here) due.reset();
      milliseconds next{};
      if (due && *due > now) {
        next = std::min(*due, now + 30s);
      } else if (held) {
        next = now;
      } else if ((reading == second && second >= careful_until) ||
                 (due && *due / 1s + 1 == reading)) {
        claimed.insert(uid);
        index.erase(uid);
        deadlines.erase(uid);
        owners.erase(uid);
        continue;
      } else {
        next = now + 30s;
      }
      deadlines[uid] = std::to_string(next.count());
      index[uid] = "slot-" + std::to_string(layout.slot_of(next));
      sets[index[uid]].insert(uid);
    }
    return claimed;
  }
};

TEST_F(RedisClaimTest, DoesWhatANaiveModelDoes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&random](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  const std::set<std::string> live{"a:5", "b:9"};
  const std::vector<std::string> owners{"a:5", "b:9", "b:8", "c:1", "nonsense"};
  take_lease(b_);
  std::size_t claimed = 0;
  std::size_t refiled = 0;
  for (int step = 0; step < 150; ++step) {
    redis_.command({"FLUSHALL"});
    run(a_.create_ring());
    take_lease(b_);
    const std::int64_t second = now() / 1s;
    NaiveRing model;
    const std::int64_t late = draw(3) == 0 ? draw(70) - 35 : draw(3);
    set_hand(second - late);
    model.done = second - late;
    if (draw(4) == 0) {
      model.careful_until = second + draw(5) - 2;
      redis_.command({"HSET", names_.hand(), "careful_until", std::to_string(model.careful_until)});
    }
    for (int i = 0; i < 40; ++i) {
      const std::string uid = "user-" + std::to_string(i);
      const std::int64_t stands = second - draw(4);
      const std::string in = slot(stands);
      redis_.command({"SADD", in, uid});
      model.sets[in].insert(uid);
      if (draw(8) != 0) {
        model.index[uid] = draw(6) == 0 ? slot(stands + 5) : in;
        redis_.command({"HSET", "timeline-index", uid, model.index[uid]});
      }
      if (draw(2) == 0) {
        const std::int64_t lap = draw(4) == 0 ? (draw(3) - 1) * kSlots : 0;
        model.deadlines[uid] =
            std::to_string((stands + lap) * 1000 - 1000 + draw(1000) + (draw(8) == 0 ? 7'000 : 0));
        redis_.command({"HSET", names_.deadlines(), uid, model.deadlines[uid]});
      }
      if (draw(2) == 0) {
        model.owners[uid] = owners[static_cast<std::size_t>(draw(5))];
        redis_.command({"HSET", names_.owners(), uid, model.owners[uid]});
      }
    }
    for (bool work_left = true; work_left;) {
      const RingClaim part = claim(a_);
      ASSERT_EQ(std::set(part.uids.begin(), part.uids.end()), model.claim(part.now, live)) << step;
      ASSERT_EQ(hash("timeline-index"), model.index) << step;
      ASSERT_EQ(hash(names_.deadlines()), model.deadlines) << step;
      ASSERT_EQ(hash(names_.owners()), model.owners) << step;
      for (const auto& [in, members] : model.sets) {
        std::set<std::string> found;
        for (const RedisReply& uid : redis_.command({"SMEMBERS", in}).elements)
          found.insert(uid.text);
        ASSERT_EQ(found, members) << step << " " << in;
      }
      claimed += part.uids.size();
      refiled += part.refiled;
      work_left = part.work_left;
    }
    ASSERT_EQ(edges().size(), static_cast<std::size_t>(redis_.command({"XLEN", events_}).integer));
  }
  EXPECT_GT(claimed, 100u);
  EXPECT_GT(refiled, 100u);
}

// Two nodes that die and come back, a PHP front end and the hand, in any order.
TEST_F(RedisClaimTest, StaysConsistentWhateverHappens) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&random](std::size_t count) { return random() % count; };
  const std::vector<std::string> uids{"a", "b", "c", "d\0e"s, "f,g:1"};
  std::size_t claimed = 0;
  std::size_t removed = 0;
  for (int step = 0; step < 1'500; ++step) {
    const RingScripts& node = draw(2) == 0 ? a_ : b_;
    const std::string& uid = uids[draw(uids.size())];
    switch (draw(9)) {
      case 0:
        log_in_by_php(uid, draw(2) == 0 ? -1 : static_cast<int>(draw(31)));  // -1: is due now
        break;
      case 1:
        move(node, uid, milliseconds{draw(40'000)});
        break;
      case 2:
      case 3:
        add(node, uid, milliseconds{draw(1'000)});
        break;
      case 4:
        if (remove(node, uid) == RingOutcome::kRemoved) ++removed;
        break;
      case 5:
        run(draw(2) == 0 ? node.lease(1h) : node.release());
        break;
      case 6:
        set_hand(now() / 1s - (draw(2) == 0 ? 1 : static_cast<std::int64_t>(draw(40)) - 3));
        break;
      default:
        claimed += claim_all(node).size();
    }
    const auto index = hash("timeline-index");
    ASSERT_EQ(by_sets(), index) << step;
    for (const auto& [held, owners] : hash(names_.owners()))
      ASSERT_TRUE(index.contains(held)) << step;
  }
  const auto written = edges();
  EXPECT_EQ(static_cast<std::size_t>(
                std::count_if(written.begin(), written.end(),
                              [](const std::string& edge) { return edge.starts_with("offline"); })),
            claimed + removed);
  EXPECT_GT(claimed, 0u);
  EXPECT_GT(removed, 0u);
}

}  // namespace
}  // namespace pulsewheel

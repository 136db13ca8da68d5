// The hand of the ring: which slot a call reads, how many members, what it makes of being late, and
// several pollers that move it.
#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/redis_claim_fixture.h"
#include "tests/support/eventually.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using test::kSlots;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class RedisHandTest : public test::RedisClaimFixture {};

// --- The hand -----------------------------------------------------------------------------------

TEST_F(RedisHandTest, StartsTheHandAtTheSlotOfNow) {
  const auto second = early_in_a_second();
  put("now", second);
  put("before", second - 1);
  EXPECT_THAT(claim_all(a_), ElementsAre("now"));
  EXPECT_EQ(hash(names_.hand()).at("second"), std::to_string(second));
}

TEST_F(RedisHandTest, ReadsASlotOncePerLap) {
  const auto second = early_in_a_second();
  set_hand(second - 1);
  claim_all(a_);
  put("alice", second);  // by a clock that is ahead
  EXPECT_THAT(claim_all(a_), IsEmpty());
}

TEST_F(RedisHandTest, MovesTheHandOneSlotACall) {
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

TEST_F(RedisHandTest, LooksAtABoundedNumberOfMembersACall) {
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

TEST_F(RedisHandTest, GivesUsersWithoutADeadlineMoreTimeWhenItIsLate) {
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

TEST_F(RedisHandTest, TrustsTheSlotsAgainALapLater) {
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

TEST_F(RedisHandTest, ClaimsNobodyWithoutADeadlineAfterAJumpOfTime) {
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

TEST_F(RedisHandTest, DoesNotTakeADeadlineOfAnEarlierLapForOneOfThis) {
  const auto second = early_in_a_second();
  put_by_node("alice", second - 2 - kSlots, "");  // and PHP has refreshed her, into the same slot
  set_hand(second - 3);
  EXPECT_THAT(claim_all(a_), IsEmpty());
  EXPECT_GE(deadline("alice"), milliseconds{(second + 30) * 1000});
}

TEST_F(RedisHandTest, GoesThroughALargeSlotOnceWhenMembersStayInIt) {
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

TEST_F(RedisHandTest, ClaimsEachUserOnceByWhicheverPollerComesFirst) {
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

TEST_F(RedisHandTest, GoesOnWhenRedisComesBack) {
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

}  // namespace
}  // namespace pulsewheel

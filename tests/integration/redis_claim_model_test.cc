// A claim against its contract in plain words, and the ring whatever happens to it.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/redis_claim_fixture.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using std::chrono::milliseconds;
using test::kSlots;

class RedisClaimModelTest : public test::RedisClaimFixture {};

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

TEST_F(RedisClaimModelTest, DoesWhatANaiveModelDoes) {
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
TEST_F(RedisClaimModelTest, StaysConsistentWhateverHappens) {
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

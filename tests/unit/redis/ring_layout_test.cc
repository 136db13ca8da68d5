#include "daemon/redis/ring_layout.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Optional;

std::string error_of(const RingNames& names, std::size_t slots) {
  try {
    const RingLayout layout(names, slots);
    return "no error";
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

TEST(RingLayoutTest, UsesTheDocumentedNames) {
  const RingLayout layout;
  EXPECT_EQ(layout.names().ring, "testlist");
  EXPECT_EQ(layout.names().index, "timeline-index");
  EXPECT_EQ(layout.names().node("a"), "pulsewheel:node:a");
  const auto slots = layout.default_slot_names();
  ASSERT_EQ(slots.size(), 32u);
  EXPECT_EQ(slots.front(), "slot-0");
  EXPECT_EQ(slots.back(), "slot-31");
}

TEST(RingLayoutTest, FilesADeadlineBehindTheSecondThatItFallsInto) {
  const RingLayout layout;
  const struct {
    milliseconds deadline;
    std::size_t slot;
  } kCases[] = {{0ms, 1},      {1ms, 1},       {999ms, 1},
                {1'000ms, 2},  {30'999ms, 31}, {31'000ms, 0},
                {31'999ms, 0}, {32'000ms, 1},  {1'700'000'000'000ms, 1}};
  for (const auto& [deadline, slot] : kCases)
    EXPECT_EQ(layout.slot_of(deadline), slot) << deadline.count();
}

// A hand that reads slot n at each second that is n modulo R, with no delay.
milliseconds read_at(const RingLayout& layout, std::size_t slot, milliseconds now) {
  auto second = std::chrono::floor<std::chrono::seconds>(now) + 1s;
  while (static_cast<std::size_t>(second.count()) % layout.slots() != slot)
    second += 1s;
  return second;
}

TEST(RingLayoutTest, IsReadNeverEarlyAndAtMostASecondLate) {
  int checked = 0;
  for (const std::size_t slots : {RingLayout::kSlotsDefault, RingLayout::kSlotsDocumented}) {
    const RingLayout layout({}, slots);
    for (milliseconds now = 1'000'000ms; now < 1'100'000ms; now += 137ms) {
      for (milliseconds remaining = 0ms; remaining <= layout.span(); remaining += 499ms) {
        const milliseconds deadline = layout.deadline(now, remaining);
        EXPECT_EQ(deadline, now + remaining);
        const std::size_t slot = layout.slot_of(deadline);
        const milliseconds read = read_at(layout, slot, now);
        ASSERT_GE(read, deadline) << now.count() << " " << remaining.count();
        ASSERT_LE(read, deadline + 1s) << now.count() << " " << remaining.count();
        // A hand late by less than a second does not meet it, either.
        const auto second = std::chrono::floor<std::chrono::seconds>(now).count();
        ASSERT_NE(slot, static_cast<std::size_t>(second) % slots);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 80'000);
}

TEST(RingLayoutTest, HoldsTheDefaultTimeoutInThirtyTwoSlotsOnly) {
  EXPECT_EQ(RingLayout({}, 32).span(), 30s);
  EXPECT_EQ(RingLayout({}, 31).span(), 29s);
  EXPECT_FALSE(RingLayout({}, 32).warning());
  EXPECT_THAT(RingLayout({}, 31).warning(), Optional(HasSubstr("29 s")));
}

TEST(RingLayoutTest, FilesLongTimeoutsInTheLastSlotAndPastOnesInTheNext) {
  const RingLayout layout;
  EXPECT_EQ(layout.deadline(5s, 1h), 35s);
  EXPECT_EQ(layout.deadline(5s, 30'001ms), 35s);
  EXPECT_EQ(layout.deadline(5s, -1ms), 5s);
}

TEST(RingLayoutTest, TakesTwoSizesOnly) {
  for (const std::size_t slots : {0u, 1u, 30u, 33u, 64u})
    EXPECT_THAT(error_of({}, slots), HasSubstr(std::to_string(slots) + " slots"));
  EXPECT_EQ(error_of({}, 31), "no error");
  EXPECT_EQ(error_of({}, 32), "no error");
}

TEST(RingLayoutTest, RefusesNamesThatMeet) {
  RingNames names;
  names.index = names.ring;
  EXPECT_THAT(error_of(names, 32), HasSubstr("must differ"));
  names = {};
  names.ring = "";
  EXPECT_THAT(error_of(names, 32), HasSubstr("not be empty"));
  names = {};
  names.index = "pulsewheel:owners";
  EXPECT_THAT(error_of(names, 32), HasSubstr("must differ"));
  names = {};
  names.index = "slot-7";
  EXPECT_THAT(error_of(names, 32), HasSubstr("another key of ours"));
  names = {};
  names.slot_prefix = "pulsewheel:node:";
  EXPECT_THAT(error_of(names, 32), HasSubstr("another key of ours"));
}

TEST(RingLayoutTest, TakesAListAsFoundWhenItCanBeUsed) {
  const RingLayout layout;
  std::vector<std::string> found;
  for (int i = 31; i >= 0; --i)
    found.push_back("bucket " + std::to_string(i));
  EXPECT_FALSE(layout.problem_of(found));
}

TEST(RingLayoutTest, SaysWhyAListCannotBeUsed) {
  const RingLayout layout;
  auto found = layout.default_slot_names();
  found.pop_back();
  EXPECT_THAT(layout.problem_of(found), Optional(HasSubstr("has 31 slots and 32 are configured")));
  EXPECT_THAT(layout.problem_of({}), Optional(HasSubstr("has 0 slots")));
  found.push_back("slot-3");
  EXPECT_THAT(layout.problem_of(found), Optional(HasSubstr("'slot-3' twice")));
  found.back() = "";
  EXPECT_THAT(layout.problem_of(found), Optional(HasSubstr("without a name")));
  for (const char* key : {"testlist", "timeline-index", "pulsewheel:deadline", "pulsewheel:owners",
                          "pulsewheel:events", "pulsewheel:node:a"}) {
    found.back() = key;
    EXPECT_THAT(layout.problem_of(found), Optional(HasSubstr("another key of ours")));
  }
}

TEST(RingNodeTest, HasANameThatCanBeJoined) {
  for (const char* name : {"a", "node-1", "web_2.example", "A9"})
    EXPECT_TRUE(RingNode::is_valid_name(name)) << name;
  for (const char* name : {"", "a:b", "a,b", "a b", "\xc3\xa4", "a\n", "{a}"})
    EXPECT_FALSE(RingNode::is_valid_name(name)) << name;
  EXPECT_TRUE(RingNode::is_valid_name(std::string(64, 'n')));
  EXPECT_FALSE(RingNode::is_valid_name(std::string(65, 'n')));
  EXPECT_EQ((RingNode{"a", 17}.tag()), "a:17");
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/base/event_cursor.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

TEST(EventCursorTest, IsTwoNumbersWithADash) {
  EXPECT_EQ(EventCursor::parse("3-17"), (EventCursor{3, 17}));
  EXPECT_EQ(EventCursor::parse("0-0"), (EventCursor{0, 0}));
  EXPECT_EQ(EventCursor::parse("18446744073709551615-18446744073709551615"),
            (EventCursor{UINT64_MAX, UINT64_MAX}));
  EXPECT_EQ((EventCursor{3, 17}).to_string(), "3-17");
}

TEST(EventCursorTest, IsNothingElse) {
  for (const char* text :
       {"", "-", "3", "3-", "-17", "3-17-", "3-17-4", "3--17", "+3-17", "3-+17", " 3-17", "3-17 ",
        "0x3-17", "3-17\n", "18446744073709551616-1", "1-18446744073709551616", "a-b"}) {
    EXPECT_EQ(EventCursor::parse(text), std::nullopt) << text;
  }
}

TEST(EventCursorTest, IsOrderedByEpochAndThenBySeq) {
  EXPECT_LT((EventCursor{1, 100}), (EventCursor{2, 1}));
  EXPECT_LT((EventCursor{2, 1}), (EventCursor{2, 2}));
  EXPECT_EQ((EventCursor{2, 2}), (EventCursor{2, 2}));
}

}  // namespace
}  // namespace pulsewheel

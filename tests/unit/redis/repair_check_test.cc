#include "daemon/redis/repair_check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kNow{1'700'000'000'250};

class RepairCheckTest : public testing::Test {
 protected:
  RepairCheckTest() { file_at(kNow + seconds{20}); }

  void file_at(milliseconds deadline) {
    filed_.deadline = std::to_string(deadline.count());
    filed_.slot = layout_.default_slot_names()[layout_.slot_of(deadline)];
  }
  [[nodiscard]] bool is_right() const {
    return is_filed_right(filed_, expected_, layout_, layout_.default_slot_names(), {"n1", 7});
  }

  const RingLayout layout_;
  FiledUser filed_{.slot = {}, .deadline = {}, .owners = "n1:7"};
  ExpectedUser expected_{
      .now = kNow, .remaining = seconds{20}, .slack = seconds{1}, .refile_period = seconds{10}};
};

TEST_F(RepairCheckTest, AUserInTheSlotOfTheDeadlineIsRight) {
  EXPECT_TRUE(is_right());
}

TEST_F(RepairCheckTest, WhoeverIsNotThereIsWrong) {
  filed_.slot.reset();
  EXPECT_FALSE(is_right());
}

TEST_F(RepairCheckTest, ADeadlineMayDifferByTheSlackOnly) {
  file_at(kNow + seconds{21});
  EXPECT_TRUE(is_right());
  file_at(kNow + milliseconds{21'001});
  EXPECT_FALSE(is_right());
  file_at(kNow + seconds{19});
  EXPECT_TRUE(is_right());
  file_at(kNow + milliseconds{18'999});
  EXPECT_FALSE(is_right());
}

TEST_F(RepairCheckTest, ASlotThatIsNotThatOfTheDeadlineIsWrong) {
  filed_.slot = layout_.default_slot_names()[(layout_.slot_of(kNow + seconds{20}) + 1) % 32];
  EXPECT_FALSE(is_right());
}

TEST_F(RepairCheckTest, ADeadlineThatIsNoNumberIsWrong) {
  for (const char* text : {"", "soon", "-1", "17e9", "99999999999999999999"}) {
    filed_.deadline = text;
    EXPECT_FALSE(is_right()) << text;
  }
}

TEST_F(RepairCheckTest, OwnersMustNameThisLifeOfTheNodeOnce) {
  for (const char* owners :
       {"", "n2:7", "n1:6", "n1:70", "n1", "n1:7,n1:6", "n1:7,n1:7", "an1:7"}) {
    filed_.owners = owners;
    EXPECT_FALSE(is_right()) << owners;
  }
  filed_.owners = "n2:1,n1:7";
  EXPECT_TRUE(is_right());
}

TEST_F(RepairCheckTest, WithOtherOwnersTheDeadlineMayBeLater) {
  filed_.owners = "n1:7,n2:3";
  file_at(kNow + seconds{29});
  EXPECT_TRUE(is_right());
  file_at(kNow + seconds{10});
  EXPECT_FALSE(is_right());
}

TEST_F(RepairCheckTest, ADeadlineBeyondTheRingLiesAtItsFarEndAndMayBeOld) {
  expected_.remaining = std::chrono::hours{1};
  file_at(kNow + seconds{30});
  EXPECT_TRUE(is_right());
  file_at(kNow + seconds{20});
  EXPECT_TRUE(is_right());
  file_at(kNow + seconds{18});
  EXPECT_FALSE(is_right());
}

TEST_F(RepairCheckTest, WhoeverIsDueIsRightHoweverLongAgoThatWas) {
  expected_.remaining = seconds{-9};
  file_at(kNow - seconds{9});
  EXPECT_TRUE(is_right());
}

TEST(RepairOwnersTest, FindsANodeByItsWholeName) {
  EXPECT_TRUE(is_held_by("n1:7", "n1"));
  EXPECT_TRUE(is_held_by("n2:7,n1:1", "n1"));
  EXPECT_FALSE(is_held_by("n11:7,an1:2", "n1"));
  EXPECT_FALSE(is_held_by("", "n1"));
}

TEST(RepairOwnersTest, TellsWhetherAnotherNodeHoldsTheUserToo) {
  EXPECT_TRUE(is_held_only_by("n1:7,n1:8", "n1"));
  EXPECT_FALSE(is_held_only_by("n1:7,n2:1", "n1"));
  EXPECT_FALSE(is_held_only_by("", "n1"));
}

TEST(RepairRepliesTest, ReadsTheTimeOfRedis) {
  const auto number = [](const char* text) {
    return RedisReply{
        .type = RedisReply::Type::kString, .integer = 0, .text = text, .elements = {}};
  };
  RedisReply time;
  time.type = RedisReply::Type::kArray;
  time.elements = {number("1700000000"), number("250999")};
  EXPECT_EQ(parse_redis_time(time), milliseconds{1'700'000'000'250});
  time.elements.pop_back();
  EXPECT_EQ(parse_redis_time(time), std::nullopt);
  EXPECT_EQ(parse_redis_time(number("1")), std::nullopt);
}

}  // namespace
}  // namespace pulsewheel

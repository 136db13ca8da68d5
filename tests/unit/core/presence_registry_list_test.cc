// Who is online, page by page, while users come and go.
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

class PresenceListTest : public PresenceFixture {
 protected:
  void go_online(std::uint32_t number) {
    users_[number] = login("u" + std::to_string(number), session(number), 0).user;
  }
  void log_out(std::uint32_t number) {
    end(users_.at(number), session(number), CloseReason::kLogout, 0, 1'000);
    users_.erase(number);
  }

  std::map<std::uint32_t, UserRef> users_;  // online
};

TEST_F(PresenceListTest, ListsWhoIsOnlineAndNobodyElse) {
  for (std::uint32_t i = 1; i <= 5; ++i)
    go_online(i);
  log_out(3);
  std::uint32_t cursor = 0;
  std::vector<ListedUser> listed;
  EXPECT_FALSE(registry().list_online(&cursor, 10'000, 10'000, listed));
  std::set<std::string> uids;
  for (const ListedUser& user : listed) {
    uids.insert(user.uid);
    EXPECT_EQ(user.view.state, PresenceState::kOnline);
    EXPECT_EQ(user.view.reason, EdgeReason::kLogin);
  }
  EXPECT_EQ(uids, (std::set<std::string>{"u1", "u2", "u4", "u5"}));
}

TEST_F(PresenceListTest, StopsAtEitherBudgetAndGoesOnThere) {
  for (std::uint32_t i = 1; i <= 10; ++i)
    go_online(i);
  std::uint32_t cursor = 0;
  std::vector<ListedUser> listed;
  EXPECT_TRUE(registry().list_online(&cursor, 10'000, 4, listed));
  EXPECT_EQ(listed.size(), 4U);
  EXPECT_TRUE(registry().list_online(&cursor, 3, 10'000, listed));
  EXPECT_EQ(listed.size(), 7U);
  EXPECT_FALSE(registry().list_online(&cursor, 10'000, 10'000, listed));
  EXPECT_EQ(listed.size(), 10U);
}

TEST_F(PresenceListTest, WhoStaysOnlineIsListedOnceWhileOthersComeAndGo) {
  constexpr std::uint32_t kStaying = 1'000;
  std::minstd_rand random(7);
  std::uint32_t next = 1;
  for (; next <= 2 * kStaying; ++next)
    go_online(next);
  for (std::uint32_t i = 2; i <= 2 * kStaying; i += 2)
    log_out(i);
  std::map<std::string, int> seen;
  std::uint32_t cursor = 0;
  for (bool more = true; more;) {
    std::vector<ListedUser> page;
    more = registry().list_online(&cursor, 97, 50, page);
    for (const ListedUser& user : page)
      ++seen[user.uid];
    for (int i = 0; i < 20; ++i) {
      if (users_.size() > kStaying && random() % 2 == 0) {
        log_out(users_.rbegin()->first);
      } else {
        go_online(next++);
      }
    }
    static_cast<void>(registry().forget_offline(at(100'000'000), 5));
  }
  std::size_t staying = 0;
  for (std::uint32_t i = 1; i <= 2 * kStaying; i += 2) {
    if (!users_.contains(i)) continue;
    ++staying;
    EXPECT_EQ(seen["u" + std::to_string(i)], 1) << i;
  }
  EXPECT_GE(staying, kStaying / 2);
}

TEST_F(PresenceListTest, TellsWhyAUserWentOffline) {
  go_online(1);
  log_out(1);
  EXPECT_EQ(registry().find("u1", at(0)).reason, EdgeReason::kLogout);
  registry().restore("u1", at(0), at(30'000), at(1'000));
  EXPECT_EQ(registry().find("u1", at(1'000)).reason, std::nullopt);
}

}  // namespace
}  // namespace pulsewheel

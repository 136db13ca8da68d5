#include <string>

#include <gmock/gmock.h>

#include "daemon/admin/reports.h"

namespace pulsewheel {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kNowMs = 1'000'000;

Explanation offline(std::string_view reason) {
  Explanation e;
  e.now_ms = kNowMs;
  e.user = {.state = "offline",
            .since_ms = kNowMs - 12'340,
            .last_seen_ms = kNowMs - 42'990,
            .sessions = {}};
  e.edges.push_back({.seq = {},
                     .kind = "offline",
                     .reason = reason,
                     .at_ms = kNowMs - 12'340,
                     .last_seen_ms = {}});
  return e;
}

Explanation online(bool lingering) {
  Explanation e;
  e.now_ms = kNowMs;
  e.user.state = "online";
  SessionExplanation& session = e.sessions.emplace_back();
  session.session.lingering = lingering;
  session.remaining_ms = 7'499;
  return e;
}

TEST(SummaryTest, SaysWhyAUserIsOffline) {
  EXPECT_EQ(summary_of(offline("timeout")),
            "offline for 12.3 s: no packet came within the timeout; the last packet came 30.6 s "
            "before");
  EXPECT_THAT(summary_of(offline("logout")), HasSubstr(": the last session logged out;"));
  EXPECT_THAT(summary_of(offline("disconnect")), HasSubstr(": the last connection closed"));
  EXPECT_THAT(summary_of(offline("kicked")), HasSubstr(": an operator"));
  EXPECT_THAT(summary_of(offline("shutdown")), HasSubstr(": this node stopped"));
}

TEST(SummaryTest, SaysWhenAUserGoesOffline) {
  EXPECT_EQ(summary_of(online(false)),
            "online, live sessions: 1; offline in 7.4 s if nothing more comes");
  EXPECT_EQ(summary_of(online(true)),
            "online without a connection (lingering); offline in 7.4 s unless the client comes "
            "back");
}

TEST(SummaryTest, SaysThatAUserIsHeld) {
  Explanation e = online(false);
  e.hold = HoldInfo{kNowMs - 5'000, kNowMs + 60'000};
  EXPECT_EQ(summary_of(e),
            "online, live sessions: 1; held, so that no deadline runs for the next 60.0 s; then "
            "7.4 s are left");
}

TEST(SummaryTest, SaysWhenNothingIsKnown) {
  Explanation e;
  e.user.state = "offline";
  EXPECT_THAT(summary_of(e), HasSubstr("nothing is known"));
  e.user.state = "unknown";
  EXPECT_THAT(summary_of(e), HasSubstr("restart.grace"));
}

}  // namespace
}  // namespace pulsewheel

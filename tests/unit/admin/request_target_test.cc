#include "daemon/admin/request_target.h"

#include <string>

#include <gmock/gmock.h>

namespace pulsewheel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RequestTargetTest, CutsPathAtSlashes) {
  EXPECT_THAT(RequestTarget::parse("/")->segments, IsEmpty());
  EXPECT_THAT(RequestTarget::parse("/livez")->segments, ElementsAre("livez"));
  EXPECT_THAT(RequestTarget::parse("/v1/users/bob")->segments, ElementsAre("v1", "users", "bob"));
  EXPECT_THAT(RequestTarget::parse("/v1/users/")->segments, ElementsAre("v1", "users", ""));
  EXPECT_THAT(RequestTarget::parse("//")->segments, ElementsAre("", ""));
  EXPECT_THAT(RequestTarget::parse("/a/../b")->segments, ElementsAre("a", "..", "b"));
}

TEST(RequestTargetTest, EncodedCharactersSeparateNothing) {
  const auto target = RequestTarget::parse("/users/a%2Fb%3Ac%3Fd");
  EXPECT_THAT(target->segments, ElementsAre("users", "a%2Fb%3Ac%3Fd"));
  EXPECT_FALSE(target->has_verb);
  EXPECT_EQ(target->query, "");
}

TEST(RequestTargetTest, VerbFollowsTheFirstColonOfTheLastSegment) {
  const auto target = RequestTarget::parse("/a:b/c:kick:x");
  EXPECT_THAT(target->segments, ElementsAre("a:b", "c"));
  EXPECT_TRUE(target->has_verb);
  EXPECT_EQ(target->verb, "kick:x");
}

TEST(RequestTargetTest, AnEmptyVerbIsAVerb) {
  const auto target = RequestTarget::parse("/c:");
  EXPECT_TRUE(target->has_verb);
  EXPECT_EQ(target->verb, "");
}

TEST(RequestTargetTest, QueryFollowsTheFirstQuestionMark) {
  const auto target = RequestTarget::parse("/events?cursor=1:2/3?x");
  EXPECT_THAT(target->segments, ElementsAre("events"));
  EXPECT_FALSE(target->has_verb);
  EXPECT_EQ(target->query, "cursor=1:2/3?x");
}

TEST(RequestTargetTest, RefusesWhatIsNoPath) {
  using namespace std::string_literals;
  for (const std::string& target :
       {""s, "*"s, "livez"s, "http://localhost/livez"s, "localhost:80"s, "/a b"s, "/a#b"s,
        "/a\x7f"s, "/\0"s, "/\xc3\xa9"s, "/a\tb"s, "?/a"s}) {
    EXPECT_FALSE(RequestTarget::parse(target)) << target;
  }
}

TEST(RequestTargetTest, TakesEightSegmentsAndNotNine) {
  EXPECT_EQ(RequestTarget::parse("/1/2/3/4/5/6/7/8")->segments.size(), 8u);
  EXPECT_FALSE(RequestTarget::parse("/1/2/3/4/5/6/7/8/"));
}

TEST(IsLocalHostTest, AllowsLocalhostAndAddresses) {
  for (const char* host : {"localhost", "LocalHost", "localhost:7601", "127.0.0.1",
                           "127.0.0.1:7601", "10.1.2.3:80", "[::1]", "[::1]:7601", "localhost:"}) {
    EXPECT_TRUE(is_local_host(host)) << host;
  }
}

TEST(IsLocalHostTest, RefusesNamesThatOthersControl) {
  for (const char* host :
       {"", "example.com", "localhost.example.com", "localhost.", "127.0.0.1.example.com", "::1",
        "[::1", "[::1]x", "[localhost]", "127.0.0.1:80:80", "localhost:x", "127.1", "2130706433",
        "127.0.0.1:123456", "localhost,example.com", "user@localhost"}) {
    EXPECT_FALSE(is_local_host(host)) << host;
  }
}

}  // namespace
}  // namespace pulsewheel

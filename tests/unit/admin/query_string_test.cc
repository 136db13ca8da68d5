#include "daemon/admin/query_string.h"

#include <array>
#include <string>

#include <gmock/gmock.h>

namespace pulsewheel {
namespace {

using testing::HasSubstr;

constexpr std::array<std::string_view, 2> kNames{"cursor", "limit"};

QueryString parsed_query(std::string_view query) {
  return std::get<QueryString>(QueryString::parse(query, kNames));
}

std::string query_refusal(std::string_view query) {
  const auto outcome = QueryString::parse(query, kNames);
  return std::holds_alternative<Response>(outcome) ? std::get<Response>(outcome).body : "accepted";
}

TEST(QueryStringTest, CutsAndDecodes) {
  const QueryString query = parsed_query("cursor=a%26b%3Dc+d&limit=5");
  EXPECT_EQ(query.text("cursor"), "a&b=c+d");
  EXPECT_EQ(query.text("limit"), "5");
}

TEST(QueryStringTest, TellsMissingFromEmpty) {
  EXPECT_EQ(parsed_query("").text("cursor"), std::nullopt);
  EXPECT_EQ(parsed_query("&&limit=1&").text("cursor"), std::nullopt);
  EXPECT_EQ(parsed_query("cursor").text("cursor"), "");
  EXPECT_EQ(parsed_query("cursor=").text("cursor"), "");
}

TEST(QueryStringTest, RefusesWhatItDoesNotKnowAndNamesWhatItKnows) {
  EXPECT_THAT(query_refusal("curser=1"),
              HasSubstr("no parameter 'curser'; it knows: cursor, limit"));
  EXPECT_THAT(query_refusal(std::string(1'000, 'x')),
              HasSubstr("'" + std::string(40, 'x') + "...';"));
  EXPECT_THAT(query_refusal("=1"), HasSubstr("it knows: cursor, limit"));
  EXPECT_THAT(query_refusal("cursor=1&cursor=2"), HasSubstr("cursor is there twice"));
  EXPECT_THAT(query_refusal("cursor=%zz"), HasSubstr("cursor is not percent-encoded"));
}

TEST(QueryStringTest, NumbersAreWholeAndWithinBounds) {
  EXPECT_EQ(std::get<std::uint64_t>(parsed_query("limit=10").number("limit", 7, 1, 10)), 10U);
  EXPECT_EQ(std::get<std::uint64_t>(parsed_query("").number("limit", 7, 1, 10)), 7U);
  for (const char* query : {"limit=0", "limit=11", "limit=", "limit=1x", "limit=-1", "limit=1.0",
                            "limit=99999999999999999999", "limit=%201"}) {
    const auto number = parsed_query(query).number("limit", 7, 1, 10);
    ASSERT_TRUE(std::holds_alternative<Response>(number)) << query;
    EXPECT_THAT(std::get<Response>(number).body, HasSubstr("whole number from 1 to 10")) << query;
  }
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/admin/json_body.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace pulsewheel {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array kMembers{
    JsonMember{.name = "uids", .kind = JsonMember::Kind::kTexts, .max = 3, .required = true},
    JsonMember{.name = "for_ms", .kind = JsonMember::Kind::kNumber, .max = 1'000, .min = 1}};

JsonBody parsed(std::string_view text) {
  return std::get<JsonBody>(JsonBody::parse(text, kMembers));
}

/// "code: message" of the refusal.
std::string refusal(std::string_view text) {
  const auto outcome = JsonBody::parse(text, kMembers);
  if (std::holds_alternative<JsonBody>(outcome)) return "accepted";
  const auto& response = std::get<Response>(outcome);
  EXPECT_EQ(response.status, http::status::bad_request);
  const auto error = nlohmann::json::parse(response.body).at("error");
  return error.at("code").get<std::string>() + ": " + error.at("message").get<std::string>();
}

TEST(JsonBodyTest, TakesNumbersAndLists) {
  JsonBody body = parsed(R"({"for_ms": 1000, "uids": ["a", "", "c"]})");
  EXPECT_EQ(body.number("for_ms"), 1'000U);
  EXPECT_THAT(body.take_texts("uids"), ElementsAre("a", "", "c"));
}

TEST(JsonBodyTest, LeavesOutWhatIsNotThere) {
  EXPECT_EQ(parsed(R"({"uids": []})").number("for_ms"), std::nullopt);
}

TEST(JsonBodyTest, AnEmptyBodyIsAnObjectWithoutMembers) {
  EXPECT_TRUE(std::holds_alternative<JsonBody>(JsonBody::parse("", std::span(kMembers).last(1))));
  EXPECT_THAT(refusal(""), HasSubstr("'uids' is missing"));
}

TEST(JsonBodyTest, KeepsEveryByteOfAString) {
  JsonBody body = parsed(R"({"uids": ["a\u0000b", "\u00e9", "\ud83d\ude00"]})");
  EXPECT_THAT(body.take_texts("uids"), ElementsAre("a\0b"s, "\xc3\xa9", "\xf0\x9f\x98\x80"));
}

TEST(JsonBodyTest, SaysWhatIsWrongAndWhatIsAllowed) {
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "a list does not belong there"},
      {"7", "a number does not belong there"},
      {"null", "null does not belong there"},
      {"\"a\"", "a string does not belong there"},
      {R"({"uid": []})", "a member of another name, 'uid'"},
      {R"({"uids": [], "uids": []})", "'uids' is there twice"},
      {R"({"uids": "a"})", "a string does not belong there"},
      {R"({"uids": [1]})", "a number does not belong there"},
      {R"({"uids": [null]})", "null does not belong there"},
      {R"({"uids": [true]})", "true and false"},
      {R"({"uids": [[]]})", "a list does not belong there"},
      {R"({"uids": [{}]})", "an object does not belong there"},
      {R"({"uids": {}})", "an object does not belong there"},
      {R"({"uids": [], "for_ms": 1001})", "'for_ms' must be a whole number from 1 to 1000"},
      {R"({"uids": [], "for_ms": 0})", "'for_ms' must be a whole number"},
      {R"({"uids": [], "for_ms": -1})", "'for_ms' must be a whole number"},
      {R"({"uids": [], "for_ms": 1.5})", "'for_ms' must be a whole number"},
      {R"({"uids": [], "for_ms": 99999999999999999999})", "'for_ms' must be a whole number"},
      {R"({"uids": [], "for_ms": 1e999})", "a number is out of range"},
      {R"({"uids": [], "for_ms": []})", "a list does not belong there"},
      {R"({"uids": ["a")", "no JSON from byte"},
      {R"({"uids": []} x)", "no JSON from byte"},
      {"{\"uids\": [\"\xff\"]}", "no JSON from byte"},
      {"uids=a", "no JSON from byte"},
  };
  for (const auto& [text, what] : cases) {
    EXPECT_THAT(refusal(text), HasSubstr(what)) << text;
    EXPECT_THAT(refusal(text), HasSubstr(R"({"uids": [strings], "for_ms": whole number})"));
  }
}

TEST(JsonBodyTest, OneTooManyIsToldApart) {
  EXPECT_THAT(refusal(R"({"uids": ["a", "b", "c", "d"]})"),
              testing::StartsWith("too_many: the body must be"));
}

TEST(JsonBodyTest, DeepNestingEndsAtTheFirstLevelThatDoesNotBelong) {
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("a list does not belong there"));
  EXPECT_THAT(refusal(R"({"uids":)" + std::string(1'000'000, '[')),
              HasSubstr("a list does not belong there"));
}

}  // namespace
}  // namespace pulsewheel

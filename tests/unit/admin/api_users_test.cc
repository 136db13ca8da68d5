// The routes about many users, and what they say of one.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/base/percent.h"
#include "tests/unit/admin/routes_fixture.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ApiUsersTest : public RoutesFixture {
 protected:
  RawClient::Answer query(std::string_view body) {
    return send(post_with_body("/v1/users:query", body));
  }
  static std::string error_code(const RawClient::Answer& answer) {
    return Json::parse(answer.body()).at("error").at("code");
  }
  static std::string error_message(const RawClient::Answer& answer) {
    return Json::parse(answer.body()).at("error").at("message");
  }
  static std::string body_of(const std::vector<std::string>& uids) {
    return Json{{"uids", uids}}.dump();
  }
};

TEST_F(ApiUsersTest, QueryAnswersWithALineForEachUid) {
  source_.lines = std::vector<UserLine>{{"a/b", "online", 1'000, 2'000, 2, {"phone 1", "tablet"}},
                                        {"bob", "unknown", {}, {}, 0, {}}};
  const auto answer = query(R"({"uids": ["a%2Fb", "bob"]})");
  EXPECT_EQ(answer.result_int(), 200U);
  EXPECT_EQ(Json::parse(answer.body()), Json::parse(R"({"users": [
    {"uid": "a%2Fb", "state": "online", "since_ms": 1000, "last_seen_ms": 2000, "sessions": 2,
     "devices": ["phone%201", "tablet"]},
    {"uid": "bob", "state": "unknown", "since_ms": null, "last_seen_ms": null, "sessions": 0,
     "devices": []}]})"));
  EXPECT_THAT(source_.asked(), ElementsAre("a/b", "bob"));
}

TEST_F(ApiUsersTest, QueryTakesUidsOfAnyBytes) {
  const std::vector<std::string> uids{"\0"s, "\xff\xfe", "50%", "\"\\", "\xc3\xa9", "%41"};
  std::vector<std::string> encoded;
  for (const std::string& uid : uids)
    encoded.push_back(percent_encode(uid));
  EXPECT_EQ(query(body_of(encoded)).result_int(), 200U);
  EXPECT_EQ(source_.asked(), uids);
}

TEST_F(ApiUsersTest, QueryTakesTenThousandLongUidsAndNotOneMore) {
  std::vector<std::string> uids(10'000, std::string(64, 'a'));
  EXPECT_EQ(query(body_of(uids)).result_int(), 200U);
  EXPECT_EQ(source_.asked().size(), 10'000U);
  uids.emplace_back("b");
  const auto answer = query(body_of(uids));
  EXPECT_EQ(answer.result_int(), 400U);
  EXPECT_EQ(error_code(answer), "too_many");
  EXPECT_THAT(error_message(answer), HasSubstr("'uids' may hold 10000 strings"));
}

TEST_F(ApiUsersTest, QueryOfMoreThanAMegabyteIsTooLarge) {
  const auto answer = query(std::string((1U << 20) + 1, ' '));
  EXPECT_EQ(answer.result_int(), 413U);
  EXPECT_THAT(error_message(answer), HasSubstr("1048576"));
}

TEST_F(ApiUsersTest, QueryNamesTheUidThatIsWrong) {
  const auto encoding = query(R"({"uids": ["a", "%zz"]})");
  EXPECT_EQ(encoding.result_int(), 400U);
  EXPECT_EQ(error_code(encoding), "bad_encoding");
  EXPECT_THAT(error_message(encoding), HasSubstr("uids[1]"));
  const auto empty = query(R"({"uids": [""]})");
  EXPECT_EQ(error_code(empty), "bad_uid");
  EXPECT_THAT(error_message(empty), HasSubstr("uids[0]"));
  EXPECT_EQ(error_code(query(body_of({std::string(129, 'a')}))), "bad_uid");
  EXPECT_THAT(source_.asked(), IsEmpty());
}

TEST_F(ApiUsersTest, QueryThatTheShardsDoNotAnswerIs503) {
  source_.lines = std::nullopt;
  const auto answer = query(R"({"uids": ["a"]})");
  EXPECT_EQ(answer.result_int(), 503U);
  EXPECT_EQ(answer[http::field::retry_after], "1");
}

TEST_F(ApiUsersTest, QueryNeedsAPostWithABody) {
  EXPECT_EQ(send(get("/v1/users:query")).result_int(), 405U);
  EXPECT_EQ(error_code(send(post("/v1/users:query"))), "bad_json");
}

TEST_F(ApiUsersTest, ListHandsCursorAndLimitOn) {
  source_.page = UserPage{{{"bob", "online", 1, 2, 1, {}}}, "7-0-512"};
  const Json page = Json::parse(send(get("/v1/users?state=online&cursor=7-0-1&limit=5")).body());
  EXPECT_EQ(page.at("next_cursor"), "7-0-512");
  EXPECT_EQ(page.at("users").at(0).at("uid"), "bob");
  EXPECT_THAT(source_.listed(), ElementsAre(std::pair("7-0-1"s, 5U)));
}

TEST_F(ApiUsersTest, LastPageHasNoCursor) {
  EXPECT_EQ(Json::parse(send(get("/v1/users")).body()),
            Json::parse(R"({"users": [], "next_cursor": null})"));
  EXPECT_THAT(source_.listed(), ElementsAre(std::pair(""s, 100U)));
}

TEST_F(ApiUsersTest, ListRefusesWhatItCannotList) {
  EXPECT_EQ(send(get("/v1/users?state=offline")).result_int(), 400U);
  EXPECT_EQ(send(get("/v1/users?limit=0")).result_int(), 400U);
  EXPECT_EQ(send(get("/v1/users?limit=10001")).result_int(), 400U);
  EXPECT_EQ(send(get("/v1/users?page=2")).result_int(), 400U);
  EXPECT_THAT(source_.listed(), IsEmpty());
  source_.knows_cursor = false;
  const auto answer = send(get("/v1/users?cursor=old"));
  EXPECT_EQ(answer.result_int(), 400U);
  EXPECT_EQ(error_code(answer), "bad_cursor");
}

TEST_F(ApiUsersTest, ExplainSaysEverythingAboutASession) {
  Explanation& e = *source_.explanation;
  e.user = {.state = "online", .since_ms = 1'000, .last_seen_ms = 2'000, .sessions = {}};
  e.home_shard = 1;
  e.now_ms = 3'000;
  SessionExplanation& session = e.sessions.emplace_back();
  session.session = {.id = 9,
                     .shard = 2,
                     .device = "a b",
                     .lingering = false,
                     .login_at_ms = 1'000,
                     .last_seen_ms = 2'000,
                     .deadline_ms = 32'000,
                     .timeout_ms = 30'000};
  session.address = "192.0.2.1:4711";
  session.packet_age_ms = 1'000;
  session.remaining_ms = 29'000;
  session.wheel = WheelSlot{1, 7};
  e.edges.push_back(
      {.seq = {}, .kind = "online", .reason = "login", .at_ms = 1'000, .last_seen_ms = {}});
  EXPECT_EQ(Json::parse(send(get("/v1/users/bob:explain")).body()), Json::parse(R"({
    "uid": "bob", "state": "online", "since_ms": 1000, "last_seen_ms": 2000,
    "summary": "online, live sessions: 1; offline in 29.0 s if nothing more comes",
    "home_shard": 1, "now_ms": 3000, "hold": null,
    "sessions": [{"id": "9", "shard": 2, "device": "a%20b", "lingering": false,
                  "login_at_ms": 1000, "last_seen_ms": 2000, "deadline_ms": 32000,
                  "timeout_ms": 30000, "address": "192.0.2.1:4711", "packet_age_ms": 1000,
                  "remaining_ms": 29000, "wheel": {"level": 1, "slot": 7}}],
    "edges": [{"seq": null, "kind": "online", "reason": "login", "at_ms": 1000, "last_seen_ms": null}]})"));
}

TEST_F(ApiUsersTest, WheelIsSummedSlotBySlot) {
  const auto level = [](std::size_t hand, std::vector<std::size_t> counts) {
    return WheelReport::Level{.ticks_per_slot = 1, .hand = hand, .counts = std::move(counts)};
  };
  source_.wheel =
      WheelReport{.tick_s = 0.5,
                  .shards = {{.shard = 0, .tick = 10, .armed = 3, .levels = {level(10, {1, 2})}},
                             {.shard = 1, .tick = 11, .armed = 4, .levels = {level(11, {0, 4})}}}};
  const Json wheel = Json::parse(send(get("/v1/wheel")).body());
  EXPECT_EQ(wheel.at("tick_s"), 0.5);
  EXPECT_EQ(wheel.at("levels"),
            Json::parse(R"([{"ticks_per_slot": 1, "hand": 11, "slots": [1, 6]}])"));
  EXPECT_EQ(wheel.at("shards").at(0).at("levels").at(0).at("slots"), Json({1, 2}));
  EXPECT_EQ(wheel.at("shards").at(1).at("armed"), 4);
}

TEST_F(ApiUsersTest, ExplainShowsAHold) {
  source_.explanation->hold = HoldInfo{1'000, 61'000};
  EXPECT_EQ(Json::parse(send(get("/v1/users/bob:explain")).body()).at("hold"),
            Json::parse(R"({"since_ms": 1000, "until_ms": 61000})"));
}

TEST_F(ApiUsersTest, HoldIsForAnHourOrForAsLongAsTheBodySays) {
  const auto usual = send(post("/v1/users/a%2Fb:hold"));
  EXPECT_EQ(usual.result_int(), 200U);
  EXPECT_EQ(Json::parse(usual.body()),
            Json::parse(R"({"uid": "a%2Fb", "since_ms": 1, "until_ms": 2})"));
  EXPECT_EQ(send(post_with_body("/v1/users/bob:hold", R"({"for_ms": 5})")).result_int(), 200U);
  EXPECT_THAT(source_.held(), ElementsAre(std::pair("a/b"s, std::chrono::milliseconds(3'600'000)),
                                          std::pair("bob"s, std::chrono::milliseconds(5))));
}

TEST_F(ApiUsersTest, HoldLastsAWeekAtMost) {
  const auto hold = [this](const char* body) {
    return send(post_with_body("/v1/users/bob:hold", body)).result_int();
  };
  EXPECT_EQ(hold(R"({"for_ms": 604800000})"), 200U);
  EXPECT_EQ(hold(R"({"for_ms": 604800001})"), 400U);
  EXPECT_EQ(hold(R"({"for_ms": 0})"), 400U);
  EXPECT_EQ(hold(R"({"for": 1})"), 400U);
  EXPECT_EQ(source_.held().size(), 1U);
}

TEST_F(ApiUsersTest, WhatARouteHasNoUseForIsAMistake) {
  for (const std::string& request :
       {post("/v1/users/bob:hold?for_ms=5"), post("/v1/users/bob:kick?dry_run=1"),
        post("/v1/drain?window=1h"), post("/v1/users:query?state=online"),
        get("/v1/users/bob?at=1"), get("/v1/users/bob:explain?at=1"), get("/v1/status?at=1")}) {
    const auto answer = send(request);
    EXPECT_EQ(answer.result_int(), 400U) << request;
    EXPECT_THAT(error_message(answer), HasSubstr("it knows: none")) << request;
  }
  for (const char* target : {"/v1/users/bob:kick", "/v1/users/bob:release", "/v1/drain"}) {
    const auto answer = send(post_with_body(target, R"({"for_ms": 5})"));
    EXPECT_EQ(answer.result_int(), 400U) << target;
    EXPECT_THAT(error_message(answer), HasSubstr("'for_ms'")) << target;
  }
  EXPECT_THAT(source_.held(), IsEmpty());
}

TEST_F(ApiUsersTest, AnEmptyObjectIsNoSurplus) {
  EXPECT_EQ(send(post_with_body("/v1/drain", "{}")).result_int(), 202U);
}

TEST_F(ApiUsersTest, HoldSaysWhyItIsNone) {
  source_.hold_report = HoldReport{HoldReport::Verdict::kNotOnline, {}};
  const auto offline = send(post("/v1/users/bob:hold"));
  EXPECT_EQ(offline.result_int(), 404U);
  EXPECT_EQ(error_code(offline), "not_online");
  source_.hold_report = HoldReport{HoldReport::Verdict::kTooMany, {}};
  const auto too_many = send(post("/v1/users/bob:hold"));
  EXPECT_EQ(too_many.result_int(), 409U);
  EXPECT_EQ(error_code(too_many), "too_many_holds");
  source_.hold_report = std::nullopt;
  EXPECT_EQ(send(post("/v1/users/bob:hold")).result_int(), 503U);
}

TEST_F(ApiUsersTest, ReleaseSaysHowLongTheUserWasHeld) {
  const auto answer = send(post("/v1/users/bob:release"));
  EXPECT_EQ(answer.result_int(), 200U);
  EXPECT_EQ(Json::parse(answer.body()), Json::parse(R"({"uid": "bob", "held_ms": 1500})"));
  source_.release_report = ReleaseReport{};
  const auto not_held = send(post("/v1/users/bob:release"));
  EXPECT_EQ(not_held.result_int(), 404U);
  EXPECT_EQ(error_code(not_held), "not_held");
}

TEST_F(ApiUsersTest, DrainIsAcceptedAndSaysHowManyLeave) {
  const auto answer = send(post("/v1/drain"));
  EXPECT_EQ(answer.result_int(), 202U);
  EXPECT_EQ(Json::parse(answer.body()), Json::parse(R"({"connections": 12, "window_ms": 10000})"));
}

TEST_F(ApiUsersTest, ReloadSaysWhatHasChanged) {
  source_.reload_report = ReloadReport{{}, {{"a.b", "1", "2"}}, {{"c.d", "x", "y"}}};
  const auto answer = send(post("/v1/reload"));
  EXPECT_EQ(answer.result_int(), 200U);
  EXPECT_EQ(Json::parse(answer.body()),
            Json::parse(R"({"changed": [{"key": "a.b", "before": "1", "after": "2"}],
                            "needs_restart": [{"key": "c.d", "before": "x", "after": "y"}]})"));
}

TEST_F(ApiUsersTest, ReloadOfAWrongConfigurationSaysWhatIsWrong) {
  source_.reload_report = ReloadReport{{"line 3: no such key", "line 5: too long"}, {}, {}};
  const auto answer = send(post("/v1/reload"));
  EXPECT_EQ(answer.result_int(), 422U);
  EXPECT_EQ(error_code(answer), "bad_config");
  EXPECT_EQ(Json::parse(answer.body()).at("problems"),
            Json({"line 3: no such key", "line 5: too long"}));
}

}  // namespace
}  // namespace pulsewheel

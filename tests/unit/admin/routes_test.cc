#include "daemon/admin/routes.h"

#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/metrics.h"
#include "daemon/base/build_info.h"
#include "daemon/base/percent.h"
#include "tests/unit/admin/routes_fixture.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class RoutesTest : public RoutesFixture {
 protected:
  RawClient::Answer ask(std::string_view target) { return send(get(target)); }
  static Json error(const RawClient::Answer& answer) {
    EXPECT_EQ(answer[http::field::content_type], "application/json");
    return Json::parse(answer.body()).at("error");
  }
};

TEST_F(RoutesTest, LivezIsOkWhileTheShardsTurn) {
  const auto answer = ask("/livez");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer.body(), "ok\n");
}

TEST_F(RoutesTest, LivezIs503WhenAShardStands) {
  source_.is_live = false;
  const auto answer = ask("/livez");
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_EQ(error(answer).at("code"), "not_live");
}

TEST_F(RoutesTest, ReadyzIsOkWhenReady) {
  EXPECT_EQ(ask("/readyz").body(), "ok\n");
}

TEST_F(RoutesTest, ReadyzSaysWhyNot) {
  source_.not_ready_because = "draining since 3 s";
  const auto answer = ask("/readyz");
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_EQ(error(answer), Json({{"code", "not_ready"}, {"message", "draining since 3 s"}}));
}

TEST_F(RoutesTest, MetricsAreInTheTextFormat) {
  source_.families = {gauge_family("pulsewheel_users_online", "Users online.", 7)};
  const auto answer = ask("/metrics");
  EXPECT_EQ(answer[http::field::content_type], "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(answer.body(), HasSubstr("\npulsewheel_users_online 7\n"));
}

TEST_F(RoutesTest, VersionIsThatOfTheBuild) {
  const Json answer = Json::parse(ask("/version").body());
  EXPECT_EQ(answer.at("name"), "pulsewheel");
  EXPECT_EQ(answer.at("version"), build_info().version);
  EXPECT_EQ(answer.at("commit"), build_info().commit);
}

TEST_F(RoutesTest, StatusIsWhatTheSourceSays) {
  source_.status_json = {{"users_online", 12}, {"shards", {{{"index", 0}}}}};
  EXPECT_EQ(Json::parse(ask("/v1/status").body()), source_.status_json);
}

TEST_F(RoutesTest, UserShowsStateAndSessions) {
  SessionReport session;
  session.id = 18'446'744'073'709'551'615u;
  session.shard = 1;
  session.device = "phone 1";
  session.login_at_ms = 1'000;
  session.last_seen_ms = 2'000;
  session.deadline_ms = 32'000;
  session.timeout_ms = 30'000;
  source_.user = UserReport{"online", 1'000, 2'000, {session}};
  const auto answer = ask("/v1/users/bob");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(Json::parse(answer.body()), Json::parse(R"({
    "uid": "bob", "state": "online", "since_ms": 1000, "last_seen_ms": 2000,
    "sessions": [{"id": "18446744073709551615", "shard": 1, "device": "phone%201",
                  "lingering": false, "login_at_ms": 1000, "last_seen_ms": 2000,
                  "deadline_ms": 32000, "timeout_ms": 30000}]})"));
}

TEST_F(RoutesTest, UserWithoutARecordIsOfflineWithNulls) {
  EXPECT_EQ(Json::parse(ask("/v1/users/nobody").body()), Json::parse(R"({
    "uid": "nobody", "state": "offline", "since_ms": null, "last_seen_ms": null,
    "sessions": []})"));
}

TEST_F(RoutesTest, UserWhoseShardDoesNotAnswerIs503) {
  source_.user = std::nullopt;
  const auto answer = ask("/v1/users/bob");
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_EQ(answer[http::field::retry_after], "1");
  EXPECT_EQ(error(answer).at("code"), "timeout");
}

TEST_F(RoutesTest, KickSaysHowManySessionsItEnded) {
  source_.kick_report = KickReport{true, 2};
  const auto answer = send(post("/v1/users/room%3A42:kick"));
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(Json::parse(answer.body()), Json({{"uid", "room%3A42"}, {"kicked_sessions", 2}}));
  EXPECT_THAT(source_.kicked(), ElementsAre("room:42"));
}

TEST_F(RoutesTest, KickOfAUserWhoOnlyLingersEndsNoSession) {
  source_.kick_report = KickReport{true, 0};
  const auto answer = send(post("/v1/users/bob:kick"));
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(Json::parse(answer.body()).at("kicked_sessions"), 0);
}

TEST_F(RoutesTest, KickOfAUserWhoIsNotOnlineIs404) {
  source_.kick_report = KickReport{};
  const auto answer = send(post("/v1/users/bob:kick"));
  EXPECT_EQ(answer.result_int(), 404u);
  EXPECT_EQ(error(answer).at("code"), "not_online");
}

TEST_F(RoutesTest, KickWhoseShardDoesNotAnswerIs503) {
  source_.kick_report = std::nullopt;
  const auto answer = send(post("/v1/users/bob:kick"));
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_EQ(answer[http::field::retry_after], "1");
  EXPECT_THAT(error(answer).at("message").get<std::string>(), HasSubstr("may still be kicked"));
}

TEST_F(RoutesTest, KickNeedsAPost) {
  const auto answer = ask("/v1/users/bob:kick");
  EXPECT_EQ(answer.result_int(), 405u);
  EXPECT_EQ(answer[http::field::allow], "POST");
  EXPECT_THAT(source_.kicked(), testing::IsEmpty());
}

TEST_F(RoutesTest, KickNeedsAUidOfOneTo128Bytes) {
  for (const std::string& uid : {""s, std::string(129, 'a')}) {
    const auto answer = send(post("/v1/users/" + uid + ":kick"));
    EXPECT_EQ(answer.result_int(), 400u);
    EXPECT_EQ(error(answer).at("code"), "bad_uid");
  }
  EXPECT_THAT(source_.kicked(), testing::IsEmpty());
}

TEST_F(RoutesTest, UidsOfAnyBytesArriveAndComeBackExact) {
  const std::string uids[] = {
      "\0"s,      "a\0b"s,     "\xff\xfe"s, "a/b"s,          "50%"s,
      "room:42"s, "..\r\n\t"s, "\""s,       "\xc3\xa9"s,     "?#&="s,
      "%41"s,     " "s,        "<script>"s, "\xed\xa0\x80"s, std::string(128, '\x01')};
  std::vector<std::string> expected;
  for (const std::string& uid : uids) {
    const Json answer = Json::parse(ask("/v1/users/" + percent_encode(uid)).body());
    EXPECT_EQ(percent_decode(answer.at("uid").get<std::string>()), uid);
    expected.push_back(uid);
  }
  EXPECT_EQ(source_.asked(), expected);
}

TEST_F(RoutesTest, RawBytesThatNeedNoEncodingAreTaken) {
  (void)ask("/v1/users/bob@example.com+1");
  EXPECT_THAT(source_.asked(), ElementsAre("bob@example.com+1"));
}

TEST_F(RoutesTest, MalformedEncodingIs400AndSaysTheRule) {
  for (const char* uid : {"%", "%4", "a%zz", "100%", "%%41", "%+1"}) {
    const auto answer = ask("/v1/users/"s + uid);
    EXPECT_EQ(answer.result_int(), 400u) << uid;
    EXPECT_EQ(error(answer).at("code"), "bad_encoding") << uid;
    EXPECT_THAT(error(answer).at("message").get<std::string>(), HasSubstr("%25")) << uid;
  }
  EXPECT_THAT(source_.asked(), testing::IsEmpty());
}

TEST_F(RoutesTest, UidsHaveOneTo128Bytes) {
  EXPECT_EQ(ask("/v1/users/" + std::string(128, 'a')).result_int(), 200u);
  const auto too_long = ask("/v1/users/" + std::string(129, 'a'));
  EXPECT_EQ(too_long.result_int(), 400u);
  EXPECT_EQ(error(too_long),
            Json({{"code", "bad_uid"},
                  {"message", "a uid has 1 to 128 bytes after decoding, this one has 129"}}));
  EXPECT_EQ(error(ask("/v1/users/")).at("code"), "bad_uid");
}

TEST_F(RoutesTest, RawColonInAUidIsExplained) {
  const auto answer = ask("/v1/users/room:42");
  EXPECT_EQ(answer.result_int(), 404u);
  EXPECT_THAT(error(answer).at("message").get<std::string>(), HasSubstr("%3A"));
}

TEST_F(RoutesTest, AnAnswerAfterTheServerIsGoneHasNoEffect) {
  source_.keep_users_waiting = true;
  (void)ask("/livez");
  {
    RawClient client(server_->port());
    client.send(get("/v1/users/bob"));
    // The thread serves one thing at a time: the answer to a later connection says that the
    // request of the earlier one has reached the source, or will find a closed connection.
    (void)ask("/livez");
  }
  server_.reset();
  for (const auto& done : source_.take_waiting())
    done(source_.user);
}

}  // namespace
}  // namespace pulsewheel

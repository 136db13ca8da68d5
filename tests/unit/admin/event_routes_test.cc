#include "daemon/admin/event_routes.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/http_server.h"
#include "daemon/admin/routes.h"
#include "tests/support/eventually.h"
#include "tests/unit/admin/fake_events.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;
using namespace std::string_literals;
using test::eventually;

class EventRoutesTest : public testing::Test {
 protected:
  HttpServer& server() {
    if (server_) return *server_;
    HttpServer::Options options;
    options.port = 0;
    options.limits = http_limits_;
    ApiTable table;
    add_event_routes(table, events_, limits_);
    server_ = std::make_unique<HttpServer>(options, make_router(std::move(table)));
    events_.attach(server_->executor());
    server_->start();
    return *server_;
  }
  void add(int count, const std::string& uid = {}) {
    static_cast<void>(server());
    for (int i = 0; i < count; ++i)
      events_.add(uid);
  }
  RawClient::Answer ask(const std::string& query) {
    return RawClient(server().port()).ask(get("/v1/events" + query));
  }
  Json page(const std::string& query) {
    const auto answer = ask(query);
    EXPECT_EQ(answer.result_int(), 200U) << answer.body();
    EXPECT_EQ(answer[http::field::content_type], "application/json");
    return Json::parse(answer.body());
  }
  std::string refusal(const std::string& query) {
    const auto answer = ask(query);
    return std::to_string(answer.result_int()) + " " +
           Json::parse(answer.body()).at("error").at("code").get<std::string>();
  }
  static Json events(int first, int last) {
    Json out = Json::array();
    for (int n = first; n <= last; ++n)
      out.push_back({{"n", n}});
    return out;
  }
  static Json page_of(Json events, const std::string& cursor, bool more) {
    return {{"events", std::move(events)}, {"cursor", cursor}, {"more", more}};
  }

  /// A follower that has read the head of the answer.
  std::unique_ptr<RawClient> follow(const std::string& query, const std::string& fields = {}) {
    auto client = std::make_unique<RawClient>(server().port());
    client->send("GET /v1/events" + query +
                 " HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + fields + "\r\n");
    EXPECT_THAT(read_block(*client, "\r\n\r\n"),
                testing::HasSubstr("Content-Type: text/event-stream\r\n"));
    return client;
  }
  static std::string read_block(RawClient& client, std::string_view end = "\n\n") {
    std::string block;
    while (!block.ends_with(end))
      block += client.read_exactly(1);
    return block;
  }

  FakeEvents events_;
  EventRouteLimits limits_;
  HttpLimits http_limits_;
  std::unique_ptr<HttpServer> server_;
};

// --- Pages --------------------------------------------------------------------------------------

TEST_F(EventRoutesTest, WithoutACursorThePageIsWhereWeAre) {
  add(5);
  EXPECT_EQ(page(""), page_of(Json::array(), "3-5", false));
}

TEST_F(EventRoutesTest, ACursorGivesWhatIsBehindIt) {
  add(5);
  EXPECT_EQ(page("?cursor=3-2"), page_of(events(3, 5), "3-5", false));
  EXPECT_EQ(page("?cursor=3-5"), page_of(Json::array(), "3-5", false));
}

TEST_F(EventRoutesTest, TheTailIsTheNewestOnes) {
  add(5);
  EXPECT_EQ(page("?tail=2"), page_of(events(4, 5), "3-5", false));
  EXPECT_EQ(page("?tail=1000000"), page_of(events(1, 5), "3-5", false));
}

TEST_F(EventRoutesTest, PagesFollowOneAnother) {
  add(10);
  EXPECT_EQ(page("?cursor=3-0&limit=4"), page_of(events(1, 4), "3-4", true));
  EXPECT_EQ(page("?cursor=3-4&limit=4"), page_of(events(5, 8), "3-8", true));
  EXPECT_EQ(page("?cursor=3-8&limit=4"), page_of(events(9, 10), "3-10", false));
}

TEST_F(EventRoutesTest, AUidOfAnyBytesFilters) {
  const std::string uid("\0/%\xff", 4);
  add(4);
  add(1, uid);
  add(4);
  EXPECT_EQ(page("?cursor=3-0&uid=%00%2F%25%ff"), page_of(events(5, 5), "3-9", false));
  EXPECT_EQ(page("?cursor=3-0&uid=%00%2F%25%fe"), page_of(Json::array(), "3-9", false));
}

TEST_F(EventRoutesTest, ALongSearchEndsAndSaysWhereToGoOn) {
  limits_.texts_max = 2;
  add(20);
  EXPECT_EQ(page("?cursor=3-0&uid=nobody"), page_of(Json::array(), "3-6", true));
}

TEST_F(EventRoutesTest, AnOldCursorGetsAResyncAndGoesOn) {
  add(5);
  events_.forget(4);
  const Json resync{{"resync", true},
                    {"reason", "too_old"},
                    {"cursor", "3-5"},
                    {"snapshot", "/v1/users?state=online"}};
  EXPECT_EQ(page("?cursor=3-1"), page_of({resync}, "3-5", false));
  EXPECT_EQ(page("?cursor=2-5").at("events").at(0).at("reason"), "other_epoch");
}

TEST_F(EventRoutesTest, WrongParametersAreNamed) {
  EXPECT_EQ(refusal("?cursor=5"), "400 bad_cursor");
  EXPECT_EQ(refusal("?cursor="), "400 bad_cursor");
  EXPECT_EQ(refusal("?cursor=3-1&tail=1"), "400 bad_parameter");
  EXPECT_EQ(refusal("?tail=-1"), "400 bad_parameter");
  EXPECT_EQ(refusal("?limit=0"), "400 bad_parameter");
  EXPECT_EQ(refusal("?limit=2001"), "400 bad_parameter");
  EXPECT_EQ(refusal("?limit=99999999999999999999999"), "400 bad_parameter");
  EXPECT_EQ(refusal("?wait_s=61"), "400 bad_parameter");
  EXPECT_EQ(refusal("?since=3-1"), "400 bad_parameter");
  EXPECT_EQ(refusal("?uid="), "400 bad_uid");
  EXPECT_EQ(refusal("?uid=" + std::string(129, 'x')), "400 bad_uid");
  EXPECT_EQ(refusal("?uid=%zz"), "400 bad_parameter");
}

// --- Pages that wait ----------------------------------------------------------------------------

TEST_F(EventRoutesTest, AWaitEndsWithTheFirstEvent) {
  add(2);
  RawClient client(server().port());
  client.send(get("/v1/events?cursor=3-2&wait_s=60"));
  ASSERT_TRUE(eventually([&] { return events_.waiting() == 1; }));
  add(1);
  EXPECT_EQ(Json::parse(client.read_answer().body()), page_of(events(3, 3), "3-3", false));
  EXPECT_TRUE(eventually([&] { return events_.waiting() == 0; }));
}

TEST_F(EventRoutesTest, AWaitForOneUserOutlastsTheOthersEvents) {
  RawClient client(server().port());
  client.send(get("/v1/events?wait_s=60&uid=alice"));
  ASSERT_TRUE(eventually([&] { return events_.waiting() == 1; }));
  add(3, "bob");
  ASSERT_TRUE(eventually([&] { return events_.waiting() == 1; }));
  add(1, "alice");
  EXPECT_EQ(Json::parse(client.read_answer().body()), page_of(events(4, 4), "3-4", false));
}

TEST_F(EventRoutesTest, AWaitWithoutEventsEndsInTime) {
  EXPECT_EQ(page("?wait_s=1"), page_of(Json::array(), "3-0", false));
  EXPECT_EQ(events_.waiting(), 0U);
}

TEST_F(EventRoutesTest, AWaitMayOutlastTheTimeOfOtherAnswers) {
  http_limits_.answer_timeout = 1ms;
  EXPECT_EQ(page("?wait_s=1"), page_of(Json::array(), "3-0", false));
}

TEST_F(EventRoutesTest, TooManyThatWaitAreToldSo) {
  limits_.waits_max = 1;
  RawClient first(server().port());
  first.send(get("/v1/events?wait_s=60"));
  ASSERT_TRUE(eventually([&] { return events_.waiting() == 1; }));
  EXPECT_EQ(refusal("?wait_s=1"), "503 too_many_waiting");
  add(1);
  EXPECT_EQ(first.read_answer().result_int(), 200U);
  EXPECT_EQ(page("?wait_s=1").at("cursor"), "3-1");
}

TEST_F(EventRoutesTest, StoppingEndsWaits) {
  RawClient client(server().port());
  client.send(get("/v1/events?wait_s=60"));
  ASSERT_TRUE(eventually([&] { return events_.waiting() == 1; }));
  server_->stop();
  EXPECT_EQ(client.read_to_end(), "");
  server_.reset();
  EXPECT_EQ(events_.waiting(), 0U);
}

// --- Streams ------------------------------------------------------------------------------------

TEST_F(EventRoutesTest, AStreamFirstSaysWhereItIsAndThenWhatHappens) {
  add(2);
  const auto client = follow("");
  EXPECT_EQ(read_block(*client), "retry: 2000\nid: 3-2\n\n");
  add(1);
  EXPECT_EQ(read_block(*client), "id: 3-3\ndata: {\"n\":3}\n\n");
}

TEST_F(EventRoutesTest, AStreamReplaysFromItsCursor) {
  add(5);
  const auto client = follow("?cursor=3-3");
  EXPECT_EQ(read_block(*client), "retry: 2000\nid: 3-3\n\n");
  EXPECT_EQ(read_block(*client), "id: 3-4\ndata: {\"n\":4}\n\n");
  EXPECT_EQ(read_block(*client), "id: 3-5\ndata: {\"n\":5}\n\n");
}

TEST_F(EventRoutesTest, LastEventIdIsNewerThanTheUrl) {
  add(5);
  const auto client = follow("?cursor=3-1", "Last-Event-ID: 3-4\r\n");
  EXPECT_EQ(read_block(*client), "retry: 2000\nid: 3-4\n\n");
  EXPECT_EQ(read_block(*client), "id: 3-5\ndata: {\"n\":5}\n\n");
}

TEST_F(EventRoutesTest, LastEventIdGoesBeforeTheTailInTheUrl) {
  add(5);
  const auto client = follow("?tail=1", "Last-Event-ID: 3-4\r\n");
  EXPECT_EQ(read_block(*client), "retry: 2000\nid: 3-4\n\n");
  EXPECT_EQ(read_block(*client), "id: 3-5\ndata: {\"n\":5}\n\n");
}

TEST_F(EventRoutesTest, AnUnfitLastEventIdIsRefused) {
  RawClient client(server().port());
  EXPECT_EQ(client
                .ask("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                     "Last-Event-ID: x\r\n\r\n")
                .result_int(),
            400U);
}

TEST_F(EventRoutesTest, AStreamWithAnOldCursorGetsAResyncAndThenWhatHappens) {
  add(5);
  events_.forget(4);
  const auto client = follow("", "Last-Event-ID: 3-1\r\n");
  EXPECT_EQ(read_block(*client), "retry: 2000\nid: 3-1\n\n");
  EXPECT_EQ(read_block(*client),
            "id: 3-5\nevent: resync\ndata: {\"resync\":true,\"reason\":\"too_old\",\"cursor\":"
            "\"3-5\",\"snapshot\":\"/v1/users?state=online\"}\n\n");
  add(1);
  EXPECT_EQ(read_block(*client), "id: 3-6\ndata: {\"n\":6}\n\n");
}

TEST_F(EventRoutesTest, AFilteredStreamTellsInItsHeartbeatHowFarItIs) {
  http_limits_.heartbeat_interval = 50ms;
  const auto client = follow("?uid=alice");
  EXPECT_EQ(read_block(*client), "retry: 2000\nid: 3-0\n\n");
  add(200);
  std::string beat;
  while (beat != ":\nid: 3-200\n\n")
    beat = read_block(*client);
  add(1, "alice");
  while (beat.starts_with(":"))
    beat = read_block(*client);
  EXPECT_EQ(beat, "id: 3-201\ndata: {\"n\":201}\n\n");
}

TEST_F(EventRoutesTest, AnUnfilteredHeartbeatIsAComment) {
  http_limits_.heartbeat_interval = 10ms;
  const auto client = follow("");
  static_cast<void>(read_block(*client));
  EXPECT_EQ(read_block(*client), ":\n\n");
}

TEST_F(EventRoutesTest, AcceptMayNameSeveralTypes) {
  RawClient client(server().port());
  client.send(
      "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/html, Text/Event-Stream\r\n"
      "\r\n");
  EXPECT_THAT(read_block(client, "\r\n\r\n"), testing::HasSubstr("text/event-stream"));
}

}  // namespace
}  // namespace pulsewheel

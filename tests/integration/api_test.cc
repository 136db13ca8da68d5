// The HTTP API of the real daemon: every route that /openapi.json describes, and many users at
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/percent.h"
#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/json_schema.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// --- Every route --------------------------------------------------------------------------------

struct Operation {
  std::string method;
  std::string path;
  Json description;
};

/// Look-ups first, and last what ends the daemon.
std::vector<Operation> operations_of(const Json& document) {
  std::vector<Operation> operations;
  for (const auto& [path, of_path] : document.at("paths").items()) {
    for (const auto& [method, description] : of_path.items())
      operations.push_back({method == "get" ? "GET" : "POST", path, description});
  }
  const auto rank = [](const Operation& o) {
    if (o.path == "/v1/drain") return 2;
    return o.method == "GET" ? 0 : 1;
  };
  std::stable_sort(operations.begin(), operations.end(),
                   [&](const Operation& a, const Operation& b) { return rank(a) < rank(b); });
  return operations;
}

/// The path with the documented examples of its parameters in it.
std::string target_of(const Operation& operation) {
  std::string target = operation.path;
  for (const Json& parameter : operation.description.at("parameters")) {
    const std::string name = parameter.at("name");
    const std::string example = parameter.at("example").is_string()
                                    ? parameter.at("example").get<std::string>()
                                    : parameter.at("example").dump();
    if (parameter.at("in") == "path") {
      const std::string hole = "{" + name + "}";
      target.replace(target.find(hole), hole.size(), example);
    } else if (!example.empty()) {
      target += (target.find('?') == target.npos ? "?" : "&") + name + "=" + example;
    }
  }
  return target;
}

std::string example_uid(const Json& document) {
  for (const auto& [path, of_path] : document.at("paths").items()) {
    if (path != "/v1/users/{uid}") continue;
    return *percent_decode(
        of_path.at("get").at("parameters").at(0).at("example").get<std::string>());
  }
  throw std::runtime_error("no route about one user");
}

/// The one answer that is described as success: its status and content.
std::pair<int, Json> success_of(const Operation& operation) {
  for (const auto& [status, answer] : operation.description.at("responses").items()) {
    if (status.front() == '2') return {std::stoi(status), answer.at("content")};
  }
  throw std::runtime_error("no success described for " + operation.path);
}

TEST(OpenApiTest, EveryRouteAnswersAsDescribed) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  const Json document = Json::parse(daemon.get("/openapi.json").body);
  const std::string uid = example_uid(document);
  std::size_t called = 0;
  for (const Operation& operation : operations_of(document)) {
    Client client(daemon.port());  // a kick may have ended the one before
    client.login(uid, "phone 1");
    if (operation.path == "/v1/users/{uid}:release") {
      ASSERT_EQ(daemon.post("/v1/users/" + percent_encode(uid) + ":hold").status, 200);
    }
    std::string body;
    if (operation.description.contains("requestBody")) {
      body = operation.description.at("requestBody")
                 .at("content")
                 .at("application/json")
                 .at("example")
                 .dump();
    }
    const std::string target = target_of(operation);
    const auto answer = operation.method == "GET" ? daemon.get(target) : daemon.post(target, body);
    const auto [status, content] = success_of(operation);
    EXPECT_EQ(answer.status, status) << operation.method << ' ' << target << '\n' << answer.body;
    ++called;
    const auto json = content.find("application/json");
    if (json == content.end()) continue;
    EXPECT_EQ(schema_violation(Json::parse(answer.body), json->at("schema"), document), "")
        << operation.method << ' ' << target << '\n'
        << answer.body;
  }
  EXPECT_GE(called, 16U);
}

TEST(OpenApiTest, RefusalsAreErrorsAsDescribed) {
  const Daemon daemon;
  const Json document = Json::parse(daemon.get("/openapi.json").body);
  const Json schema = document.at("components").at("schemas").at("Error");
  const std::pair<Daemon::Answer, int> cases[] = {
      {daemon.get("/v2/users"), 404},
      {daemon.post("/v1/status"), 405},
      {daemon.get("/v1/users/%zz"), 400},
      {daemon.get("/v1/users/" + std::string(129, 'a')), 400},
      {daemon.get("/v1/users/../../etc/passwd"), 404},
      {daemon.post("/v1/users/nobody:kick"), 404},
      {daemon.post("/v1/users:query", R"({"uids": 1e999})"), 400},
      {daemon.post("/v1/users:query", std::string(100'000, '[')), 400},
      {daemon.post("/v1/users:query", std::string(2'000'000, ' ')), 413},
      {daemon.get("/v1/users?cursor=0-0-0"), 400},
      {daemon.get("/v1/users?cursor=1-9-0"), 400},
  };
  for (const auto& [answer, status] : cases) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(schema_violation(Json::parse(answer.body), schema, document), "");
  }
}

// --- Many users ---------------------------------------------------------------------------------

TEST(QueryTest, AnswersForUsersOfAllShardsInTheOrderAsked) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  std::vector<Client> clients;
  std::vector<std::string> uids;
  for (int i = 0; i < 100; ++i) {
    uids.push_back("user/" + std::to_string(i) + std::string("\0\xff", 2));
    if (i % 2 == 0) continue;
    clients.emplace_back(daemon.port());
    clients.back().login(uids.back(), "d" + std::to_string(i));
  }
  Json request{{"uids", Json::array()}};
  for (const std::string& uid : uids)
    request["uids"].push_back(percent_encode(uid));
  const auto answer = daemon.post("/v1/users:query", request.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json users = Json::parse(answer.body).at("users");
  ASSERT_EQ(users.size(), uids.size());
  for (std::size_t i = 0; i < uids.size(); ++i) {
    EXPECT_EQ(percent_decode(users[i].at("uid").get<std::string>()), uids[i]);
    EXPECT_EQ(users[i].at("state"), i % 2 == 0 ? "offline" : "online");
    if (i % 2 == 0) continue;
    EXPECT_EQ(users[i].at("devices"), Json({"d" + std::to_string(i)}));
    EXPECT_TRUE(users[i].at("last_seen_ms").is_number());
  }
}

TEST(QueryTest, LastSeenCountsThePacketsOfLiveSessions) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice");
  const auto last_seen = [&] {
    const Json users = Json::parse(daemon.post("/v1/users:query", R"({"uids":["alice"]})").body);
    return users.at("users").at(0).at("last_seen_ms").get<std::int64_t>();
  };
  const std::int64_t before = last_seen();
  EXPECT_TRUE(eventually([&] {
    client.send_keepalive();
    static_cast<void>(client.expect(proto::FrameType::kKeepaliveAck));
    return last_seen() > before + 10;
  }));
}

TEST(QueryTest, UnknownIsAnAnswerBehindACrash) {
  TemporaryFolder state;
  {
    const Daemon killed({.state_dir = state / "state"});  // its destructor kills it
  }
  const Daemon daemon({.sets = {"restart.grace=60s"}, .state_dir = state / "state"});
  const Json users = Json::parse(daemon.post("/v1/users:query", R"({"uids":["alice"]})").body);
  EXPECT_EQ(users.at("users").at(0).at("state"), "unknown");
}

TEST(ListTest, PagesHoldEveryOnlineUserOnceWhileOthersComeAndGo) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  std::vector<Client> staying;
  for (int i = 0; i < 60; ++i) {
    staying.emplace_back(daemon.port());
    staying.back().login("stays" + std::to_string(i));
  }
  std::map<std::string, int> seen;
  std::string cursor;
  int pages = 0;
  do {
    const auto answer =
        daemon.get("/v1/users?state=online&limit=7" + (cursor.empty() ? "" : "&cursor=" + cursor));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json page = Json::parse(answer.body);
    EXPECT_LE(page.at("users").size(), 7U);
    for (const Json& user : page.at("users"))
      ++seen[user.at("uid")];
    cursor = page.at("next_cursor").is_null() ? "" : page.at("next_cursor").get<std::string>();
    Client comes_and_goes(daemon.port());
    comes_and_goes.login("goes" + std::to_string(pages));
    comes_and_goes.send_logout();
    static_cast<void>(comes_and_goes.read_to_end());
    ASSERT_LT(++pages, 100);
  } while (!cursor.empty());
  for (int i = 0; i < 60; ++i)
    EXPECT_EQ(seen["stays" + std::to_string(i)], 1) << i;
}

// --- Explain and wheel --------------------------------------------------------------------------

Json explain(const Daemon& daemon, const std::string& uid) {
  return Json::parse(daemon.get("/v1/users/" + uid + ":explain").body);
}

TEST(ExplainTest, SaysWhereASessionIsAndWhatItWaitsFor) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice", "phone", 10'000);
  const Json answer = explain(daemon, "alice");
  EXPECT_THAT(answer.at("summary").get<std::string>(), HasSubstr("live sessions: 1"));
  const Json& session = answer.at("sessions").at(0);
  EXPECT_THAT(session.at("address").get<std::string>(), testing::StartsWith("127.0.0.1:"));
  EXPECT_EQ(session.at("device"), "phone");
  EXPECT_EQ(session.at("timeout_ms"), 15'000);
  EXPECT_LE(session.at("remaining_ms"), 15'000);
  EXPECT_EQ(session.at("remaining_ms").get<std::int64_t>() +
                session.at("packet_age_ms").get<std::int64_t>(),
            14'999)
      << "each is cut to milliseconds";
  ASSERT_TRUE(session.at("wheel").is_object());
  const Json wheel = Json::parse(daemon.get("/v1/wheel").body);
  const Json& place = session.at("wheel");
  EXPECT_GE(wheel.at("levels")
                .at(place.at("level").get<std::size_t>())
                .at("slots")
                .at(place.at("slot").get<std::size_t>()),
            1);
}

TEST(ExplainTest, SaysWhyAUserIsOffline) {
  const Daemon daemon;
  {
    Client client(daemon.port());
    client.login("alice");
    client.send_logout();
    static_cast<void>(client.read_to_end());
  }
  Json answer;
  ASSERT_TRUE(
      eventually([&] { return (answer = explain(daemon, "alice")).at("state") == "offline"; }));
  EXPECT_THAT(answer.at("summary").get<std::string>(), HasSubstr("the last session logged out"));
  ASSERT_TRUE(eventually([&] { return explain(daemon, "alice").at("edges").size() == 2; }));
  answer = explain(daemon, "alice");
  EXPECT_EQ(answer.at("edges").at(0).at("reason"), "logout");
  EXPECT_EQ(answer.at("edges").at(0).at("seq"), 2);
  EXPECT_EQ(answer.at("edges").at(1).at("reason"), "login");
}

TEST(ExplainTest, ShowsALingeringSessionOnTheWheel) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice");
  client.close();
  Json answer;
  ASSERT_TRUE(eventually([&] {
    answer = explain(daemon, "alice");
    return answer.at("sessions").at(0).at("lingering") == true;
  }));
  EXPECT_TRUE(answer.at("sessions").at(0).at("wheel").is_object());
  EXPECT_TRUE(answer.at("sessions").at(0).at("address").is_null());
  EXPECT_THAT(answer.at("summary").get<std::string>(), HasSubstr("lingering"));
}

TEST(WheelTest, CountsEverySessionOnce) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  std::vector<Client> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("u" + std::to_string(i));
  }
  const Json wheel = Json::parse(daemon.get("/v1/wheel").body);
  int filed = 0;
  for (const Json& level : wheel.at("levels")) {
    EXPECT_EQ(level.at("slots").size(), 30U);
    for (const Json& count : level.at("slots"))
      filed += count.get<int>();
  }
  EXPECT_GE(filed, 20);
  EXPECT_LE(filed, 20 + 2 * 2) << "beside the sessions only timers of the shards' own";
  EXPECT_EQ(wheel.at("shards").size(), 2U);
}

// --- Hold, drain and reload ---------------------------------------------------------------------

TEST(HoldTest, HeldUserStaysOnlineAndGoesWithTheTimeThatWasLeft) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=3s"}});
  Client client(daemon.port());
  client.login("alice");
  ASSERT_EQ(daemon.post("/v1/users/alice:hold").status, 200);
  EXPECT_TRUE(explain(daemon, "alice").at("hold").is_object());
  EXPECT_TRUE(eventually([&] { return daemon.metric("pulsewheel_users_held") == 1; }));
  Client other(daemon.port());
  other.login("bob");  // who shows that a timeout has passed
  ASSERT_TRUE(eventually([&] { return explain(daemon, "bob").at("state") == "offline"; }));
  Json answer = explain(daemon, "alice");
  EXPECT_EQ(answer.at("state"), "online");
  EXPECT_GT(answer.at("sessions").at(0).at("remaining_ms"), 0);
  EXPECT_GT(answer.at("sessions").at(0).at("packet_age_ms"), 3'000);
  ASSERT_EQ(daemon.post("/v1/users/alice:release").status, 200);
  ASSERT_TRUE(eventually([&] { return explain(daemon, "alice").at("state") == "offline"; }));
  EXPECT_THAT(explain(daemon, "alice").at("summary").get<std::string>(), HasSubstr("no packet"));
  EXPECT_TRUE(eventually([&] { return daemon.metric("pulsewheel_users_held") == 0; }));
}

TEST(HoldTest, LingeringUserIsHeldToo) {
  const Daemon daemon({.sets = {"presence.timeout=2s"}});
  Client client(daemon.port());
  client.login("alice");
  client.close();
  ASSERT_EQ(daemon.post("/v1/users/alice:hold", R"({"for_ms": 6000})").status, 200);
  Client other(daemon.port());
  other.login("bob");
  ASSERT_TRUE(eventually([&] { return explain(daemon, "bob").at("state") == "offline"; }));
  EXPECT_EQ(explain(daemon, "alice").at("state"), "online");
  ASSERT_TRUE(eventually([&] { return explain(daemon, "alice").at("state") == "offline"; }))
      << "a forgotten hold ends by itself";
}

TEST(HoldTest, KickEndsAHeldUser) {
  const Daemon daemon;
  Client client(daemon.port());
  client.login("alice");
  ASSERT_EQ(daemon.post("/v1/users/alice:hold").status, 200);
  EXPECT_EQ(daemon.post("/v1/users/alice:kick").status, 200);
  EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kKicked);
  EXPECT_EQ(daemon.post("/v1/users/alice:release").status, 404);
}

TEST(DrainTest, AnswersAndThenStopsInOrder) {
  Daemon daemon;
  Client client(daemon.port());
  client.login("alice");
  const auto answer = daemon.post("/v1/drain");
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(Json::parse(answer.body), Json({{"connections", 1}, {"window_ms", 200}}));
  EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kDraining);
  EXPECT_EQ(daemon.wait(), 0);
}

TEST(DrainTest, AnswersAlsoWhereNobodyIsConnected) {
  Daemon daemon;
  EXPECT_EQ(daemon.post("/v1/drain").status, 202);
  EXPECT_EQ(daemon.wait(), 0);
}

TEST(ReloadTest, AnswersWithWhatHasChangedOrIsWrong) {
  Daemon daemon({.config = std::string(Daemon::kQuickConfig) + "presence.timeout = \"1s\"\n"});
  write_file(daemon.config_file(),
             std::string(Daemon::kQuickConfig) + "presence.timeout = \"2s\"\nserver.shards = 7\n");
  const auto changed = daemon.post("/v1/reload");
  EXPECT_EQ(changed.status, 200) << changed.body;
  const Json body = Json::parse(changed.body);
  ASSERT_EQ(body.at("changed").size(), 1U) << changed.body;
  EXPECT_EQ(body.at("changed").at(0).at("key"), "presence.timeout");
  ASSERT_EQ(body.at("needs_restart").size(), 1U);
  EXPECT_EQ(body.at("needs_restart").at(0).at("key"), "server.shards");
  write_file(daemon.config_file(), "presence.timeoot = \"2s\"\n");
  const auto wrong = daemon.post("/v1/reload");
  EXPECT_EQ(wrong.status, 422);
  EXPECT_THAT(wrong.body, HasSubstr("presence.timeoot"));
  EXPECT_EQ(daemon.metric("pulsewheel_config_last_reload_successful"), 0);
}

}  // namespace
}  // namespace pulsewheel::test

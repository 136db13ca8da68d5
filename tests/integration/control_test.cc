// What an operator can do to a running daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json user_of(const Daemon& daemon, const std::string& uid) {
  return Json::parse(daemon.get("/v1/users/" + uid).body);
}

// --- Kick ---------------------------------------------------------------------------------------

TEST(KickTest, EndsAllSessionsOnAllShardsWithOneEdge) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  std::vector<Client> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("alice");
  }
  const auto answer = daemon.post("/v1/users/alice:kick");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Json::parse(answer.body), Json({{"uid", "alice"}, {"kicked_sessions", 8}}));
  for (Client& client : clients) {
    EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kKicked);
    EXPECT_TRUE(client.at_end());
  }
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "offline");
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "kicked");
}

TEST(KickTest, EndsALingeringUserAtOnce) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice");
  client.close();
  ASSERT_TRUE(eventually([&] {
    const Json sessions = user_of(daemon, "alice").at("sessions");
    return sessions.size() == 1 && sessions[0].at("lingering") == true;
  }));
  const auto answer = daemon.post("/v1/users/alice:kick");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Json::parse(answer.body).at("kicked_sessions"), 0);
  EXPECT_EQ(daemon.wait_for_edges(2).at(1).at("reason"), "kicked");
}

TEST(KickTest, IsNoBan) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client first(daemon.port());
  first.login("alice");
  ASSERT_EQ(daemon.post("/v1/users/alice:kick").status, 200);
  Client second(daemon.port());
  second.login("alice");
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
  EXPECT_EQ(daemon.wait_for_edges(3).size(), 3U);
}

TEST(KickTest, OfAUserWhoIsNotOnlineIs404) {
  const Daemon daemon;
  const auto answer = daemon.post("/v1/users/nobody:kick");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(Json::parse(answer.body).at("error").at("code"), "not_online");
}

TEST(KickTest, WorksFromTheCommandLine) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice");
  const std::string url = "http://127.0.0.1:" + std::to_string(daemon.http_port());
  const Ended kick = run_program({PULSEWHEELCTL_PATH, "--url", url, "kick", "alice"});
  EXPECT_EQ(kick.exit_code, 0);
  EXPECT_THAT(kick.log, HasSubstr("sessions closed: 1"));
  EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kKicked);
  EXPECT_EQ(run_program({PULSEWHEELCTL_PATH, "--url", url, "kick", "alice"}).exit_code, 1);
}

// --- What is remembered -------------------------------------------------------------------------

TEST(RetentionTest, ForgetsAUserWhoseLingerRanOut) {
  const Daemon daemon({.sets = {"presence.timeout=200ms", "presence.offline_retention=300ms"}});
  Client client(daemon.port());
  client.login("alice");
  client.close();
  ASSERT_EQ(daemon.wait_for_edges(2).size(), 2U);
  EXPECT_TRUE(eventually([&] {
    return Json::parse(daemon.get("/v1/status").body).at("users").at("offline_remembered") == 0;
  }));
}

}  // namespace
}  // namespace pulsewheel::test

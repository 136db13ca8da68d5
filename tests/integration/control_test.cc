// What an operator can do to a running daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json user_of(const Daemon& daemon, const std::string& uid) {
  return Json::parse(daemon.get("/v1/users/" + uid).body);
}

std::int64_t unix_ms() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
}

/// The log has a thread of its own.
bool will_log(const Daemon& daemon, const std::string& text) {
  return eventually([&] { return daemon.log().find(text) != std::string::npos; });
}

/// The daemon maps its monotonic clock anew for each answer, and cuts to milliseconds.
constexpr std::int64_t kClockSlackMs = 2;

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

TEST(KickTest, TellsTheLastPacketAndNotTheLogin) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client client(daemon.port());
  client.login("alice");
  const std::int64_t login_ms = user_of(daemon, "alice").at("since_ms");
  ASSERT_TRUE(eventually([&] { return unix_ms() > login_ms + 5; }));
  const std::int64_t before_keepalive_ms = unix_ms();
  client.send_keepalive();
  static_cast<void>(client.expect(proto::FrameType::kKeepaliveAck));
  ASSERT_EQ(daemon.post("/v1/users/alice:kick").status, 200);
  EXPECT_GE(user_of(daemon, "alice").at("last_seen_ms"), before_keepalive_ms - kClockSlackMs);
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

// --- Start --------------------------------------------------------------------------------------

TEST(StartTest, SaysEverythingHoweverManyLinesThatTakes) {
  std::string config = Daemon::kQuickConfig;
  for (int i = 0; i < 12; ++i)
    config += "[[listener]]\naddress = \"127.0.0.1\"\nport = 0\n";
  const Daemon daemon({.config = config});
  // The last line of a start: behind it come only warnings.
  EXPECT_TRUE(eventually([&] { return daemon.log().find("HTTP: http://") != std::string::npos; }))
      << daemon.log();
}

TEST(StartTest, ClosedStandardStreamsAreGivenToNobodyElse) {
  const Daemon daemon({.in_child = [] {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::close(stream);
  }});
  const std::string folder = "/proc/" + std::to_string(daemon.pid()) + "/fd/";
  for (const char* stream : {"0", "1", "2"})
    EXPECT_EQ(std::filesystem::read_symlink(folder + stream).string(), "/dev/null") << stream;
}

// --- Reload -------------------------------------------------------------------------------------

/// The text of a file with kQuickConfig and more lines.
std::string with(const std::string& lines) {
  return Daemon::kQuickConfig + lines;
}

bool last_reload_was_successful(const Daemon& daemon) {
  return daemon.metric("pulsewheel_config_last_reload_successful ") == 1;
}

proto::Settings expect_settings(Client& client) {
  const Received frame = client.expect(proto::FrameType::kSettings);
  proto::Settings settings;
  EXPECT_EQ(proto::decode_settings(frame.payload, settings), proto::ErrorCode::kNone);
  return settings;
}

TEST(ReloadTest, TellsEverySessionItsNewTimeout) {
  constexpr std::size_t kClients = 600;  // more than two steps
  const Daemon daemon(
      {.sets = {"server.shards=1"}, .config = with("presence.timeout = \"60s\"\n")});
  std::vector<Client> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("user-" + std::to_string(i));
  }
  ASSERT_TRUE(daemon.reload(with("presence.timeout = \"45s\"\n")));
  for (Client& client : clients) {
    const auto settings = expect_settings(client);
    EXPECT_EQ(settings.timeout_ms, 45'000U);
    EXPECT_LE(settings.interval_ms, 30'000U);
  }
  const Json session = user_of(daemon, "user-0").at("sessions").at(0);
  EXPECT_EQ(session.at("timeout_ms"), 45'000);
}

TEST(ReloadTest, AShorterTimeoutCountsFromTheReload) {
  const Daemon daemon({.config = with("presence.timeout = \"60s\"\n")});
  Client client(daemon.port());
  client.login("alice");
  ASSERT_TRUE(daemon.reload(with("presence.timeout = \"300ms\"\n")));
  EXPECT_EQ(expect_settings(client).timeout_ms, 300U);
  EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kTimeout);
  EXPECT_EQ(daemon.wait_for_edges(2).at(1).at("reason"), "timeout");
}

TEST(ReloadTest, AWishIsClampedAnew) {
  const Daemon daemon({.config = with("presence.timeout = \"10s\"\n")});
  Client client(daemon.port());
  EXPECT_EQ(client.login("alice", "", 20'000).timeout_ms, 30'000U);
  ASSERT_TRUE(daemon.reload(with("presence.timeout = \"10s\"\npresence.timeout_max = \"15s\"\n")));
  EXPECT_EQ(expect_settings(client).timeout_ms, 15'000U);
}

TEST(ReloadTest, NewSessionsGetTheNewValues) {
  const Daemon daemon({.config = with("presence.timeout = \"60s\"\n")});
  ASSERT_TRUE(
      daemon.reload(with("presence.timeout = \"20s\"\npresence.on_disconnect = \"offline\"\n")));
  Client client(daemon.port());
  EXPECT_EQ(client.login("alice").timeout_ms, 20'000U);
  client.close();
  const auto edges = daemon.wait_for_edges(2);
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].at("reason"), "disconnect");
}

TEST(ReloadTest, LimitsHoldForWhatIsConnected) {
  const Daemon daemon({.config = with("")});
  Client client(daemon.port());
  client.login("alice");
  client.send_message(1, std::string(100, 'x'));
  static_cast<void>(client.expect(proto::FrameType::kMessageAck));
  ASSERT_TRUE(
      daemon.reload(with("server.payload_before_login_max = \"64B\"\n"
                         "server.payload_after_login_max = \"64B\"\n"
                         "presence.sessions_per_user_max = 1\n")));
  Client second(daemon.port());
  second.send_login("alice");
  EXPECT_EQ(second.expect_error(), proto::ErrorCode::kTooManySessions);
  client.send_message(2, std::string(100, 'x'));
  EXPECT_EQ(client.expect_error(), proto::ErrorCode::kPayloadTooLong);
}

TEST(ReloadTest, KeysThatTakeARestartStayAndAreNamed) {
  const Daemon daemon({.config = with("server.shards = 1\npresence.timeout = \"60s\"\n")});
  ASSERT_TRUE(
      daemon.reload(with("server.shards = 2\npresence.timeout = \"45s\"\n"
                         "listener = [{port = 0}, {port = 0}]\n")));
  EXPECT_TRUE(will_log(daemon, "configuration reloaded"));
  const std::string log = daemon.log();
  EXPECT_THAT(log, HasSubstr("server.shards: 1 stays, 2 takes a restart"));
  EXPECT_THAT(log, HasSubstr("listener: 1 stays, 2 takes a restart"));
  EXPECT_THAT(log, HasSubstr("presence.timeout: \"1m\" is now \"45s\""));
  EXPECT_TRUE(last_reload_was_successful(daemon));
  EXPECT_EQ(Json::parse(daemon.get("/v1/status").body).at("shards"), 1);
  // What waits for a restart is told again, until it has been restarted or taken back.
  ASSERT_TRUE(daemon.reload(with("server.shards = 1\npresence.timeout = \"45s\"\n")));
  EXPECT_TRUE(will_log(daemon, "keys changed: 0, waiting for a restart: 0"));
}

TEST(ReloadTest, AWrongFileChangesNothingAndIsExplained) {
  const Daemon daemon({.config = with("presence.timeout = \"60s\"\n")});
  Client client(daemon.port());
  client.login("alice");
  struct Case {
    const char* lines;  // behind the three of kQuickConfig
    const char* said;
  };
  const Case cases[] = {
      {"presence.timeout = \n", "pulsewheel.toml:4:"},
      {"presence.timeout = \"45s\"\npresence.tiemout = \"45s\"\n", "presence.tiemout"},
      {"presence.timeout = \"45s\"\nserver.accept_burst = 0\n",
       "pulsewheel.toml:5: server.accept_burst"},
      {"presence.timeout = 45\n", "pulsewheel.toml:4: presence.timeout"},
      {"presence.timeout = \"45s\"\npresence.timeout_max = \"44s\"\n", "must not be greater"},
  };
  for (const Case& wrong : cases) {
    EXPECT_FALSE(daemon.reload(with(wrong.lines))) << wrong.lines;
    EXPECT_FALSE(last_reload_was_successful(daemon));
    EXPECT_TRUE(will_log(daemon, wrong.said)) << daemon.log();
    Client newcomer(daemon.port());
    EXPECT_EQ(newcomer.login("bob").timeout_ms, 60'000U);
  }
  client.send_keepalive();
  static_cast<void>(client.expect(proto::FrameType::kKeepaliveAck));  // and no SETTINGS before it
  ASSERT_TRUE(daemon.reload(with("presence.timeout = \"45s\"\n")));
  EXPECT_TRUE(last_reload_was_successful(daemon));
  EXPECT_EQ(expect_settings(client).timeout_ms, 45'000U);
}

TEST(ReloadTest, AFileThatCannotBeReadChangesNothing) {
  const Daemon daemon({.config = with("")});
  std::filesystem::remove(daemon.config_file());
  daemon.signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return !last_reload_was_successful(daemon); }));
  EXPECT_TRUE(will_log(daemon, daemon.config_file() + ": cannot open")) << daemon.log();
  ASSERT_TRUE(daemon.reload(with("")));
}

TEST(ReloadTest, TellsMoreProblemsThanALogMayHaveLinesASecond) {
  const Daemon daemon({.config = with("log.rate_limit = 2\n")});
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += "presence.key" + std::to_string(i) + " = 1\n";
  EXPECT_FALSE(daemon.reload(with(lines)));
  EXPECT_TRUE(will_log(daemon, "not reloaded"));
  EXPECT_THAT(daemon.log(), HasSubstr("pulsewheel.toml:4:"));
  EXPECT_THAT(daemon.log(), HasSubstr("pulsewheel.toml:15:"));
}

TEST(ReloadTest, ChangesWhatIsLogged) {
  const Daemon daemon({.config = with("")});
  ASSERT_TRUE(daemon.reload(with("log.level = \"error\"\n")));
  ASSERT_TRUE(daemon.reload(with("log.level = \"error\"\npresence.timeout = \"44s\"\n")));
  ASSERT_TRUE(daemon.reload(with("log.level = \"info\"\n")));  // itself said at the old level
  ASSERT_TRUE(daemon.reload(with("log.level = \"info\"\npresence.timeout = \"33s\"\n")));
  ASSERT_TRUE(will_log(daemon, "33s"));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("44s")));
}

TEST(ReloadTest, ADrainTakesTheNewWindow) {
  Daemon daemon({.config = with("drain.window = \"10m\"\n")});
  std::vector<Client> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(daemon.port());
    clients.back().login("user-" + std::to_string(i));
  }
  ASSERT_TRUE(daemon.reload(with("drain.window = \"0s\"\ndrain.retry_after = \"7s\"\n")));
  daemon.signal(SIGTERM);
  for (Client& client : clients) {
    EXPECT_GE(client.expect_goaway().retry_after_ms, 7'000U);
    client.close();
  }
  EXPECT_EQ(daemon.wait(), 0);  // long before the old window is over, or ctest ends the test
}

TEST(ReloadTest, TheEventLogTakesTheNewRotation) {
  const Daemon daemon({.config = with("")});
  ASSERT_TRUE(daemon.reload(with("events.rotate_size = \"4KiB\"\nevents.rotate_keep = 1\n")));
  for (int i = 0; i < 60; ++i) {
    Client client(daemon.port());
    client.login("user-" + std::to_string(i));
  }
  EXPECT_TRUE(
      eventually([&] { return std::filesystem::exists(daemon.state_dir() + "/events.jsonl.1"); }));
}

TEST(ReloadTest, IsRefusedWhileStopping) {
  const Daemon daemon({.config = with("drain.window = \"10m\"\n")});
  Client client(daemon.port());
  client.login("alice");
  daemon.signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return daemon.get("/readyz").status == 503; }));
  daemon.signal(SIGHUP);
  EXPECT_TRUE(will_log(daemon, "HUP while stopping"));
}

/// The smallest limit under which this process can open nothing: below it every number is in use.
rlim_t exhausting_limit(pid_t pid) {
  rlim_t limit = 0;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  while (std::filesystem::is_symlink(folder + std::to_string(limit)))
    ++limit;
  return limit;
}

class ReloadWithoutDescriptorsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ReloadWithoutDescriptorsTest, Works) {
  const Daemon daemon({.sets = {"server.shards=2", std::string("server.fd_tables=") + GetParam()},
                       .config = with("presence.timeout = \"60s\"\n")});
  Client client(daemon.port());
  client.login("alice");
  rlimit limit{};
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  const rlimit none{exhausting_limit(daemon.pid()), limit.rlim_max};
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  for (const char* timeout : {"45s", "50s"}) {  // twice: the reserve is there again
    write_file(daemon.config_file(), with(std::string("presence.timeout = \"") + timeout + "\"\n"));
    daemon.signal(SIGHUP);
    EXPECT_EQ(expect_settings(client).timeout_ms,
              timeout == std::string("45s") ? 45'000U : 50'000U);
  }
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  EXPECT_TRUE(eventually([&] { return last_reload_was_successful(daemon); }));
}

INSTANTIATE_TEST_SUITE_P(Tables, ReloadWithoutDescriptorsTest,
                         ::testing::Values("shared", "per-shard"), [](const auto& test) {
                           return std::string(test.param) == "shared" ? "Shared" : "PerShard";
                         });

// --- What is remembered -------------------------------------------------------------------------

/// Whether `ms`, a time that the daemon told, lies between two that this process read.
::testing::AssertionResult within(const Json& ms, std::int64_t from, std::int64_t to) {
  if (!ms.is_number()) return ::testing::AssertionFailure() << ms << " is no time";
  const auto at = ms.get<std::int64_t>();
  if (at >= from - kClockSlackMs && at <= to + kClockSlackMs) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << at << " is not in [" << from << ", " << to << "]";
}

TEST(RememberedTest, SinceIsThatOfTheStateAcrossSessions) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  const std::int64_t start = unix_ms();
  std::vector<Client> clients;
  clients.emplace_back(daemon.port());
  clients.back().login("alice", "phone");
  const std::int64_t first_login = unix_ms();
  const Json since = user_of(daemon, "alice").at("since_ms");
  EXPECT_TRUE(within(since, start, first_login));
  ASSERT_TRUE(eventually([&] { return unix_ms() > first_login + 10; }));
  for (const char* device : {"phone", "tablet", ""}) {  // a takeover, and two beside it
    clients.emplace_back(daemon.port());
    clients.back().login("alice", device);
    EXPECT_TRUE(within(user_of(daemon, "alice").at("since_ms"), since, since));
  }
  for (Client& client : clients)
    client.close();
  ASSERT_TRUE(eventually([&] {
    const Json user = user_of(daemon, "alice");
    for (const Json& session : user.at("sessions"))
      if (session.at("lingering") == false) return false;
    return true;
  }));
  EXPECT_TRUE(within(user_of(daemon, "alice").at("since_ms"), since, since));
  Client back(daemon.port());
  back.login("alice", "phone");
  EXPECT_TRUE(within(user_of(daemon, "alice").at("since_ms"), since, since));
  EXPECT_EQ(daemon.wait_for_edges(1).size(), 1U);
}

TEST(RememberedTest, LastSeenIsTheNewestPacketOfAllSessions) {
  const Daemon daemon({.sets = {"server.shards=2", "presence.timeout=30s"}});
  Client idle(daemon.port());
  idle.login("alice", "tablet");
  Client busy(daemon.port());
  busy.login("alice", "phone");
  const std::int64_t logins = unix_ms();
  ASSERT_TRUE(eventually([&] { return unix_ms() > logins + 10; }));
  const std::int64_t before = unix_ms();
  busy.send_keepalive();
  static_cast<void>(busy.expect(proto::FrameType::kKeepaliveAck));
  EXPECT_TRUE(within(user_of(daemon, "alice").at("last_seen_ms"), before, unix_ms()));
  busy.send_logout();  // and the newest is that of a session which is gone
  static_cast<void>(busy.expect(proto::FrameType::kLogoutAck));
  ASSERT_TRUE(eventually([&] { return user_of(daemon, "alice").at("sessions").size() == 1; }));
  EXPECT_TRUE(within(user_of(daemon, "alice").at("last_seen_ms"), before, unix_ms()));
}

TEST(RememberedTest, AnOfflineUserHasTheTimeOfTheEdgeAndOfTheLastPacket) {
  const Daemon daemon({.sets = {"presence.timeout=300ms"}});
  const std::int64_t start = unix_ms();
  Client client(daemon.port());
  client.login("alice");
  const std::int64_t login = unix_ms();
  ASSERT_EQ(daemon.wait_for_edges(2).size(), 2U);
  const Json user = user_of(daemon, "alice");
  EXPECT_EQ(user.at("state"), "offline");
  EXPECT_TRUE(within(user.at("last_seen_ms"), start, login));
  EXPECT_TRUE(within(user.at("since_ms"), start + 300, unix_ms()));
  EXPECT_TRUE(user.at("sessions").empty());

  const std::int64_t before_return = unix_ms();
  Client back(daemon.port());
  back.login("alice", {}, 20'000);  // stays as long as she is looked at
  const Json returned = user_of(daemon, "alice");
  EXPECT_EQ(returned.at("state"), "online");
  EXPECT_TRUE(within(returned.at("since_ms"), before_return, unix_ms()));
  EXPECT_TRUE(within(returned.at("last_seen_ms"), before_return, unix_ms()));
}

TEST(RememberedTest, BehindTheRetentionAUserIsOfflineAndNothingElse) {
  const Daemon daemon({.sets = {"presence.timeout=200ms", "presence.offline_retention=300ms"}});
  Client client(daemon.port());
  client.login("alice");
  client.close();
  ASSERT_EQ(daemon.wait_for_edges(2).size(), 2U);
  ASSERT_TRUE(eventually([&] { return user_of(daemon, "alice").at("since_ms").is_null(); }));
  const Json user = user_of(daemon, "alice");
  EXPECT_EQ(user.at("state"), "offline");
  EXPECT_TRUE(user.at("last_seen_ms").is_null());
  EXPECT_TRUE(eventually([&] {
    return Json::parse(daemon.get("/v1/status").body).at("users").at("offline_remembered") == 0;
  }));
}

// --- What nobody can tell -----------------------------------------------------------------------

double grace_left(const Daemon& daemon) {
  return Json::parse(daemon.get("/v1/status").body).at("restart_grace_s");
}

TEST(RestartGraceTest, BehindAKillAUidWithoutARecordIsUnknown) {
  const TemporaryFolder folder;
  { const Daemon killed({.state_dir = folder.path()}); }
  const Daemon daemon({.sets = {"restart.grace=60s"}, .state_dir = folder.path()});
  const Json nobody = user_of(daemon, "nobody");
  EXPECT_EQ(nobody.at("state"), "unknown");
  EXPECT_TRUE(nobody.at("since_ms").is_null());
  EXPECT_GT(grace_left(daemon), 0);
  EXPECT_LE(grace_left(daemon), 60);
  Client client(daemon.port());
  client.login("alice");
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
  client.send_logout();
  static_cast<void>(client.expect(proto::FrameType::kLogoutAck));
  EXPECT_TRUE(eventually([&] { return user_of(daemon, "alice").at("state") == "offline"; }));
}

TEST(RestartGraceTest, WhenTheGraceIsOverAUidWithoutARecordIsOffline) {
  const TemporaryFolder folder;
  { const Daemon killed({.state_dir = folder.path()}); }
  const Daemon daemon({.sets = {"restart.grace=1s"}, .state_dir = folder.path()});
  EXPECT_TRUE(eventually([&] { return user_of(daemon, "nobody").at("state") == "offline"; }));
  EXPECT_EQ(grace_left(daemon), 0);
}

TEST(RestartGraceTest, TheFirstStartHasNone) {
  const Daemon daemon;
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "offline");
  EXPECT_EQ(grace_left(daemon), 0);
}

TEST(RestartGraceTest, BehindAStopThereIsNone) {
  const TemporaryFolder folder;
  {
    Daemon stopped({.state_dir = folder.path()});
    stopped.signal(SIGTERM);
    ASSERT_EQ(stopped.wait(), 0);
  }
  const Daemon daemon({.state_dir = folder.path()});
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "offline");
}

TEST(RestartGraceTest, BehindAStopInAHurryThereIsNone) {
  const TemporaryFolder folder;
  {
    Daemon stopped({.sets = {"drain.window=10m"}, .state_dir = folder.path()});
    Client client(stopped.port());
    client.login("alice");
    stopped.signal(SIGTERM);
    ASSERT_TRUE(eventually([&] { return stopped.get("/readyz").status == 503; }));
    stopped.signal(SIGTERM);
    ASSERT_EQ(stopped.wait(), 0);
  }
  const Daemon daemon({.state_dir = folder.path()});
  EXPECT_EQ(user_of(daemon, "alice").at("state"), "online");
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "offline");
}

TEST(RestartGraceTest, AStartThatFailsLeavesThingsAsTheyWere) {
  const Daemon other;
  const std::string taken = "listener.0.port=" + std::to_string(other.port());
  const TemporaryFolder folder;
  ASSERT_EQ(Daemon::run_to_end({.sets = {taken}, .state_dir = folder.path()}).exit_code, 69);
  { const Daemon killed({.state_dir = folder.path()}); }
  ASSERT_EQ(Daemon::run_to_end({.sets = {taken}, .state_dir = folder.path()}).exit_code, 69);
  const Daemon daemon({.state_dir = folder.path()});
  EXPECT_EQ(user_of(daemon, "nobody").at("state"), "unknown");
  EXPECT_EQ(Json::parse(daemon.get("/v1/status").body).at("epoch"), 4);
}

}  // namespace
}  // namespace pulsewheel::test

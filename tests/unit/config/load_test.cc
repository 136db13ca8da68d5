// What is loaded, from where, and which source wins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.h"
#include "tests/unit/config/config_testing.h"

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::SizeIs;

using Listener = Config::Listener;

TEST(ConfigDefaultsTest, AreWhatNothingLoads) {
  EXPECT_EQ(load_config({}), Config{});
}

TEST(ConfigDefaultsTest, AreThoseOfTheManual) {
  const Config config = load_config({});
  EXPECT_EQ(config.server.max_connections, 100'000U);
  EXPECT_EQ(config.server.state_dir, "/var/lib/pulsewheel");
  EXPECT_EQ(config.presence.tick, seconds{1});
  EXPECT_EQ(config.presence.timeout, seconds{30});
  EXPECT_EQ(config.presence.on_disconnect, Config::Presence::OnDisconnect::kLinger);
  EXPECT_EQ(config.http.address, "127.0.0.1");
  EXPECT_EQ(config.http.port, 7'601);
  EXPECT_THAT(config.listeners, ElementsAre(Listener{"*", 7'600, Listener::Protocol::kNative}));
}

TEST(ConfigDefaultsTest, PutTheEventLogIntoTheStateFolder) {
  Config config;
  EXPECT_EQ(event_log_path(config), "/var/lib/pulsewheel/events.jsonl");
  config.server.state_dir = "/srv/state";
  EXPECT_EQ(event_log_path(config), "/srv/state/events.jsonl");
  config.events.path = "/srv/online.txt";
  EXPECT_EQ(event_log_path(config), "/srv/online.txt");
  config.events.enabled = false;
  EXPECT_EQ(event_log_path(config), "");
}

TEST(ConfigDefaultsTest, BoundOnlineUsersByTwiceTheConnections) {
  Config config;
  config.server.max_connections = 4'000'000'000U;
  EXPECT_EQ(presence_users_max(config), 8'000'000'000U);
  config.presence.users_max = 7;
  EXPECT_EQ(presence_users_max(config), 7U);
}

TEST(ConfigFileTest, SetsKeysOfEveryType) {
  const Config config = load_text(R"(
[server]
shards = 3
fd_tables = "per-shard"
backlog_bytes_max = "64KiB"
payload_after_login_max = 65535
state_dir = "/tmp/ü"
[http]
enabled = false
[presence]
timeout = "1m30s"
on_disconnect = 'offline'
)");
  EXPECT_EQ(config.server.shards, 3U);
  EXPECT_EQ(config.server.fd_tables, Config::Server::FdTables::kPerShard);
  EXPECT_EQ(config.server.backlog_bytes_max, 65'536U);
  EXPECT_EQ(config.server.payload_after_login_max, 65'535U);
  EXPECT_EQ(config.server.state_dir, "/tmp/ü");
  EXPECT_FALSE(config.http.enabled);
  EXPECT_EQ(config.presence.timeout, seconds{90});
  EXPECT_EQ(config.presence.on_disconnect, Config::Presence::OnDisconnect::kOffline);
}

TEST(ConfigFileTest, TakesDottedKeysAndInlineTables) {
  EXPECT_EQ(load_text("presence.tick = \"100ms\"").presence.tick, milliseconds{100});
  EXPECT_EQ(load_text("presence = { tick = \"100ms\" }").presence.tick, milliseconds{100});
}

TEST(ConfigFileTest, AnEmptyTableChangesNothing) {
  EXPECT_EQ(load_text("[server]\n[presence]\n"), Config{});
}

TEST(ConfigFileTest, ListenersReplaceTheDefaultOne) {
  const Config config = load_text(R"(
[[listener]]
address = "127.0.0.1"
port = 0
[[listener]]
address = "::1"
[[listener]]
port = 7602
)");
  EXPECT_THAT(config.listeners, ElementsAre(Listener{"127.0.0.1", 0, {}},
                                            Listener{"::1", 7'600, {}}, Listener{"*", 7'602, {}}));
}

TEST(ConfigFileTest, AnEmptyListenerIsADefaultOne) {
  EXPECT_THAT(load_text("[[listener]]\nport = 1\n[[listener]]\n").listeners,
              ElementsAre(Listener{"*", 1, {}}, Listener{}));
}

TEST(ConfigFileTest, TakesSixteenListenersAndNoMore) {
  std::string text;
  for (std::size_t i = 0; i < Config::kListenersMax; ++i)
    text += "[[listener]]\nport = 0\n";
  EXPECT_THAT(load_text(text).listeners, SizeIs(16));
  EXPECT_THAT(problems_of_text(text + "[[listener]]\nport = 0\n"),
              ElementsAre("test.toml:33: more than 16 listeners"));
}

TEST(ConfigSetTest, TakesTomlValuesAndBareText) {
  EXPECT_EQ(load_sets({"presence.tick=100ms"}).presence.tick, milliseconds{100});
  EXPECT_EQ(load_sets({"presence.tick=\"100ms\""}).presence.tick, milliseconds{100});
  EXPECT_EQ(load_sets({" presence.tick = 100ms "}).presence.tick, milliseconds{100});
  EXPECT_FALSE(load_sets({"http.enabled=false"}).http.enabled);
  EXPECT_EQ(load_sets({"server.shards=0x10"}).server.shards, 16U);
  EXPECT_EQ(load_sets({"server.backlog_bytes_max=32768"}).server.backlog_bytes_max, 32'768U);
  EXPECT_EQ(load_sets({"server.backlog_bytes_max=32KiB"}).server.backlog_bytes_max, 32'768U);
}

TEST(ConfigSetTest, BareTextForAStringIsNeverTakenForAnotherType) {
  for (const char* text : {"2024", "true", "1.5", "[x]", "a = b", "/a b", "\"unfinished", "#x"}) {
    EXPECT_EQ(load_sets({std::string{"events.path="} + text}).events.path, text);
  }
  EXPECT_EQ(load_sets({"events.path="}).events.path, "");
  EXPECT_EQ(load_sets({"events.path=\"a\\u0020b\""}).events.path, "a b");
}

TEST(ConfigSetTest, ReachesAListenerByItsNumberAndAddsTheNext) {
  const Config config = load_sets(
      {"listener.0.port=0", "listener.1.address=::1", "listener.1.port=9000", "listener.2.port=0"});
  EXPECT_THAT(config.listeners,
              ElementsAre(Listener{"*", 0, {}}, Listener{"::1", 9'000, {}}, Listener{"*", 0, {}}));
}

TEST(ConfigSetTest, TheLastOneWins) {
  EXPECT_EQ(load_sets({"server.shards=1", "server.shards=2"}).server.shards, 2U);
}

TEST(ConfigEnvironmentTest, NamesKeysWithUnderscores) {
  const Config config = load_env({{"PULSEWHEEL_PRESENCE_TICK", "100ms"},
                                  {"PULSEWHEEL_SERVER_MAX_CONNECTIONS", "5"},
                                  {"PULSEWHEEL_LISTENER_0_ADDRESS", "127.0.0.1"}});
  EXPECT_EQ(config.presence.tick, milliseconds{100});
  EXPECT_EQ(config.server.max_connections, 5U);
  EXPECT_EQ(config.listeners.at(0).address, "127.0.0.1");
}

TEST(ConfigEnvironmentTest, AddsListenersInWhateverOrderItIsGiven) {
  Environment env;
  for (int i = 11; i >= 0; --i) {
    env.emplace_back("PULSEWHEEL_LISTENER_" + std::to_string(i) + "_PORT", std::to_string(100 + i));
  }
  const Config config = load_env(env);
  ASSERT_THAT(config.listeners, SizeIs(12));
  EXPECT_EQ(config.listeners[2].port, 102);
  EXPECT_EQ(config.listeners[11].port, 111);
}

TEST(ConfigEnvironmentTest, LeavesVariablesOfOthersAlone) {
  EXPECT_EQ(
      load_env({{"PATH", "/bin"},
                {"PULSEWHEEL_CONFIG", "/etc/x.toml"},
                {"PULSEWHEEL_URL", "http://127.0.0.1:7601"},  // for pulsewheelctl, as the next two
                {"PULSEWHEEL_TOKEN_FILE", "/run/secrets/token"},
                {"PULSEWHEEL_UNIX_SOCKET", "/run/pulsewheel/http.sock"},
                {"PULSEWHEEL_TEST_SEED", "1"},
                {"PULSEWHEEL_MODEL_X", "1"},
                {"PULSEWHEEL_SERVICE_HOST", "10.0.0.1"},  // from Kubernetes, as the next two
                {"PULSEWHEEL_PORT", "tcp://10.0.0.1:7600"},
                {"PULSEWHEEL_PORT_7600_TCP", "tcp://10.0.0.1:7600"},
                {"pulsewheel_presence_tick", "100ms"}}),
      Config{});
}

TEST(ConfigEnvironmentTest, StateDirectoryIsADefaultThatAnythingOverrides) {
  const Environment systemd{{"STATE_DIRECTORY", "/var/lib/a:/var/lib/b"}};
  EXPECT_EQ(load_env(systemd).server.state_dir, "/var/lib/a");
  EXPECT_EQ(load_env({{"STATE_DIRECTORY", ""}}).server.state_dir, "/var/lib/pulsewheel");
  EXPECT_EQ(load_config_text("server.state_dir = \"/f\"", {"f", {}, systemd}).server.state_dir,
            "/f");
}

TEST(ConfigEnvironmentTest, OfTheProcessCanBeRead) {
  ASSERT_EQ(setenv("PULSEWHEEL_TEST_ENVIRONMENT", "a=b", 1), 0);
  EXPECT_THAT(read_environment(),
              testing::Contains(testing::Pair("PULSEWHEEL_TEST_ENVIRONMENT", "a=b")));
  unsetenv("PULSEWHEEL_TEST_ENVIRONMENT");
}

TEST(ConfigPrecedenceTest, SetOverEnvironmentOverFileOverDefault) {
  const std::string file = "server.shards = 1\nserver.accept_burst = 1\nserver.tcp_backlog = 1\n";
  const ConfigSource source{
      "f",
      {"server.shards=3"},
      {{"PULSEWHEEL_SERVER_SHARDS", "2"}, {"PULSEWHEEL_SERVER_ACCEPT_BURST", "2"}}};
  const Config config = load_config_text(file, source);
  EXPECT_EQ(config.server.shards, 3U);
  EXPECT_EQ(config.server.accept_burst, 2U);
  EXPECT_EQ(config.server.tcp_backlog, 1U);
  EXPECT_EQ(config.server.expiry_budget, Config{}.server.expiry_budget);
}

}  // namespace
}  // namespace pulsewheel

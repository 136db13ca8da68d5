// The table of keys against everything that is made from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "config/config.h"
#include "tests/unit/config/config_testing.h"

namespace pulsewheel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// For every key a value that is not its default, and that no check refuses.
const std::map<std::string, std::string>& other_values() {
  static const std::map<std::string, std::string> values{
      {"server.shards", "3"},
      {"server.max_connections", "1000"},
      {"server.fd_tables", "shared"},
      {"server.state_dir", "/srv/\"quoted\" \\ state"},
      {"server.login_timeout", "1m30s"},
      {"server.accept_burst", "1"},
      {"server.loop_handlers_max", "1"},
      {"server.expiry_budget", "1"},
      {"server.backlog_bytes_max", "1025B"},
      {"server.write_timeout", "1m"},
      {"server.payload_before_login_max", "4KiB"},
      {"server.payload_after_login_max", "65535"},
      {"server.ports_file", "/run/ports.json"},
      {"server.tcp_backlog", "128"},
      {"server.tcp_user_timeout", "10m"},
      {"server.tcp_keepalive_idle", "0s"},
      {"listener.0.address", "::1"},
      {"listener.0.port", "0"},
      {"http.enabled", "false"},
      {"http.address", "::1"},
      {"http.port", "0"},
      {"http.unix_socket", "/run/pulsewheel/http"},
      {"http.unix_socket_mode", "0600"},
      {"http.token_file", "/run/secrets/token"},
      {"http.connections_max", "1"},
      {"http.streams_max", "0"},
      {"http.event_ring", "100000"},
      {"presence.tick", "10ms"},
      {"presence.timeout", "45s"},
      {"presence.timeout_min", "1s"},
      {"presence.timeout_max", "1h"},
      {"presence.on_disconnect", "offline"},
      {"presence.offline_retention", "0s"},
      {"presence.offline_users_max", "0"},
      {"presence.sessions_per_user_max", "1"},
      {"presence.users_max", "9"},
      {"snapshot.enabled", "false"},
      {"snapshot.interval", "0s"},
      {"restart.grace", "0s"},
      {"drain.window", "0s"},
      {"drain.retry_after", "1s500ms"},
      {"events.enabled", "false"},
      {"events.path", "/srv/online.txt"},
      {"events.offline_path", "/srv/offline.txt"},
      {"events.rotate_size", "1GiB"},
      {"events.rotate_keep", "0"},
      {"events.queue_max", "1"},
      {"redis.mode", "mirror"},
      {"redis.url", "unix:///run/redis.sock"},
      {"redis.user", "pulsewheel"},
      {"redis.password_file", "/run/secrets/redis"},
      {"redis.password_env", "REDIS_PASSWORD"},
      {"redis.ca_file", "/etc/ca.pem"},
      {"redis.cert_file", "/etc/cert.pem"},
      {"redis.key_file", "/etc/key.pem"},
      {"redis.node", "eu-1"},
      {"redis.list_key", "ring"},
      {"redis.slot_prefix", "ring:"},
      {"redis.slots", "31"},
      {"redis.index_key", "ring-index"},
      {"redis.key_prefix", "{pw}:"},
      {"redis.stream_max", "1000"},
      {"redis.connect_timeout", "1s"},
      {"redis.command_timeout", "1s"},
      {"redis.batch_max", "1"},
      {"redis.queue_max", "1000"},
      {"redis.repair_rate", "100"},
      {"log.level", "error"},
      {"log.format", "json"},
      {"log.destination", "/var/log/pulsewheel.log"},
      {"log.rate_limit", "0"},
      {"log.stats_interval", "0s"},
  };
  return values;
}

/// Keys that have no second value yet.
bool has_one_value(const std::string& key) {
  return key == "listener.0.protocol";
}

/// As diff() and --set name it: the first element of an array.
std::string settable_name(std::string name) {
  if (const auto at = name.find(".N."); at != std::string::npos) name[at + 1] = '0';
  return name;
}

TEST(ConfigKeysTest, EachSetsPrintsAndDiffersByItselfAlone) {
  std::size_t tried = 0;
  for (const KeyInfo& key : config_keys()) {
    const std::string name = settable_name(key.name);
    if (has_one_value(name)) continue;
    ASSERT_TRUE(other_values().contains(name)) << name << ": add a value to this test";
    const Config config = load_sets({name + "=" + other_values().at(name)});
    EXPECT_NE(config, Config{}) << name;
    EXPECT_THAT(diff(Config{}, config), ElementsAre(name));
    EXPECT_EQ(load_text(print_config(config)), config) << print_config(config);
    ++tried;
  }
  EXPECT_EQ(tried, other_values().size());
}

TEST(ConfigKeysTest, AllTogetherPrintAndLoadBack) {
  std::vector<std::string> sets{"listener.1.port=9000", "listener.2.address=127.0.0.1"};
  for (const auto& [name, value] : other_values())
    sets.push_back(name + "=" + value);
  const Config config = load_sets(sets);
  EXPECT_EQ(load_text(print_config(config)), config) << print_config(config);
}

TEST(ConfigKeysTest, RangesEndWhereTheySay) {
  struct Range {
    const char* key;
    const char* below;  // empty: cannot be written
    const char* least;
    const char* greatest;
    const char* above;
  };
  const Range ranges[] = {
      {"server.shards", "-1", "0", "256", "257"},
      {"server.max_connections", "0", "1", "10000000", "10000001"},
      {"server.login_timeout", "99ms", "100ms", "10m", "10m1ns"},
      {"server.accept_burst", "0", "1", "4096", "4097"},
      {"server.loop_handlers_max", "0", "1", "1000000", "1000001"},
      {"server.expiry_budget", "0", "1", "1000000", "1000001"},
      {"server.backlog_bytes_max", "1023", "1KiB", "16MiB", "16777217B"},
      {"server.write_timeout", "99ms", "100ms", "10m", "10m1ns"},
      {"server.payload_before_login_max", "63", "64", "65535", "65536"},
      {"server.payload_after_login_max", "63", "64", "65535", "64KiB"},
      {"server.tcp_backlog", "0", "1", "65535", "65536"},
      {"server.tcp_user_timeout", "999ms", "4m", "24h", "24h1ns"},
      {"server.tcp_keepalive_idle", "999ms", "1s", "6m", "9h1ns"},
      {"listener.0.port", "-1", "0", "65535", "65536"},
      {"http.port", "-1", "0", "65535", "65536"},
      {"http.connections_max", "0", "1", "10000", "10001"},
      {"http.streams_max", "-1", "0", "100000", "100001"},
      {"http.event_ring", "1023", "1024", "10000000", "10000001"},
      {"presence.tick", "9999us", "10ms", "10s", "10s1ns"},
      {"presence.tick", "0s", "10ms", "10s", "10h"},
      {"presence.timeout", "99ms", "100ms", "24h", "24h1ns"},
      {"presence.timeout_min", "99ms", "100ms", "24h", "24h1ns"},
      {"presence.timeout_max", "99ms", "100ms", "24h", "24h1ns"},
      {"presence.offline_retention", "", "0s", "30d", "30d1ns"},
      {"presence.offline_users_max", "-1", "0", "100000000", "100000001"},
      {"presence.sessions_per_user_max", "0", "1", "1000", "1001"},
      {"presence.users_max", "-1", "0", "20000000", "20000001"},
      {"snapshot.interval", "99ms", "100ms", "24h", "24h1ns"},
      {"restart.grace", "", "0s", "24h", "24h1ns"},
      {"drain.window", "", "0s", "10m", "10m1ns"},
      {"drain.retry_after", "", "0s", "1h", "1h1ns"},
      {"events.rotate_size", "4095", "4KiB", "1TiB", "1099511627777B"},
      {"events.rotate_keep", "-1", "0", "100", "101"},
      {"events.queue_max", "0", "1", "100000000", "100000001"},
      {"log.rate_limit", "-1", "0", "1000000", "1000001"},
      {"log.stats_interval", "999ms", "1s", "24h", "24h1ns"},
      {"log.stats_interval", "1ns", "0s", "24h", "9223372036854775807ns"},
  };
  // Some of these values break a bound between keys: only the range is asked here.
  const auto in_range = [](const Range& range, const char* value) {
    const auto problems = problems_of_sets({std::string{range.key} + "=" + value});
    return problems.empty() || problems[0].find("out of range") == std::string::npos;
  };
  for (const Range& range : ranges) {
    EXPECT_TRUE(in_range(range, range.least)) << range.key;
    EXPECT_TRUE(in_range(range, range.greatest)) << range.key;
    EXPECT_FALSE(in_range(range, range.above)) << range.key;
    if (*range.below != '\0') {
      EXPECT_FALSE(in_range(range, range.below)) << range.key;
    }
  }
}

TEST(ConfigKeysTest, EachIsDocumentedInWholeSentences) {
  for (const KeyInfo& key : config_keys()) {
    EXPECT_THAT(key.doc, testing::EndsWith(".")) << key.name;
    EXPECT_FALSE(key.type.empty() || key.default_value.empty()) << key.name;
  }
}

std::string read_text(const std::string& path) {
  std::ifstream file{path};
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_shipped_file() {
  return read_text(PULSEWHEEL_SHIPPED_CONFIG);
}

/// Where it differs, what it should be is left in a file.
void expect_text(const std::string& path, const std::string& wanted) {
  if (read_text(path) == wanted) return;
  const std::string generated = testing::TempDir() + path.substr(path.rfind('/') + 1);
  std::ofstream{generated} << wanted;
  ADD_FAILURE() << path << " is out of date: copy " << generated << " over it";
}

TEST(ConfigShippedFileTest, IsWhatTheTableSays) {
  expect_text(PULSEWHEEL_SHIPPED_CONFIG, print_documented_defaults());
}

TEST(ConfigManualPageTest, IsWhatTheTableSays) {
  expect_text(PULSEWHEEL_CONFIG_MANUAL, print_manual_page());
}

TEST(ConfigShippedFileTest, AsItIsChangesNothing) {
  EXPECT_EQ(load_text(read_shipped_file()), Config{});
}

TEST(ConfigShippedFileTest, NamesEveryKeyWithItsDefault) {
  std::istringstream lines{read_shipped_file()};
  std::string uncommented;
  std::size_t assignments = 0;
  for (std::string line; std::getline(lines, line);) {
    // "#key = value" and "#[[listener]]"; prose has a space behind the mark.
    if (line.size() > 1 && line[0] == '#' && line[1] != ' ') line.erase(0, 1);
    if (line.find(" = ") != std::string::npos && line[0] != '#') ++assignments;
    uncommented += line + '\n';
  }
  EXPECT_EQ(assignments, config_keys().size());
  EXPECT_EQ(load_text(uncommented), Config{});
}

TEST(ConfigShippedFileTest, HasNoLineTooLongForATerminal) {
  std::istringstream lines{read_shipped_file()};
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100U) << line;
}

TEST(ConfigDiffTest, IsEmptyForEqualConfigs) {
  EXPECT_THAT(diff(Config{}, Config{}), IsEmpty());
}

TEST(ConfigDiffTest, NamesKeysInTheOrderOfTheFile) {
  Config changed;
  changed.log.level = Config::Log::Level::kDebug;
  changed.presence.timeout = std::chrono::seconds{40};
  changed.listeners[0].port = 1;
  EXPECT_THAT(diff(Config{}, changed),
              ElementsAre("listener.0.port", "presence.timeout", "log.level"));
}

TEST(ConfigDiffTest, AnotherNumberOfListenersIsOneChange) {
  Config changed;
  changed.listeners.emplace_back();
  EXPECT_THAT(diff(Config{}, changed), ElementsAre("listener"));
  EXPECT_FALSE(reload_applies("listener"));
}

TEST(ConfigReloadTest, AppliesWhatTheTableSays) {
  EXPECT_FALSE(reload_applies("presence.tick"));
  EXPECT_FALSE(reload_applies("listener.0.port"));
  EXPECT_FALSE(reload_applies("no.such.key"));
  for (const KeyInfo& key : config_keys())
    EXPECT_EQ(reload_applies(key.name), key.reloadable);
}

TEST(ConfigReloadTest, TakesReloadableKeysAndNoOthers) {
  for (const KeyInfo& key : config_keys()) {
    const std::string name = settable_name(key.name);
    if (has_one_value(name)) continue;
    const Config wanted = load_sets({name + "=" + other_values().at(name)});
    EXPECT_EQ(apply_reload(Config{}, wanted), key.reloadable ? wanted : Config{}) << name;
  }
}

TEST(ConfigReloadTest, RefusesAValueThatDoesNotGoWithOneThatTakesARestart) {
  const Config running = load_sets({"presence.tick=1s"});
  const Config wanted = load_sets({"presence.tick=100ms", "server.login_timeout=500ms"});
  const auto problems = problems_of([&] { return apply_reload(running, wanted); });
  EXPECT_THAT(problems,
              ElementsAre("presence.tick = \"1s\", which runs until a restart, must not be "
                          "greater than server.login_timeout = \"500ms\""));
}

TEST(ConfigReloadTest, BoundDoesNotHoldForWhatIsOff) {
  const Config config = load_sets({"server.tcp_user_timeout=0s"});
  EXPECT_EQ(apply_reload(config, config), config);
}

TEST(ConfigValueTextTest, IsTheTomlOfEveryKey) {
  const Config config;
  for (const KeyInfo& key : config_keys()) {
    EXPECT_EQ(value_text(config, settable_name(key.name)), key.default_value) << key.name;
  }
  EXPECT_EQ(value_text(config, "listener"), "1");
  EXPECT_EQ(value_text(config, "no.such.key"), "");
}

}  // namespace
}  // namespace pulsewheel

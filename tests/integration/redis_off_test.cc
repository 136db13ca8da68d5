// With redis.mode = "off" there is nothing of Redis in the daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

/// How many there are of each.
struct Census {
  std::map<std::string, int> threads;      // by name
  std::map<std::string, int> descriptors;  // by kind, or by the file's name

  friend bool operator==(const Census&, const Census&) = default;
};

/// "socket:[123]" is a socket like any other.
std::string kind_of(const std::string& link) {
  if (link.starts_with("/")) return std::filesystem::path(link).filename();
  return link.starts_with("anon_inode:") ? link : link.substr(0, link.find(':'));
}

Census take_census(const Daemon& daemon) {
  const std::string process = "/proc/" + std::to_string(daemon.pid());
  Census census;
  for (const auto& task : std::filesystem::directory_iterator(process + "/task"))
    ++census.threads[split_lines(read_file(task.path() / "comm")).front()];
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd")) {
    std::error_code closed_meanwhile;
    const auto link = std::filesystem::read_symlink(entry.path(), closed_meanwhile);
    if (!closed_meanwhile) ++census.descriptors[kind_of(link)];
  }
  return census;
}

/// Connections that the server has ever had, this question's own included.
int connections_to(const RedisServer& redis) {
  const std::string stats = redis.command({"INFO", "stats"}).text;
  const std::string key = "total_connections_received:";
  return std::stoi(stats.substr(stats.find(key) + key.size()));
}

TEST(RedisOffTest, TakesNoThreadNoDescriptorAndNoConnection) {
  const RedisServer redis;
  const std::string url = "redis.url=" + redis.url();
  const Daemon plain;
  const Daemon mirroring({.sets = {"redis.mode=mirror", url}});
  ASSERT_TRUE(eventually([&] { return mirroring.metric("pulsewheel_redis_joined") == 1; }));
  const int connections = connections_to(redis);

  const Daemon off({.sets = {"redis.mode=off", url}});

  EXPECT_TRUE(eventually([&] { return take_census(off) == take_census(plain); }));
  EXPECT_THAT(take_census(off).threads, Not(testing::Contains(Key("pw-redis"))));
  EXPECT_THAT(take_census(mirroring).threads, testing::Contains(Key("pw-redis")));
  EXPECT_GT(take_census(mirroring).descriptors["socket"], take_census(off).descriptors["socket"]);
  Client alice(off.port());
  alice.login("alice");
  alice.send_logout();
  alice.expect(proto::FrameType::kLogoutAck);
  EXPECT_EQ(connections_to(redis), connections + 1);
}

TEST(RedisOffTest, SaysSoAndHasNoMetricOfIt) {
  const Daemon daemon;
  EXPECT_THAT(daemon.get("/metrics").body, Not(HasSubstr("pulsewheel_redis")));
  EXPECT_THAT(daemon.get("/v1/status").body, HasSubstr("\"redis\":{\"mode\":\"off\"}"));
}

}  // namespace
}  // namespace pulsewheel::test

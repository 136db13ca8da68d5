#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/integration/ring_reader.h"
#include "tests/integration/shared_ring.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

Daemon::Options sharing(const RedisServer& redis, const std::string& node,
                        const std::vector<std::string>& more) {
  std::vector<std::string> sets{"redis.mode=shared", "redis.url=" + redis.url(),
                                "redis.node=" + node, "server.shards=2", "presence.timeout=20s"};
  sets.insert(sets.end(), more.begin(), more.end());
  return {.sets = sets};
}

bool joins(const Daemon& node) {
  return eventually([&] { return node.metric("pulsewheel_redis_joined") == 1; });
}

std::vector<StreamEdge> read_stream(const RedisServer& redis) {
  std::vector<StreamEdge> edges;
  for (const RedisReply& entry :
       redis.command({"XRANGE", "pulsewheel:events", "-", "+"}).elements) {
    std::map<std::string, std::string> fields;
    const auto& words = entry.elements.at(1).elements;
    for (std::size_t i = 0; i + 1 < words.size(); i += 2)
      fields[words[i].text] = words[i + 1].text;
    edges.push_back({fields["kind"], fields["uid"], fields["reason"], fields["node"],
                     std::stoll(fields["at"])});
  }
  return edges;
}

namespace {

constexpr milliseconds kLease{3'000};
constexpr milliseconds kHandTick{1'000};
/// For a machine that is busy with other things.
constexpr milliseconds kSlack{1'500};

std::size_t offline_edges(const RedisServer& redis) {
  std::size_t count = 0;
  for (const StreamEdge& edge : read_stream(redis))
    count += edge.kind == "offline" ? 1 : 0;
  return count;
}

void check_silent_user(const StreamEdge& edge, std::int64_t deadline_ms) {
  EXPECT_EQ(edge.reason, "timeout") << edge.uid;
  EXPECT_GE(edge.at_ms, deadline_ms) << edge.uid;
  EXPECT_LE(edge.at_ms, deadline_ms + (kLease + 2 * kHandTick + kSlack).count()) << edge.uid;
}

}  // namespace

void check_a_killed_node(std::size_t users) {
  const RedisServer redis;
  const TemporaryFolder state;
  const std::vector<std::string> times{"presence.timeout=8s", "server.max_connections=4000"};
  Daemon::Options first_options = sharing(redis, "n1", times);
  first_options.state_dir = state.path();
  auto first = std::make_unique<Daemon>(first_options);
  const Daemon second(sharing(redis, "n2", times));
  const Daemon third(sharing(redis, "n3", times));
  ASSERT_TRUE(joins(*first) && joins(second) && joins(third));

  Swarm swarm(first->port());
  ASSERT_TRUE(swarm.add_users("u", users));
  ASSERT_TRUE(eventually([&] { return read_ring(redis).users.size() == users; }));
  const Ring before = read_ring(redis);
  first->signal(SIGKILL);
  first->wait();

  const std::size_t coming_back = users / 3;
  Swarm back(second.port());
  back.add(coming_back);
  ASSERT_TRUE(back.all_connected());
  for (std::size_t i = 0; i < coming_back; ++i)
    back.send_login(i, "u-" + std::to_string(i));
  ASSERT_TRUE(back.drive_until([&] { return back.totals().logged_in == coming_back; }));
  first = std::make_unique<Daemon>(first_options);  // and joins when its old lease is over

  const auto keepalive = proto::encode_keepalive();
  const auto give_up = Swarm::Clock::now() + seconds{60};
  while (offline_edges(redis) < users - coming_back && Swarm::Clock::now() < give_up) {
    back.send_all(keepalive);
    back.drive(milliseconds{500});
  }
  back.send_all(keepalive);
  back.drive(kHandTick * 3);  // whoever is claimed twice, or wrongly, is so by then

  std::set<std::string> gone;
  for (const StreamEdge& edge : read_stream(redis)) {
    if (edge.kind != "offline") continue;
    EXPECT_TRUE(gone.insert(edge.uid).second) << edge.uid << " went offline twice";
    EXPECT_GE(std::stoul(edge.uid.substr(2)), coming_back) << edge.uid << " came back";
    check_silent_user(edge, before.users.at(edge.uid).deadline_ms);
  }
  EXPECT_EQ(gone.size(), users - coming_back);
  EXPECT_EQ(read_stream(redis).size(), users + gone.size());
  EXPECT_EQ(read_ring(redis).users.size(), coming_back);
  EXPECT_THAT(read_ring(redis).faults, testing::IsEmpty());
  EXPECT_TRUE(joins(*first));
  // The others were taken back by the node itself, and ended there.
  EXPECT_LE(second.metric("pulsewheel_redis_claimed_users_total") +
                third.metric("pulsewheel_redis_claimed_users_total") +
                first->metric("pulsewheel_redis_claimed_users_total"),
            static_cast<double>(gone.size()));
}

}  // namespace pulsewheel::test

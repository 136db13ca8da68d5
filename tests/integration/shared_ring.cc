#include "tests/integration/shared_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/integration/ring_reader.h"
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
constexpr seconds kTimeout{8};
/// Between two looks at what happens after a death.
constexpr milliseconds kLook{100};
constexpr seconds kGiveUp{60};

// Users log in by waves, so that some are due soon after the death and others late.
constexpr std::size_t kWaves = 6;
constexpr std::size_t kWavesThatComeBack = 2;  // the last ones
constexpr milliseconds kWaveInterval{800};

std::string name_of_wave(std::size_t wave) {
  return "w" + std::to_string(wave);
}

/// The death of a node, step by step.
class Death {
 public:
  explicit Death(std::size_t users)
      : wave_(users / kWaves),
        node_options_(sharing(redis_, "n1", kTimes)),
        second_(sharing(redis_, "n2", kTimes)),
        third_(sharing(redis_, "n3", kTimes)) {
    node_options_.state_dir = state_.path();
    start_node();
  }

  void start_node() { node_.emplace(node_options_); }

  bool log_in() {
    if (!joins(*node_) || !joins(second_) || !joins(third_)) return false;
    swarm_.emplace(node_->port());
    for (std::size_t wave = 0; wave < kWaves; ++wave) {
      swarm_->drive(kWaveInterval);
      if (!swarm_->add_users(name_of_wave(wave), wave_)) return false;
    }
    return eventually([this] { return read_ring(redis_).users.size() == users(); });
  }

  /// And looks at what Redis has by then.
  void kill_node() {
    node_->signal(SIGKILL);
    node_->wait();
    lease_end_ =
        Swarm::Clock::now() + milliseconds{redis_.command({"PTTL", "pulsewheel:node:n1"}).integer};
    known_ = read_ring(redis_);
    node_.reset();
  }

  bool come_back() {
    back_.emplace(second_.port());
    for (std::size_t wave = kWaves - kWavesThatComeBack; wave < kWaves; ++wave) {
      if (!back_->add_users(name_of_wave(wave), wave_)) return false;
    }
    return true;
  }

  /// Until all who are silent are offline, and somebody who is claimed twice, or wrongly, is so.
  void watch() {
    const auto give_up = Swarm::Clock::now() + kGiveUp;
    while (offline_edges() < silent_users() && Swarm::Clock::now() < give_up)
      look();
    const auto end = Swarm::Clock::now() + 3 * kHandTick;
    while (Swarm::Clock::now() < end)
      look();
  }

  void expect_edges() const {
    std::set<std::string> gone;
    for (const StreamEdge& edge : read_stream(redis_)) {
      if (edge.kind != "offline") continue;
      EXPECT_TRUE(gone.insert(edge.uid).second) << edge.uid << " went offline twice";
      EXPECT_LT(edge.uid.substr(0, 2), name_of_wave(kWaves - kWavesThatComeBack))
          << edge.uid << " came back";
      expect_in_time(edge);
    }
    EXPECT_EQ(gone.size(), silent_users());
    EXPECT_EQ(read_stream(redis_).size(), users() + gone.size());
    const Ring ring = read_ring(redis_);
    EXPECT_EQ(ring.users.size(), users() - silent_users());
    EXPECT_THAT(ring.faults, testing::IsEmpty());
  }

  /// All were claimed by the two that live.
  void expect_claimed_by_the_others() const {
    EXPECT_EQ(second_.metric(kClaimed) + third_.metric(kClaimed),
              static_cast<double>(silent_users()));
  }

  /// The node has taken some of them back and ended them itself.
  void expect_joined_after_its_lease() const {
    EXPECT_LE(second_.metric(kClaimed) + third_.metric(kClaimed) + node_->metric(kClaimed),
              static_cast<double>(silent_users()));
    ASSERT_TRUE(joined_at_);
    EXPECT_GE(*joined_at_, lease_end_ - kLook);
    EXPECT_LE(*joined_at_, lease_end_ + 2 * kHandTick);
  }

 private:
  [[nodiscard]] std::size_t users() const { return kWaves * wave_; }
  [[nodiscard]] std::size_t silent_users() const { return (kWaves - kWavesThatComeBack) * wave_; }

  [[nodiscard]] std::size_t offline_edges() const {
    std::size_t count = 0;
    for (const StreamEdge& edge : read_stream(redis_))
      count += edge.kind == "offline" ? 1 : 0;
    return count;
  }

  void look() {
    back_->send_all(proto::encode_keepalive());
    back_->drive(kLook);
    if (node_ && !joined_at_ && node_->metric("pulsewheel_redis_joined") == 1) {
      joined_at_ = Swarm::Clock::now();
    }
  }

  /// A deadline is T behind the last packet.
  void expect_in_time(const StreamEdge& edge) const {
    const std::int64_t late = edge.at_ms - known_.users.at(edge.uid).deadline_ms;
    EXPECT_EQ(edge.reason, "timeout") << edge.uid;
    EXPECT_GE(late, 0) << edge.uid;
    EXPECT_LE(late, (kLease + 2 * kHandTick).count()) << edge.uid;
  }

  static constexpr const char* kClaimed = "pulsewheel_redis_claimed_users_total";
  inline static const std::vector<std::string> kTimes{
      "presence.timeout=" + std::to_string(kTimeout.count()) + "s", "server.max_connections=4000"};

  const std::size_t wave_;  // users in one
  const RedisServer redis_;
  const TemporaryFolder state_;
  Daemon::Options node_options_;
  std::optional<Daemon> node_;  // the one that dies
  const Daemon second_;
  const Daemon third_;
  std::optional<Swarm> swarm_;                         // on the first node
  std::optional<Swarm> back_;                          // on the second one
  Swarm::Clock::time_point lease_end_;                 // of the dead
  Ring known_;                                         // what Redis knew when it died
  std::optional<Swarm::Clock::time_point> joined_at_;  // after its restart
};

}  // namespace

void check_a_killed_node(std::size_t users, Afterlife afterlife) {
  Death death(users);
  ASSERT_TRUE(death.log_in());
  death.kill_node();
  if (afterlife == Afterlife::kRestarted) death.start_node();
  ASSERT_TRUE(death.come_back());
  death.watch();
  death.expect_edges();
  if (afterlife == Afterlife::kRestarted) {
    death.expect_joined_after_its_lease();
  } else {
    death.expect_claimed_by_the_others();
  }
}

}  // namespace pulsewheel::test

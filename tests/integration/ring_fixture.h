// RingFixture: nodes and PHP front ends on the ring of a real redis-server.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/redis/scripts.h"
#include "tests/support/redis_server.h"

namespace pulsewheel::test {

inline constexpr std::uint64_t kStreamEntries = 100'000;

/// Two nodes, "a" and "b", and a ring of 32 slots under the default names.
class RingFixture : public testing::Test {
 protected:
  RingFixture() { run(a_.create_ring()); }

  /// Redis' time, or the one at which the clock was stopped.
  std::chrono::milliseconds now() {
    if (stopped_at_) return *stopped_at_;
    const RedisReply time = redis_.command({"TIME"});
    return std::chrono::milliseconds{std::stoll(time.elements[0].text) * 1000 +
                                     std::stoll(time.elements[1].text) / 1000};
  }
  /// From now on this is Redis' time for all that run() runs, however long the machine takes. A
  /// lease ends by the real one.
  void stop_clock(std::chrono::milliseconds at) {
    EXPECT_NE(a_.claim().script->source().find(kTime), std::string_view::npos);
    stopped_at_ = at;
  }

  RedisReply run(const RingCall& call) {
    std::string source(call.script->source());
    if (const auto place = source.find(kTime); stopped_at_ && place != std::string::npos) {
      const auto ms = stopped_at_->count();
      source.replace(
          place, kTime.size(),
          "{" + std::to_string(ms / 1000) + ", " + std::to_string(ms % 1000 * 1000) + "}");
    }
    std::vector<std::string> words{"EVAL", source, std::to_string(call.keys.size())};
    words.insert(words.end(), call.keys.begin(), call.keys.end());
    words.insert(words.end(), call.args.begin(), call.args.end());
    return redis_.command(words);
  }

  // Of one user.
  RingOutcome move(const RingScripts& node, std::string_view uid,
                   std::chrono::milliseconds remaining = std::chrono::seconds{30}) {
    return only(run(node.move(std::vector<RingMove>{{uid, remaining}})));
  }
  RingOutcome add(const RingScripts& node, std::string_view uid,
                  std::chrono::milliseconds remaining = std::chrono::seconds{30}) {
    return only(run(node.add(std::vector<RingAdd>{{uid, remaining, "login"}})));
  }
  RingOutcome remove(const RingScripts& node, std::string_view uid) {
    return only(run(node.remove(std::vector<RingRemove>{{uid, "timeout"}})));
  }
  static RingOutcome only(const RedisReply& reply) {
    EXPECT_TRUE(reply.is_array()) << reply.text;
    EXPECT_EQ(reply.elements.size(), 1u);
    return reply.elements.empty() ? RingOutcome{-1} : RingOutcome{reply.elements[0].integer};
  }

  void take_lease(const RingScripts& node) { run(node.lease(std::chrono::hours{1})); }

  // What a PHP front end does: the user gets `seconds` from now, whatever was before.
  void log_in_by_php(const std::string& uid, int seconds = 30) {
    const std::string slot = "slot-" + std::to_string((now().count() / 1000 + seconds + 1) % 32);
    const RedisReply old = redis_.command({"HGET", "timeline-index", uid});
    if (old.is_string()) redis_.command({"SREM", old.text, uid});
    redis_.command({"SADD", slot, uid});
    redis_.command({"HSET", "timeline-index", uid, slot});
  }

  std::map<std::string, std::string> hash(const std::string& key) {
    const RedisReply reply = redis_.command({"HGETALL", key});
    std::map<std::string, std::string> pairs;
    for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2)
      pairs[reply.elements[i].text] = reply.elements[i + 1].text;
    return pairs;
  }
  // uid -> slot by the SETs; a user who is in two of them fails the test.
  std::map<std::string, std::string> by_sets() {
    std::map<std::string, std::string> found;
    for (const RedisReply& slot : redis_.command({"LRANGE", "testlist", "0", "-1"}).elements) {
      for (const RedisReply& uid : redis_.command({"SMEMBERS", slot.text}).elements) {
        EXPECT_TRUE(found.emplace(uid.text, slot.text).second) << uid.text << " is in two slots";
      }
    }
    return found;
  }
  // "online alice login", in order.
  std::vector<std::string> edges() {
    std::vector<std::string> all;
    for (const RedisReply& entry : redis_.command({"XRANGE", events_, "-", "+"}).elements) {
      std::map<std::string, std::string> fields;
      const auto& words = entry.elements.at(1).elements;
      for (std::size_t i = 0; i + 1 < words.size(); i += 2)
        fields[words[i].text] = words[i + 1].text;
      all.push_back(fields["kind"] + " " + fields["uid"] + " " + fields["reason"]);
    }
    return all;
  }
  // Everything in the database, as it would be saved.
  std::string digest() { return redis_.command({"DEBUG", "DIGEST"}).text; }

  const RingLayout layout_;
  const RingNames& names_ = layout_.names();
  const std::string events_ = names_.events();
  const RingScripts a_{layout_, {"a", 5}, kStreamEntries};
  const RingScripts b_{layout_, {"b", 9}, kStreamEntries};
  static constexpr std::string_view kTime = "redis.call('TIME')";
  std::optional<std::chrono::milliseconds> stopped_at_;
  RedisServer server_{{.arguments = {"--enable-debug-command", "yes"}}};
  RedisConsole redis_{server_};
};

}  // namespace pulsewheel::test

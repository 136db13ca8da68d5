// What the ring's hand costs redis-server, which serves nobody else while a script runs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/redis/scripts.h"
#include "tests/support/redis_server.h"

namespace pulsewheel {
namespace {

using test::RedisConsole;
using test::RedisServer;

constexpr std::uint64_t kStreamEntries = 1'000'000;
/// A call that has looked at fewer is none of a full slot.
constexpr std::size_t kFullCall = 200;
/// Users filed by one call of the script below.
constexpr std::size_t kFillBatch = 10'000;

/// ARGV: the owner, number of the first user, number behind the last. Their deadlines have passed
/// within the last 30 s, evenly, and the hand has read none of their slots.
constexpr const char* kFill = R"lua(
local second = tonumber(redis.call('TIME')[1])
redis.call('HSET', 'pulsewheel:hand', 'second', second - 31, 'cursor', '0')
for i = tonumber(ARGV[2]), tonumber(ARGV[3]) - 1 do
  local uid = string.format('user-%011d', i)
  local due = second - 1 - i % 30
  local slot = 'slot-' .. (due + 1) % 32
  redis.call('SADD', slot, uid)
  redis.call('HSET', 'timeline-index', uid, slot)
  redis.call('HSET', 'pulsewheel:deadline', uid, due .. '500')
  redis.call('HSET', 'pulsewheel:owners', uid, ARGV[1])
end
)lua";

class FullRing {
 public:
  FullRing(std::size_t users, std::string owner) : users_(users), owner_(std::move(owner)) {
    const RingCall claim = scripts_.claim();
    command_ = {"EVALSHA",
                console_.command({"SCRIPT", "LOAD", std::string(claim.script->source())}).text,
                std::to_string(claim.keys.size())};
    command_.insert(command_.end(), claim.keys.begin(), claim.keys.end());
    command_.insert(command_.end(), claim.args.begin(), claim.args.end());
    console_.command({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
  }

  /// Carries out the next call that finds a full slot. How long redis-server took for it.
  std::chrono::microseconds claim() {
    for (;;) {
      if (!work_left_) fill();
      const auto answer = RingClaim::parse(console_.command(command_));
      const RedisReply log = console_.command({"SLOWLOG", "GET", "1"});
      work_left_ = answer && answer->work_left;
      if (answer && answer->uids.size() + answer->refiled >= kFullCall) {
        return std::chrono::microseconds{log.elements.at(0).elements.at(2).integer};
      }
    }
  }

 private:
  void fill() {
    console_.command({"FLUSHDB"});
    console_.command({"SET", "pulsewheel:node:live", "1"});
    std::vector<std::string> ring{"RPUSH", "testlist"};
    for (const std::string& slot : scripts_.layout().default_slot_names())
      ring.push_back(slot);
    console_.command(ring);
    for (std::size_t first = 0; first < users_; first += kFillBatch) {
      const std::size_t end = std::min(first + kFillBatch, users_);
      console_.command({"EVAL", kFill, "0", owner_, std::to_string(first), std::to_string(end)});
    }
  }

  const std::size_t users_;
  const std::string owner_;
  const RingScripts scripts_{RingLayout{}, {"live", 1}, kStreamEntries};
  RedisServer redis_;
  RedisConsole console_{redis_};
  std::vector<std::string> command_;
  bool work_left_ = false;
};

void measure(benchmark::State& state, const std::string& owner) {
  FullRing ring(static_cast<std::size_t>(state.range(0)), owner);
  std::vector<double> times_ms;
  for (auto _ : state) {
    const std::chrono::duration<double> time = ring.claim();
    state.SetIterationTime(time.count());
    times_ms.push_back(time.count() * 1'000);
  }
  std::sort(times_ms.begin(), times_ms.end());
  state.counters["p99_ms"] = times_ms[times_ms.size() * 99 / 100];
  state.counters["worst_ms"] = times_ms.back();
}

/// 256 users go offline, each with an edge in the stream.
void BM_ClaimOfTheUsersOfADeadNode(benchmark::State& state) {
  measure(state, "dead:1");
}

/// 256 users stay, and are looked at again in the next second.
void BM_ClaimThatFindsTheUsersOfALiveNode(benchmark::State& state) {
  measure(state, "live:1");
}

constexpr std::int64_t kCalls = 2'000;

BENCHMARK(BM_ClaimOfTheUsersOfADeadNode)
    ->Arg(100'000)
    ->Iterations(kCalls)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ClaimThatFindsTheUsersOfALiveNode)
    ->Arg(100'000)
    ->Iterations(kCalls)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pulsewheel

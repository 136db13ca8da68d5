// Ten thousand users asked about at once while 100,000 clients are connected. Label slow, with a
// command of its own: ./dev test --label slow -R QuerySlowTest. Bounds on time are checked in
// release builds only.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/percent.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kClients = 100'000;
constexpr std::size_t kAskedAtOnce = 10'000;
constexpr int kPairs = 5;
constexpr auto kWindow = seconds{4};
constexpr auto kBetweenQueries = milliseconds{100};

constexpr double kQueryMsMax = 50;
constexpr double kLoopDelayRatioMax = 1.2;
constexpr double kLoopDelayMoreMsMax = 2;

/// Everybody online, page by page, while their keepalives come in.
std::vector<std::string> list_online(const Daemon& daemon) {
  std::vector<std::string> uids;
  std::string cursor;
  do {
    const std::string page = cursor.empty() ? "" : "&cursor=" + percent_encode(cursor);
    const Json answer = Json::parse(daemon.get("/v1/users?state=online&limit=10000" + page).body);
    for (const Json& user : answer.at("users"))
      uids.push_back(user.at("uid"));
    const Json& next = answer.at("next_cursor");
    cursor = next.is_null() ? "" : next.get<std::string>();
  } while (!cursor.empty());
  return uids;
}

/// Rounds of all shards' loops since the start, by the upper bound of their length in seconds.
using RoundsByLength = std::map<double, double>;

RoundsByLength rounds_by_length(const Daemon& daemon) {
  const std::string series = "pulsewheel_loop_delay_seconds_bucket{";
  RoundsByLength rounds;
  std::istringstream lines(daemon.get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(series, 0) != 0) continue;
    const std::string bound = line.substr(line.find("le=\"") + 4);
    const double length =
        bound[0] == '+' ? std::numeric_limits<double>::infinity() : std::stod(bound);
    rounds[length] += std::stod(line.substr(line.rfind(' ') + 1));
  }
  return rounds;
}

/// The 99th percentile of the rounds between two looks, within its bucket by interpolation.
double p99_ms(const RoundsByLength& before, const RoundsByLength& after) {
  const auto count = [&](double length) { return after.at(length) - before.at(length); };
  const double wanted = 0.99 * count(std::numeric_limits<double>::infinity());
  double shorter = 0;
  double fewer = 0;
  for (const auto& [length, total] : after) {
    const double rounds = count(length);
    if (rounds >= wanted) {
      return 1e3 * (shorter + (length - shorter) * (wanted - fewer) / (rounds - fewer));
    }
    shorter = length;
    fewer = rounds;
  }
  return std::numeric_limits<double>::infinity();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Asks about kAskedAtOnce of `uids`, any of them. How long the answer took, in milliseconds.
double time_query(const Daemon& daemon, std::vector<std::string>& uids, std::minstd_rand& random) {
  for (std::size_t i = 0; i < kAskedAtOnce; ++i)
    std::swap(uids[i], uids[i + random() % (uids.size() - i)]);
  const auto asked = uids.begin() + static_cast<std::ptrdiff_t>(kAskedAtOnce);
  const std::string body = Json{{"uids", std::vector(uids.begin(), asked)}}.dump();
  const auto began = Clock::now();
  const Daemon::Answer answer = daemon.post("/v1/users:query", body);
  const std::chrono::duration<double, std::milli> took = Clock::now() - began;
  EXPECT_EQ(answer.status, 200);
  const Json users = Json::parse(answer.body).at("users");
  EXPECT_EQ(users.size(), kAskedAtOnce);
  EXPECT_TRUE(std::all_of(users.begin(), users.end(),
                          [](const Json& user) { return user.at("state") == "online"; }));
  return took.count();
}

TEST(QuerySlowTest, TenThousandUsersAreLookedUpAtOnceAndTheShardsGoOn) {
  const TemporaryFolder folder;
  const Daemon daemon({.sets = {"presence.tick=1s", "presence.timeout_min=5s",
                                "presence.timeout=30s", "server.login_timeout=10s",
                                "server.max_connections=" + std::to_string(kClients + 1'000)}});
  ChildProcess clients(
      {PULSEWHEEL_SIM, "--target", "127.0.0.1:" + std::to_string(daemon.port()), "--edges",
       daemon.state_dir() + "/events.jsonl", "--connections", std::to_string(kClients),
       "--duration", "80s", "--slack", kReleaseBuild ? "250ms" : "2s"},
      folder / "log");
  ASSERT_TRUE(eventually([&] {
    return !clients.is_running() ||
           daemon.metric("pulsewheel_users{state=\"online\"") >= double{kClients};
  })) << read_file(folder / "log");
  std::vector<std::string> uids = list_online(daemon);
  ASSERT_EQ(std::set(uids.begin(), uids.end()).size(), kClients);
  ASSERT_EQ(uids.size(), kClients);

  std::minstd_rand random(1);
  std::vector<double> query_ms;
  std::vector<double> ratios;
  std::vector<double> more_ms;
  for (int pair = 0; pair < kPairs; ++pair) {
    const RoundsByLength start = rounds_by_length(daemon);
    std::this_thread::sleep_for(kWindow);  // nothing is waited for: this is what is measured
    const RoundsByLength between = rounds_by_length(daemon);
    for (const auto end = Clock::now() + kWindow; Clock::now() < end;) {
      query_ms.push_back(time_query(daemon, uids, random));
      std::this_thread::sleep_for(kBetweenQueries);
    }
    const double quiet = p99_ms(start, between);
    const double asked = p99_ms(between, rounds_by_length(daemon));
    std::cout << "loop delay p99: " << quiet << " ms, with queries " << asked << " ms\n";
    ratios.push_back(asked / quiet);
    more_ms.push_back(asked - quiet);
  }
  const double longest = *std::max_element(query_ms.begin(), query_ms.end());
  std::cout << query_ms.size() << " queries of " << kAskedAtOnce << " users: median "
            << median(query_ms) << " ms, longest " << longest << " ms\n";
  EXPECT_EQ(clients.wait(), 0) << read_file(folder / "log");
  if (kReleaseBuild) {
    EXPECT_LT(longest, kQueryMsMax);
    EXPECT_TRUE(median(ratios) <= kLoopDelayRatioMax || median(more_ms) <= kLoopDelayMoreMsMax)
        << median(ratios) << " x, " << median(more_ms) << " ms more";
  }
}

}  // namespace
}  // namespace pulsewheel::test

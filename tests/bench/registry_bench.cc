// What logins, ends and look-ups of users cost their home shard.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "daemon/core/presence_registry.h"

namespace pulsewheel {
namespace {

constexpr MonoTime kNow{std::chrono::seconds{1'000}};

/// A shard with `users` users who have logged in, in an order that no cache likes.
class Shard {
 public:
  explicit Shard(std::size_t users) {
    for (std::size_t i = 0; i < users; ++i) {
      std::string uid = std::to_string(i);
      uids_.push_back(std::string(16 - uid.size(), 'u') + uid);
    }
    std::shuffle(uids_.begin(), uids_.end(), std::mt19937_64{1});
    for (std::size_t i = 0; i < users; ++i)
      refs_.push_back(login(i).user);
    std::mt19937_64 random{2};
    for (std::size_t i = 0; i < users; ++i)
      order_.push_back(i);
    std::shuffle(order_.begin(), order_.end(), random);
  }

  [[nodiscard]] std::size_t next() noexcept {
    cursor_ = cursor_ + 1 < order_.size() ? cursor_ + 1 : 0;
    return order_[cursor_];
  }
  LoginDecision login(std::size_t i) {
    edges_.clear();
    return registry_.login({uids_[i], "", session(i), kNow}, kNow, edges_);
  }
  bool end(std::size_t i, CloseReason reason) {
    edges_.clear();
    return registry_.end_session(
        {refs_[i], session(i), reason, kNow, kNow + std::chrono::seconds{30}}, kNow, edges_);
  }
  [[nodiscard]] UserView find(std::size_t i) const { return registry_.find(uids_[i], kNow); }

 private:
  static SessionRef session(std::size_t i) { return {static_cast<std::uint32_t>(i), 1, 0}; }

  TimeWheel wheel_{Tick{0}};
  PresenceRegistry registry_{{.users_max = 10'000'000, .offline_users_max = 10'000'000},
                             wheel_,
                             TickClock{kNow, std::chrono::seconds{1}}};
  EdgeBatch edges_;
  std::vector<std::string> uids_;
  std::vector<UserRef> refs_;
  std::vector<std::size_t> order_;
  std::size_t cursor_ = 0;
};

/// A user logs out and comes back: two edges.
void logout_and_login(benchmark::State& state) {
  Shard shard(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const std::size_t i = shard.next();
    benchmark::DoNotOptimize(shard.end(i, CloseReason::kLogout));
    benchmark::DoNotOptimize(shard.login(i));
  }
}
BENCHMARK(logout_and_login)->Arg(10'000)->Arg(100'000)->Arg(1'000'000);

/// A connection breaks and the user comes back before the deadline: no edge.
void disconnect_and_login(benchmark::State& state) {
  Shard shard(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const std::size_t i = shard.next();
    benchmark::DoNotOptimize(shard.end(i, CloseReason::kPeerReset));
    benchmark::DoNotOptimize(shard.login(i));
  }
}
BENCHMARK(disconnect_and_login)->Arg(10'000)->Arg(100'000)->Arg(1'000'000);

void find_user(benchmark::State& state) {
  Shard shard(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state)
    benchmark::DoNotOptimize(shard.find(shard.next()));
}
BENCHMARK(find_user)->Arg(100'000)->Arg(1'000'000);

/// New users up to the given number: worst_us is the longest single login, which is one that makes
/// a part of the set grow.
void first_logins(benchmark::State& state) {
  const auto users = static_cast<std::size_t>(state.range(0));
  double worst_us = 0;
  for (auto _ : state) {
    TimeWheel wheel{Tick{0}};
    PresenceRegistry registry({.users_max = users}, wheel,
                              TickClock{kNow, std::chrono::seconds{1}});
    EdgeBatch edges;
    auto before = MonoClock::now();
    for (std::size_t i = 0; i < users; ++i) {
      const std::string uid = std::to_string(i);
      const SessionRef session{static_cast<std::uint32_t>(i), 1, 0};
      benchmark::DoNotOptimize(registry.login({uid, "", session, kNow}, kNow, edges));
      edges.clear();
      const auto after = MonoClock::now();
      worst_us =
          std::max(worst_us, std::chrono::duration<double, std::micro>(after - before).count());
      before = after;
    }
  }
  state.counters["worst_us"] = worst_us;
  state.counters["per_login"] =
      benchmark::Counter(static_cast<double>(users), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}
BENCHMARK(first_logins)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pulsewheel

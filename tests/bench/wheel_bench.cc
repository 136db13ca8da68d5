// What the time wheel costs, beside a binary heap, a std::multimap and asio::steady_timer.
//
// Move: the deadlines of all timers are moved later once per iteration, in random order: in the
// wheel by postpone(), in wheel_arm by arm(), which looks at the hook first. Before each such
// pass, in the same memory and order, goes one of plain 8-byte stores into the hooks: what the
// machine itself takes. `ns` is one move, `store_ns` one store, `ratio` their quotient; medians.
//
// Expire: 100,000 timers over 10 s run out, at a tick of 1 ms, in 625 advances of 16 ms.
//
// KeepAlive: timers with T = 30 s, each moved every 20 s, as the daemon's sessions are.
// `mean_us` is one advance; `worst_us` the worst one of a run: the median of all runs, and
// `worst_us_of_all` the worst of all runs, which a busy machine can spoil.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "daemon/core/time_wheel.h"

namespace pulsewheel {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::uint64_t kSeed = 20'240'229;

/// Of this thread on its core, so that what neighbours take does not count.
double cpu_nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Work>
double nanoseconds_of(const Work& work) {
  const double start = cpu_nanoseconds();
  work();
  benchmark::ClobberMemory();
  return cpu_nanoseconds() - start;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::uint32_t> random_order(std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(kSeed));
  return order;
}

// The contestants. Each keeps `n` timers by number; a tick is 1 ms.

struct BareHook {
  TimerHook hook{HookKind::kTest};
};
static_assert(sizeof(BareHook) == 24);

/// As big as the daemon's Session, with the hook somewhere inside.
struct SessionSized {
  std::array<std::byte, 96> before{};
  TimerHook hook{HookKind::kTest};
  std::array<std::byte, 224> after{};
};
static_assert(sizeof(SessionSized) == 344);

template <class Item>
class Wheel {
 public:
  explicit Wheel(std::size_t n) : items_(std::make_unique<Item[]>(n)) {}

  void arm(std::size_t i, std::uint64_t deadline) { wheel_.arm(items_[i].hook, Tick{deadline}); }

  void move_later(std::size_t i, std::uint64_t deadline) {
    TimeWheel::postpone(items_[i].hook, Tick{deadline});
  }

  template <class OnExpired>
  void advance(std::uint64_t now, const OnExpired& on_expired) {
    HookList expired;
    static_cast<void>(wheel_.advance(Tick{now}, kNoLimit, expired));
    while (const TimerHook* const hook = expired.pop_front())
      on_expired(*hook);
  }

  [[nodiscard]] Item& item(std::size_t i) { return items_[i]; }

 private:
  std::unique_ptr<Item[]> items_;
  TimeWheel wheel_{Tick{0}};
};

/// Moves with arm(), which looks first.
template <class Item>
class CarefulWheel : public Wheel<Item> {
 public:
  using Wheel<Item>::Wheel;
  void move_later(std::size_t i, std::uint64_t deadline) { this->arm(i, deadline); }
};

/// The textbook's: an array with the earliest in front, and where each timer is in it.
class BinaryHeap {
 public:
  explicit BinaryHeap(std::size_t n) : position_(n, kNowhere) { entries_.reserve(n); }

  void arm(std::size_t i, std::uint64_t deadline) {
    const auto id = static_cast<std::uint32_t>(i);
    std::size_t at = position_[i];
    if (at == kNowhere) {
      at = entries_.size();
      entries_.emplace_back();
    }
    sift_up(at, {deadline, id});
    sift_down(position_[i], {deadline, id});
  }
  void move_later(std::size_t i, std::uint64_t deadline) {
    sift_down(position_[i], {deadline, static_cast<std::uint32_t>(i)});
  }

  template <class OnExpired>
  void advance(std::uint64_t now, const OnExpired& on_expired) {
    while (!entries_.empty() && entries_.front().deadline <= now) {
      const std::uint32_t id = entries_.front().id;
      position_[id] = kNowhere;
      const Entry last = entries_.back();
      entries_.pop_back();
      if (!entries_.empty()) sift_down(0, last);
      on_expired(id);
    }
  }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  struct Entry {
    std::uint64_t deadline = 0;
    std::uint32_t id = 0;
  };

  void put(std::size_t at, Entry entry) {
    entries_[at] = entry;
    position_[entry.id] = at;
  }
  void sift_up(std::size_t at, Entry entry) {
    while (at > 0 && entries_[(at - 1) / 2].deadline > entry.deadline) {
      put(at, entries_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    put(at, entry);
  }
  void sift_down(std::size_t at, Entry entry) {
    for (std::size_t child = 2 * at + 1; child < entries_.size(); child = 2 * at + 1) {
      if (child + 1 < entries_.size() && entries_[child + 1].deadline < entries_[child].deadline) {
        ++child;
      }
      if (entries_[child].deadline >= entry.deadline) break;
      put(at, entries_[child]);
      at = child;
    }
    put(at, entry);
  }

  std::vector<Entry> entries_;
  std::vector<std::size_t> position_;
};

/// Moves its nodes and does not allocate them anew.
class Multimap {
 public:
  explicit Multimap(std::size_t n) : where_(n, timers_.end()) {}

  void arm(std::size_t i, std::uint64_t deadline) {
    if (where_[i] == timers_.end()) {
      where_[i] = timers_.emplace(deadline, static_cast<std::uint32_t>(i));
      return;
    }
    auto node = timers_.extract(where_[i]);
    node.key() = deadline;
    where_[i] = timers_.insert(std::move(node));
  }
  void move_later(std::size_t i, std::uint64_t deadline) { arm(i, deadline); }

  template <class OnExpired>
  void advance(std::uint64_t now, const OnExpired& on_expired) {
    while (!timers_.empty() && timers_.begin()->first <= now) {
      const std::uint32_t id = timers_.begin()->second;
      timers_.erase(timers_.begin());
      where_[id] = timers_.end();
      on_expired(id);
    }
  }

 private:
  std::multimap<std::uint64_t, std::uint32_t> timers_;
  std::vector<std::multimap<std::uint64_t, std::uint32_t>::iterator> where_;
};

/// One asio::steady_timer for each, as most servers do it. Deadlines are far enough away that none
/// runs out by the real clock; each move cancels a wait, whose handler has to run too.
class AsioTimers {
 public:
  explicit AsioTimers(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      timers_.emplace_back(io_);
  }

  void arm(std::size_t i, std::uint64_t deadline) {
    timers_[i].expires_at(start_ + std::chrono::milliseconds(deadline));
    timers_[i].async_wait([](const boost::system::error_code&) {});
    if (++since_poll_ == kPollEvery) {
      since_poll_ = 0;
      io_.poll();
    }
  }
  void move_later(std::size_t i, std::uint64_t deadline) { arm(i, deadline); }

 private:
  static constexpr int kPollEvery = 64;
  using Timer =
      boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                        boost::asio::wait_traits<std::chrono::steady_clock>,
                                        boost::asio::io_context::executor_type>;

  boost::asio::io_context io_{1};
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now() + std::chrono::hours(1);
  std::deque<Timer> timers_;
  int since_poll_ = 0;
};

// A hook's last 8 bytes: 48 bits of deadline over 16 bits that a move leaves alone.
constexpr std::size_t kWordOffset = sizeof(TimerHook) - sizeof(std::uint64_t);
constexpr std::uint64_t kOneTick = 1 << 16;

/// What a move writes, and the 16 bits beside it.
void store_word(TimerHook& hook, std::uint64_t word) {
  std::memcpy(reinterpret_cast<std::byte*>(&hook) + kWordOffset, &word, sizeof(word));
}
std::uint64_t load_word(const TimerHook& hook) {
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const std::byte*>(&hook) + kWordOffset, sizeof(word));
  return word;
}

// Passes over all timers; functions of their own, so that only the timers are in memory.
template <class Item>
[[gnu::noinline]] void store_all(Wheel<Item>& wheel, std::span<const std::uint32_t> order,
                                 std::uint64_t word) {
  for (const std::uint32_t i : order)
    store_word(wheel.item(i).hook, word += kOneTick);
}
template <class Schedule>
[[gnu::noinline]] void move_all(Schedule& schedule, std::span<const std::uint32_t> order,
                                std::uint64_t deadline) {
  for (const std::uint32_t i : order)
    schedule.move_later(i, ++deadline);
}

/// Alternates plain stores into the hooks of `stored` with moves of the timers of `moved`, all in
/// the same random order, each deadline one tick after the one before it.
template <class Item, class Schedule>
void alternate(benchmark::State& state, Wheel<Item>& stored, Schedule& moved) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<std::uint32_t> order = random_order(n);
  std::uint64_t deadline = 1'000'000;
  for (std::size_t i = 0; i < n; ++i)
    stored.arm(i, deadline);
  // Armed alike, all hooks hold the same word, so that a stored one is what a move would write.
  std::uint64_t word = load_word(stored.item(0).hook);

  std::vector<double> store_ns;
  std::vector<double> move_ns;
  for (auto _ : state) {
    store_ns.push_back(nanoseconds_of([&] { store_all(stored, order, word); }));
    deadline += n;
    if (stored.item(order.back()).hook.deadline() != Tick{deadline}) {
      state.SkipWithError("what was stored is no deadline");
      break;
    }
    move_ns.push_back(nanoseconds_of([&] { move_all(moved, order, deadline); }));
    deadline += n;
    word += 2 * n * kOneTick;
    state.SetIterationTime(move_ns.back() * 1e-9);
  }
  if (move_ns.empty()) return;
  state.counters["ns"] = median(move_ns) / static_cast<double>(n);
  state.counters["store_ns"] = median(store_ns) / static_cast<double>(n);
  state.counters["ratio"] = median(move_ns) / median(store_ns);
}

template <class TheWheel>
void move_in_wheel(benchmark::State& state) {
  TheWheel wheel(static_cast<std::size_t>(state.range(0)));
  alternate(state, wheel, wheel);
}

template <class Schedule>
void move_elsewhere(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Wheel<BareHook> stored(n);
  Schedule schedule(n);
  for (std::size_t i = 0; i < n; ++i)
    schedule.arm(i, i);
  alternate(state, stored, schedule);
}

/// The advances of one run, and what they say together with other runs.
class Advances {
 public:
  void begin_run() {
    sum_ns_ = 0;
    worst_ns_ = 0;
    count_ = 0;
  }
  void add(double ns) {
    sum_ns_ += ns;
    worst_ns_ = std::max(worst_ns_, ns);
    ++count_;
  }
  void end_run(benchmark::State& state) {
    means_.push_back(sum_ns_ / static_cast<double>(count_));
    worsts_.push_back(worst_ns_);
    state.SetIterationTime(sum_ns_ * 1e-9);
  }
  void report(benchmark::State& state) const {
    if (means_.empty()) return;
    state.counters["mean_us"] = median(means_) / 1'000;
    state.counters["worst_us"] = median(worsts_) / 1'000;
    state.counters["worst_us_of_all"] = *std::max_element(worsts_.begin(), worsts_.end()) / 1'000;
  }

 private:
  double sum_ns_ = 0;
  double worst_ns_ = 0;
  std::size_t count_ = 0;
  std::vector<double> means_;
  std::vector<double> worsts_;
};

template <class Schedule>
void expire(benchmark::State& state) {
  constexpr std::size_t kTimers = 100'000;
  constexpr std::uint64_t kSpanTicks = 10'000;
  constexpr std::uint64_t kAdvanceTicks = 16;
  std::mt19937_64 random(kSeed);
  Advances advances;
  for (auto _ : state) {
    Schedule schedule(kTimers);
    for (std::size_t i = 0; i < kTimers; ++i)
      schedule.arm(i, 1 + random() % kSpanTicks);
    std::size_t fired = 0;
    advances.begin_run();
    for (std::uint64_t now = kAdvanceTicks; now <= kSpanTicks; now += kAdvanceTicks) {
      advances.add(nanoseconds_of([&] { schedule.advance(now, [&](const auto&) { ++fired; }); }));
    }
    advances.end_run(state);
    if (fired != kTimers) state.SkipWithError("not every timer fired exactly once");
  }
  advances.report(state);
}

/// Arguments: timers, ticks per second.
template <class Schedule>
void keep_alive(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto second = static_cast<std::uint64_t>(state.range(1));
  const std::uint64_t timeout = 30 * second + 1;  // a deadline is rounded up to a tick
  const std::uint64_t interval = 20 * second;
  const std::vector<std::uint32_t> order = random_order(n);

  Schedule schedule(n);
  Advances advances;
  std::size_t fired = 0;
  std::uint64_t now = 1;
  // One client after the other, spread over the interval.
  std::size_t sent = 0;
  const auto send_keepalives = [&] {
    for (; sent * interval < now * n; ++sent) {
      if (sent < n) {
        schedule.arm(order[sent], now + timeout);
      } else {
        schedule.move_later(order[sent % n], now + timeout);
      }
    }
  };
  const auto tick = [&] {
    advances.add(nanoseconds_of([&] { schedule.advance(now, [&](const auto&) { ++fired; }); }));
    send_keepalives();
  };
  // The daemon has been up for two timeouts before it is measured.
  advances.begin_run();
  for (; now < 2 * timeout; ++now)
    tick();
  for (auto _ : state) {
    advances.begin_run();
    for (const std::uint64_t end = now + timeout; now < end; ++now)
      tick();
    advances.end_run(state);
  }
  if (fired != 0) state.SkipWithError("a timer that was kept alive fired");
  advances.report(state);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(100'000)->Arg(1'000'000)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(move_in_wheel<Wheel<BareHook>>)->Name("Move/wheel/contiguous")->Apply(sizes);
BENCHMARK(move_in_wheel<Wheel<SessionSized>>)->Name("Move/wheel/in_344_B_sessions")->Apply(sizes);
BENCHMARK(move_in_wheel<CarefulWheel<BareHook>>)->Name("Move/wheel_arm/contiguous")->Apply(sizes);
BENCHMARK(move_in_wheel<CarefulWheel<SessionSized>>)
    ->Name("Move/wheel_arm/in_344_B_sessions")
    ->Apply(sizes);
BENCHMARK(move_elsewhere<BinaryHeap>)->Name("Move/binary_heap")->Apply(sizes);
BENCHMARK(move_elsewhere<Multimap>)->Name("Move/std_multimap")->Apply(sizes);
BENCHMARK(move_elsewhere<AsioTimers>)->Name("Move/asio_steady_timer")->Apply(sizes);

void runs(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(25)->Unit(benchmark::kMillisecond);
}

BENCHMARK(expire<Wheel<BareHook>>)->Name("Expire/wheel/contiguous")->Apply(runs);
BENCHMARK(expire<Wheel<SessionSized>>)->Name("Expire/wheel/in_344_B_sessions")->Apply(runs);
BENCHMARK(expire<BinaryHeap>)->Name("Expire/binary_heap")->Apply(runs);
BENCHMARK(expire<Multimap>)->Name("Expire/std_multimap")->Apply(runs);

void ticks(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"timers", "ticks_per_s"})->UseManualTime()->Iterations(5);
  benchmark->Unit(benchmark::kMillisecond);
  for (const std::int64_t per_second : {1, 10, 100})
    benchmark->Args({100'000, per_second});
}

BENCHMARK(keep_alive<Wheel<BareHook>>)->Name("KeepAlive/wheel/contiguous")->Apply(ticks);
BENCHMARK(keep_alive<Wheel<SessionSized>>)->Name("KeepAlive/wheel/in_344_B_sessions")->Apply(ticks);

}  // namespace
}  // namespace pulsewheel

// TimeWheel against a model that is too simple to be wrong: a std::multimap by deadline.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "daemon/core/time_wheel.h"
#include "tests/unit/core/wheel_fixture.h"

namespace pulsewheel {
namespace {

/// All armed hooks by deadline. A deadline that has passed counts as now.
class NaiveWheel {
 public:
  explicit NaiveWheel(Tick now) : now_(now) {}

  void arm(int id, Tick deadline) {
    cancel(id);
    where_[id] = by_deadline_.emplace(std::max(deadline, now_), id);
  }
  void cancel(int id) {
    const auto found = where_.find(id);
    if (found == where_.end()) return;
    by_deadline_.erase(found->second);
    where_.erase(found);
  }
  void set_now(Tick now) { now_ = now; }

  [[nodiscard]] bool armed(int id) const { return where_.contains(id); }
  [[nodiscard]] Tick deadline(int id) const { return where_.at(id)->first; }
  [[nodiscard]] std::optional<Tick> earliest() const {
    return by_deadline_.empty() ? std::nullopt : std::optional(by_deadline_.begin()->first);
  }

 private:
  Tick now_;
  std::multimap<Tick, int> by_deadline_;
  std::map<int, std::multimap<Tick, int>::iterator> where_;
};

/// Drives both with the same seeded operations and compares after each.
class Duel {
 public:
  static constexpr int kHooks = 300;

  explicit Duel(std::uint64_t seed)
      : random_(seed), start_{random_() % 2'000'000}, wheel_(start_), naive_(start_) {
    for (int i = 0; i < kHooks; ++i)
      hooks_.emplace_back(std::in_place, i);
  }

  void step() {
    const int id = static_cast<int>(below(kHooks));
    switch (below(16)) {
      case 0:
        return cancel(id);
      case 1:
        return destroy(id);
      case 2:
        return advance(below(70), kNoLimit);
      case 3:
        return advance(below(3), 1 + below(4));
      case 4:
        return advance(skip(), 1 + below(40));
      case 5:
        return take_expired(1 + below(5));
      case 6:
        return go_back();
      case 7:
        return jump_to_wakeup();
      default:
        return arm(id);
    }
  }

  void check_wakeup() {
    const std::optional<Tick> next = wheel_.next_wakeup();
    const std::optional<Tick> earliest = naive_.earliest();
    ASSERT_EQ(next.has_value(), earliest.has_value());
    if (next) {
      ASSERT_LE(*next, *earliest);
      ASSERT_GE(*next, wheel_.now());
    }
  }

  /// Lets everything run out.
  void finish() {
    while (naive_.earliest())
      advance(1'000'000, kNoLimit);
    take_expired(kHooks);
    ASSERT_EQ(wheel_.next_wakeup(), std::nullopt);
    for (std::size_t level = 0; level < TimeWheel::kLevels; ++level) {
      for (std::size_t slot = 0; slot < TimeWheel::kSlots; ++slot) {
        ASSERT_EQ(wheel_.slot_count(level, slot), 0U);
      }
    }
  }

  [[nodiscard]] std::uint64_t expired() const { return expired_; }
  [[nodiscard]] std::uint64_t unfinished() const { return unfinished_; }
  [[nodiscard]] std::uint64_t rescued() const { return rescued_; }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  /// Distances of every order of magnitude, and both sides of the level boundaries.
  std::uint64_t distance() {
    static constexpr std::uint64_t kEdges[] = {1, 29, 30, 31, 60, 900, 1'800, 27'000, 54'000};
    switch (below(8)) {
      case 0:
        return below(3);
      case 1:
        return below(62);
      case 2:
        return kEdges[below(std::size(kEdges))] + below(3);
      case 3:
        return below(2'000);
      case 4:
        return below(60'000);
      case 5:
        return below(100) == 0 ? below(10'000'000) : below(1'000);
      default:
        return 31;
    }
  }
  std::uint64_t skip() { return below(200) == 0 ? below(2'000'000) : below(1'000); }

  void arm(int id) {
    // Now and then a deadline that has passed.
    const std::uint64_t base = wheel_.now().count;
    const Tick deadline =
        below(50) == 0 ? Tick{base - std::min(base, below(40))} : Tick{base + distance()};
    TestHook& hook = *hooks_[static_cast<std::size_t>(id)];
    if (hook.linked() && !naive_.armed(id)) ++rescued_;  // off the expired list
    if (naive_.armed(id) && deadline >= naive_.deadline(id) && below(2) == 0) {
      TimeWheel::postpone(hook, deadline);
    } else {
      wheel_.arm(hook, deadline);
    }
    naive_.arm(id, deadline);
    ASSERT_TRUE(hook.linked());
    ASSERT_EQ(hook.deadline(), naive_.deadline(id));
  }

  void cancel(int id) {
    TestHook& hook = *hooks_[static_cast<std::size_t>(id)];
    wheel_.cancel(hook);
    naive_.cancel(id);
    ASSERT_FALSE(hook.linked());
  }

  void destroy(int id) {
    hooks_[static_cast<std::size_t>(id)].emplace(id);
    naive_.cancel(id);
  }

  void advance(std::uint64_t ticks, std::size_t budget) {
    const Tick target = wheel_.now() + ticks;
    HookList out;
    const bool finished = wheel_.advance(target, budget, out);
    naive_.set_now(wheel_.now());
    if (finished) {
      ASSERT_EQ(wheel_.now(), target);
    } else {
      ++unfinished_;
      ASSERT_LE(wheel_.now(), target);
      ASSERT_LE(*wheel_.next_wakeup(), wheel_.now());
    }
    collect(out);
    if (finished && naive_.earliest()) {
      ASSERT_GT(*naive_.earliest(), target);  // all that is due came out
    }
  }

  /// What came out must be the earliest of the model, one by one.
  void collect(HookList& out) {
    HookList checked;
    while (TimerHook* const popped = out.pop_front()) {
      const int id = owner_of<TestHook>(*popped).id;
      ASSERT_TRUE(naive_.armed(id));
      ASSERT_EQ(naive_.deadline(id), popped->deadline());
      ASSERT_EQ(popped->deadline(), *naive_.earliest());
      ASSERT_LE(popped->deadline(), wheel_.now());
      naive_.cancel(id);
      ++expired_;
      put_back(*popped, checked);
    }
    unhandled_.splice(checked);
  }

  /// Some stay on a list as not handled yet, so that later steps arm, cancel and destroy them
  /// there.
  void put_back(TimerHook& hook, HookList& list) {
    if (below(2) == 0) return;
    TimeWheel side(Tick{0});
    side.arm(hook, Tick{0});
    ASSERT_TRUE(side.advance(Tick{0}, kNoLimit, list));
  }

  void take_expired(std::uint64_t count) {
    for (; count > 0; --count) {
      TimerHook* const hook = unhandled_.pop_front();
      if (hook == nullptr) return;
      ASSERT_FALSE(hook->linked());
      ASSERT_FALSE(naive_.armed(owner_of<TestHook>(*hook).id));
    }
  }

  void go_back() {
    const Tick before = wheel_.now();
    HookList out;
    const bool finished = wheel_.advance(Tick{before.count / 2}, kNoLimit, out);
    ASSERT_TRUE(finished);
    ASSERT_EQ(wheel_.now(), before);
    collect(out);
  }

  void jump_to_wakeup() {
    if (const std::optional<Tick> next = wheel_.next_wakeup()) advance(*next - wheel_.now(), 2);
  }

  std::mt19937_64 random_;
  Tick start_;
  std::deque<std::optional<TestHook>> hooks_;
  HookList unhandled_;
  TimeWheel wheel_;
  NaiveWheel naive_;
  std::uint64_t expired_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t rescued_ = 0;
};

std::uint64_t seed_from_environment() {
  const char* const text = std::getenv("PULSEWHEEL_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20'240'229;
}

TEST(TimeWheelOracleTest, AgreesWithAMultimapForAMillionSteps) {
  constexpr int kRounds = 10;
  constexpr int kSteps = 100'000;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t seed = seed_from_environment() + round;
    Duel duel(seed);
    for (int step = 0; step < kSteps && !HasFatalFailure(); ++step) {
      SCOPED_TRACE("PULSEWHEEL_TEST_SEED=" + std::to_string(seed) + ", step " +
                   std::to_string(step));
      duel.step();
      duel.check_wakeup();
    }
    SCOPED_TRACE("PULSEWHEEL_TEST_SEED=" + std::to_string(seed));
    duel.finish();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_GT(duel.expired(), 10'000U);
    EXPECT_GT(duel.unfinished(), 1'000U);
    EXPECT_GT(duel.rescued(), 1'000U);
  }
}

}  // namespace
}  // namespace pulsewheel

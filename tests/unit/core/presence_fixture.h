// What the registry's tests share: a registry on a wheel of one-second ticks, told the time in
// milliseconds after its start.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "daemon/core/presence_registry.h"

namespace pulsewheel {

class PresenceFixture : public ::testing::Test {
 protected:
  static constexpr MonoTime kStart{std::chrono::seconds{1'000}};
  static constexpr std::int64_t kTimeoutMs = 30'000;  // of sessions that are to have one

  static constexpr MonoTime at(std::int64_t ms) { return kStart + std::chrono::milliseconds{ms}; }
  static constexpr SessionRef session(std::uint32_t number, ShardIndex shard = 0) {
    return {number, 1, shard};
  }

  void make(const PresenceRegistry::Options& options = {}) {
    registry_ = std::make_unique<PresenceRegistry>(options, wheel_, clock_);
  }
  PresenceRegistry& registry() {
    if (!registry_) make();
    return *registry_;
  }

  LoginDecision login(std::string_view uid, SessionRef ref, std::int64_t ms,
                      std::string_view device = "") {
    return registry().login({uid, device, ref, at(ms)}, at(ms), edges_);
  }
  /// Ends a session whose last packet came a second before its deadline.
  bool end(UserRef user, SessionRef ref, CloseReason reason, std::int64_t now_ms,
           std::int64_t deadline_ms) {
    return registry().end_session({user, ref, reason, at(deadline_ms - 1'000), at(deadline_ms)},
                                  at(now_ms), edges_);
  }
  /// Turns the wheel and handles what expires. Returns how many hooks that were.
  std::size_t advance(std::int64_t ms) {
    HookList expired;
    EXPECT_TRUE(wheel_.advance(clock_.floor(at(ms)), 1'000'000, expired));
    std::size_t hooks = 0;
    for (; TimerHook* hook = expired.pop_front(); ++hooks) {
      registry().expire_lingering(*hook, at(ms), edges_);
    }
    return hooks;
  }
  /// How many hooks the wheel counts as filed.
  std::size_t armed_hooks() const {
    std::size_t count = 0;
    for (std::size_t level = 0; level < TimeWheel::kLevels; ++level) {
      for (std::size_t slot = 0; slot < TimeWheel::kSlots; ++slot) {
        count += wheel_.slot_count(level, slot);
      }
    }
    return count;
  }

  PresenceState state(std::string_view uid, std::int64_t ms) {
    return registry().find(uid, at(ms)).state;
  }
  /// The one edge since the last call.
  Edge only_edge() {
    EXPECT_EQ(edges_.size(), 1U);
    taken_ = std::move(edges_);
    edges_ = {};
    return taken_.empty() ? Edge{} : taken_.at(0);
  }
  void drop_edges() { edges_.clear(); }

  TickClock clock_{kStart, std::chrono::seconds{1}};
  TimeWheel wheel_{Tick{0}};
  EdgeBatch edges_;

 private:
  EdgeBatch taken_;
  std::unique_ptr<PresenceRegistry> registry_;
};

}  // namespace pulsewheel

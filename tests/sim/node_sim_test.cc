// A million steps of a node's life, over all profiles; and rules broken on purpose, each noticed.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "tests/sim/simulation.h"

namespace pulsewheel::nodesim {

void PrintTo(const Profile& profile, std::ostream* out) {
  *out << profile.name;
}

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 1;  // with a sanitizer a step takes ten times as long
#else
constexpr std::uint64_t kSeeds = 3;
#endif
constexpr std::uint64_t kStepsPerSeed = 2'000'000;  // over all profiles

std::uint64_t offline(const Tally& tally, EdgeReason reason) {
  return tally.offline[static_cast<std::size_t>(reason)];
}

class NodeSimTest : public testing::TestWithParam<Profile> {};

TEST_P(NodeSimTest, KeepsItsPromises) {
  const std::uint64_t steps = kStepsPerSeed / profiles().size() + 1;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    try {
      Simulation simulation(GetParam(), seed);
      simulation.run(steps);
      simulation.settle();
      const Tally& tally = simulation.tally();
      EXPECT_GT(tally.logins, 0U);
      EXPECT_GT(offline(tally, EdgeReason::kTimeout), 0U);
      EXPECT_GT(tally.checks_at_rest, 0U);
    } catch (const Violation& violation) {
      ADD_FAILURE() << violation.what();
    }
  }
}

/// GoogleTest's names have letters and digits only.
std::string without_dashes(std::string_view text) {
  std::string name(text);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Profiles, NodeSimTest, testing::ValuesIn(profiles()),
                         [](const auto& tested) { return without_dashes(tested.param.name); });

TEST(NodeSimReplayTest, TheSameSeedIsTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    Simulation simulation(*find_profile("everything"), seed);
    simulation.run(30'000);
    return std::pair{simulation.virtual_time(), simulation.tally().packets_read};
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(NodeSimCoverageTest, EverythingThatCanHappenHappens) {
  Tally all;
  for (const char* profile : {"everything", "hiccups", "restarts"}) {
    Simulation simulation(*find_profile(profile), 1);
    simulation.run(400'000);
    const Tally& t = simulation.tally();
    all.takeovers += t.takeovers;
    all.refused += t.refused;
    all.closed_while_decided += t.closed_while_decided;
    all.reprieves += t.reprieves;
    all.stalls += t.stalls;
    all.fences += t.fences;
    all.kicks += t.kicks;
    all.holds += t.holds;
    all.holds_over += t.holds_over;
    all.settings += t.settings;
    all.deadlines += t.deadlines;
    all.crashes += t.crashes;
    all.clean_stops += t.clean_stops;
    for (std::size_t i = 0; i < all.offline.size(); ++i)
      all.offline[i] += t.offline[i];
  }
  EXPECT_GT(all.takeovers, 0U);
  EXPECT_GT(all.refused, 0U);
  EXPECT_GT(all.closed_while_decided, 0U);
  EXPECT_GT(all.reprieves, 0U);
  EXPECT_GT(all.stalls, 0U);
  EXPECT_GT(all.fences, 0U);
  EXPECT_GT(all.kicks, 0U);
  EXPECT_GT(all.holds, all.holds_over);
  EXPECT_GT(all.holds_over, 0U);
  EXPECT_GT(all.settings, 0U);
  EXPECT_GT(all.deadlines, 0U);
  EXPECT_GT(all.crashes, 0U);
  EXPECT_GT(all.clean_stops, 0U);
  for (const EdgeReason reason :
       {EdgeReason::kTimeout, EdgeReason::kLogout, EdgeReason::kDisconnect, EdgeReason::kKicked,
        EdgeReason::kShutdown}) {
    EXPECT_GT(offline(all, reason), 0U) << to_string(reason);
  }
}

/// A rule, and where breaking it shows.
struct Case {
  Sabotage sabotage;
  const char* profile;
};

class SabotageTest : public testing::TestWithParam<Case> {};

TEST_P(SabotageTest, IsNoticed) {
  constexpr std::uint64_t kStepsMax = 2'000'000;
  EXPECT_THROW(
      {
        Simulation simulation(*find_profile(GetParam().profile), 1, GetParam().sabotage);
        simulation.run(kStepsMax);
      },
      Violation);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, SabotageTest,
    testing::Values(
        Case{Sabotage::kFenceWithoutReading, "everything"},
        Case{Sabotage::kBlindDeadline, "hiccups"}, Case{Sabotage::kLoginsOvertaken, "stalls"},
        Case{Sabotage::kLostDismissal, "takeovers"}, Case{Sabotage::kBlindStall, "stalls"},
        Case{Sabotage::kExpiresAhead, "everything"}, Case{Sabotage::kLateWakeup, "calm"},
        Case{Sabotage::kForgottenKeepalive, "calm"}, Case{Sabotage::kForgottenEnd, "stalls"},
        Case{Sabotage::kForgottenTouch, "takeovers"}, Case{Sabotage::kDoubleLogin, "calm"},
        Case{Sabotage::kForgottenRest, "single"}, Case{Sabotage::kTimeRunsWhileHeld, "reloads"}),
    [](const auto& tested) { return without_dashes(to_string(tested.param.sabotage)); });

}  // namespace
}  // namespace pulsewheel::nodesim

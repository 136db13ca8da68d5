// The death of a node with thousands of users.
#include <gtest/gtest.h>

#include "tests/integration/shared_ring.h"

namespace pulsewheel::test {
namespace {

TEST(RedisSharedSlowTest, AKilledNodesThousandsOfUsersGoOfflineOnceUnlessTheyComeBack) {
  check_a_killed_node(3'000, Afterlife::kNone);
}

TEST(RedisSharedSlowTest, ANodeOfThousandsThatRestartsAtOnceJoinsAfterItsLeaseAndDoublesNoEdge) {
  check_a_killed_node(3'000, Afterlife::kRestarted);
}

}  // namespace
}  // namespace pulsewheel::test

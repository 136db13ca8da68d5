#include "daemon/net/session_slab.h"

#include <gtest/gtest.h>

#include <new>
#include <set>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/unit/net/fake_shard.h"

namespace pulsewheel {
namespace {

/// Sessions without a connection, which need no more than memory.
class SessionSlabTest : public testing::Test {
 protected:
  ~SessionSlabTest() override {
    for (std::uint32_t slot = 0; slot < slab_.slots(); ++slot) {
      if (Session* const session = slab_.at(slot)) slab_.destroy(*session);
    }
  }
  Session& create() { return slab_.create(context_, ShardSocket(shard_.io), MonoTime{}); }

  FakeShard shard_;
  SessionCounters counters_;
  ShardContext context_{.shard = 3,
                        .options = shard_.options,
                        .wheel = shard_.wheel,
                        .clock = shard_.context.clock,
                        .counters = counters_,
                        .host = shard_,
                        .jitter = std::minstd_rand(1)};
  SessionSlab slab_;
};

TEST_F(SessionSlabTest, SessionIsFoundByItsRef) {
  Session& first = create();
  Session& second = create();
  EXPECT_EQ(slab_.find(first.ref()), &first);
  EXPECT_EQ(slab_.find(second.ref()), &second);
  EXPECT_EQ(first.ref().shard, 3);
  EXPECT_EQ(slab_.size(), 2U);
}

TEST_F(SessionSlabTest, NobodyIsFoundByARefThatNamesNobody) {
  EXPECT_EQ(slab_.find({}), nullptr);
  const SessionRef ref = create().ref();
  EXPECT_EQ(slab_.find({}), nullptr);
  EXPECT_EQ(slab_.find({ref.index + 1, ref.generation, ref.shard}), nullptr);
  EXPECT_EQ(slab_.find({ref.index, ref.generation + 1, ref.shard}), nullptr);
}

TEST_F(SessionSlabTest, StaleRefFindsNobody) {
  const SessionRef stale = create().ref();
  slab_.destroy(*slab_.find(stale));
  EXPECT_EQ(slab_.find(stale), nullptr);
  EXPECT_EQ(slab_.size(), 0U);
}

TEST_F(SessionSlabTest, StaleRefDoesNotFindTheNextSessionInTheSlot) {
  std::set<std::uint32_t> generations;
  for (int i = 0; i < 100; ++i) {
    Session& session = create();
    EXPECT_EQ(session.ref().index, 0U);
    EXPECT_TRUE(generations.insert(session.ref().generation).second);
    const SessionRef stale = session.ref();
    slab_.destroy(session);
    EXPECT_EQ(slab_.find(stale), nullptr);
  }
}

TEST_F(SessionSlabTest, FreeSlotsAreGivenOutBeforeNewOnes) {
  std::vector<SessionRef> refs;
  for (std::size_t i = 0; i < 2 * SessionSlab::kChunkSize; ++i)
    refs.push_back(create().ref());
  const std::uint32_t slots = slab_.slots();
  for (std::size_t i = 0; i < refs.size(); i += 3)
    slab_.destroy(*slab_.find(refs[i]));
  for (std::size_t i = 0; i < refs.size(); i += 3)
    create();
  EXPECT_EQ(slab_.slots(), slots);
  create();
  EXPECT_EQ(slab_.slots(), slots + 1);
}

TEST_F(SessionSlabTest, SessionsStayWhereTheyAreWhileTheSlabGrows) {
  std::vector<Session*> sessions;
  std::set<Session*> addresses;
  for (std::size_t i = 0; i < 5 * SessionSlab::kChunkSize + 1; ++i) {
    sessions.push_back(&create());
    addresses.insert(sessions.back());
  }
  EXPECT_EQ(addresses.size(), sessions.size());
  for (Session* const session : sessions)
    EXPECT_EQ(slab_.find(session->ref()), session);
}

// With ever more allocations that succeed, until a whole growth does.
TEST_F(SessionSlabTest, GrowthWithoutMemoryChangesNothing) {
  std::uint64_t successes = 0;
  for (; slab_.slots() == 0; ++successes) {
    SCOPED_TRACE(successes);
    const support::FailingAllocations short_of_memory(successes);
    try {
      create();
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(slab_.slots(), 0U);
      EXPECT_EQ(slab_.size(), 0U);
    }
  }
  EXPECT_EQ(successes, 5U);  // generations, free slots, and a chunk with its place
  EXPECT_EQ(slab_.size(), 1U);
  EXPECT_EQ(slab_.at(0)->ref().index, 0U);
}

TEST_F(SessionSlabTest, WalkSeesEachSessionAndNoFreeSlot) {
  create();
  const SessionRef gone = create().ref();
  create();
  slab_.destroy(*slab_.find(gone));
  ASSERT_EQ(slab_.slots(), 3U);
  EXPECT_NE(slab_.at(0), nullptr);
  EXPECT_EQ(slab_.at(1), nullptr);
  EXPECT_NE(slab_.at(2), nullptr);
}

}  // namespace
}  // namespace pulsewheel

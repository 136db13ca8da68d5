#include "daemon/events/event_ring.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/allocation_counter.h"

namespace pulsewheel {
namespace {

using Place = EventRing::Place;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kEpoch = 3;

/// A ring and the numbers of the edges that are added to it.
class EventRingTest : public testing::Test {
 protected:
  EventRing& ring() {
    if (!ring_) {
      options_.epoch = kEpoch;
      next_seq_ = options_.first_seq;
      ring_ = std::make_unique<EventRing>(options_);
      ring_->set_on_news([this] { ++news_; });
    }
    return *ring_;
  }
  void add(const std::vector<std::string>& uids) {
    const auto batch = std::make_shared<EdgeBatch>();
    for (const std::string& uid : uids) {
      Edge edge;
      edge.uid = uid;
      edge.at = edge.last_seen = MonoClock::now();
      batch->push(edge);
    }
    EventRing& to = ring();
    to.on_edges({batch, kEpoch, next_seq_});
    next_seq_ += uids.size();
  }
  void add_edges(std::size_t count) { add(std::vector<std::string>(count, "somebody")); }
  void add_gap(std::uint64_t count) {
    ring().on_gap({kEpoch, next_seq_, next_seq_ + count - 1});
    next_seq_ += count;
  }

  /// The text behind seq `seq`.
  std::string text_after(std::uint64_t seq, std::string_view uid = {}) {
    const EventRing::Events events = ring().after({kEpoch, seq}, uid);
    EXPECT_EQ(events.place, Place::kInside);
    return events.text->sse.substr(events.begin);
  }
  Place place(EventCursor cursor) { return ring().after(cursor).place; }
  /// The numbers of all edges behind seq `seq`, as a follower gets them.
  std::vector<std::uint64_t> follow(std::uint64_t seq, std::string_view uid = {}) {
    std::vector<std::uint64_t> seqs;
    EventCursor cursor{kEpoch, seq};
    for (;;) {
      const EventRing::Events events = ring().after(cursor, uid);
      if (events.place != Place::kInside) break;
      EXPECT_GT(events.last, cursor);
      cursor = events.last;
      const std::string sse = events.text->sse.substr(events.begin);
      for (std::size_t at = sse.find("id: 3-"); at != sse.npos; at = sse.find("id: 3-", at + 1))
        seqs.push_back(std::stoull(sse.substr(at + 6)));
    }
    EXPECT_EQ(cursor, ring().newest());
    return seqs;
  }

  EventRing::Options options_;
  std::unique_ptr<EventRing> ring_;
  std::uint64_t next_seq_ = 1;
  int news_ = 0;
};

std::vector<std::uint64_t> from_to(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = first; i <= last; ++i)
    numbers.push_back(i);
  return numbers;
}

TEST_F(EventRingTest, AnEventIsItsIdAndTheLineOfTheEventLog) {
  add({"alice"});
  const std::string text = text_after(0);
  EXPECT_THAT(text, StartsWith("id: 3-1\ndata: {\"seq\":1,\"epoch\":3,\"uid\":\"alice\",\"kind\":"
                               "\"online\",\"reason\":\"login\",\"at\":\""));
  EXPECT_TRUE(text.ends_with(",\"sessions\":0}\n\n"));
}

TEST_F(EventRingTest, AGapIsAnEventOfItsOwnName) {
  add_edges(1);
  add_gap(3);
  add_edges(1);
  EXPECT_EQ(text_after(1),
            "id: 3-4\nevent: gap\ndata: {\"gap\":true,\"dropped\":3,\"first_seq\":2,"
            "\"last_seq\":4}\n\n");
  EXPECT_THAT(text_after(4), StartsWith("id: 3-5\ndata: "));
  EXPECT_EQ(text_after(2), text_after(1));  // a place inside of it
}

TEST_F(EventRingTest, UidsOfAnyBytesHarmNoLine) {
  add({std::string("\n\r\0data: \xff", 10)});
  EXPECT_THAT(text_after(0), HasSubstr("\"uid\":\"%0A%0D%00data%3A%20%FF\""));
}

TEST_F(EventRingTest, EverythingBehindAnyPlaceComesOnceAndInOrder) {
  // Batches that do not fit the chunks, read in between so that the texts do not either.
  for (const std::size_t count : {1U, 100U, 27U, 1U, 300U, 5U}) {
    add_edges(count);
    if (count != 27) static_cast<void>(follow(0));
  }
  for (std::uint64_t seq = 0; seq <= 434; ++seq) {
    ASSERT_EQ(follow(seq), from_to(seq + 1, 434)) << seq;
  }
}

TEST_F(EventRingTest, TextIsMadeOnceForAll) {
  add_edges(10);
  const auto first = ring().after({kEpoch, 0});
  const auto second = ring().after({kEpoch, 7});
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(first.last, second.last);
}

TEST_F(EventRingTest, TextLivesAsLongAsItsReader) {
  options_.entries_min = EventRing::kChunkEdges;
  add({"alice"});
  const auto events = ring().after({kEpoch, 0});
  add_edges(4 * EventRing::kChunkEdges);
  EXPECT_EQ(place({kEpoch, 0}), Place::kTooOld);
  EXPECT_THAT(events.text->sse, HasSubstr("alice"));
}

TEST_F(EventRingTest, KeepsAtLeastWhatItShouldAndLittleMore) {
  options_.entries_min = 1000;
  add_edges(100'000);
  const std::uint64_t oldest = ring().back(UINT64_MAX).seq + 1;
  EXPECT_LE(oldest, 100'000U - 1000 + 1);
  EXPECT_GT(oldest, 100'000U - 1000 - EventRing::kChunkEdges);
  EXPECT_EQ(follow(oldest - 1), from_to(oldest, 100'000));
  EXPECT_EQ(place({kEpoch, oldest - 2}), Place::kTooOld);
}

TEST_F(EventRingTest, SingleEdgesAreForgottenToo) {
  options_.entries_min = 10;
  for (int i = 0; i < 1000; ++i)
    add_edges(1);
  EXPECT_GT(ring().back(UINT64_MAX).seq, 1000U - 10 - EventRing::kChunkEdges - 1);
}

TEST_F(EventRingTest, KnowsEveryKindOfPlace) {
  add_edges(5);
  EXPECT_EQ(place({kEpoch, 0}), Place::kInside);
  EXPECT_EQ(place({kEpoch, 4}), Place::kInside);
  EXPECT_EQ(place({kEpoch, 5}), Place::kNewest);
  EXPECT_EQ(place({kEpoch, 6}), Place::kAhead);
  EXPECT_EQ(place({kEpoch - 1, 3}), Place::kOtherEpoch);
  EXPECT_EQ(place({kEpoch + 1, 0}), Place::kOtherEpoch);
}

TEST_F(EventRingTest, AnEmptyRingHasItsBeginningOnly) {
  EXPECT_EQ(ring().newest(), (EventCursor{kEpoch, 0}));
  EXPECT_EQ(place({kEpoch, 0}), Place::kNewest);
  EXPECT_EQ(place({kEpoch, 1}), Place::kAhead);
}

TEST_F(EventRingTest, ARunThatGoesOnTakesCursorsFromTheEndOfTheOneBefore) {
  options_.first_seq = 101;
  options_.continued_epoch = kEpoch - 1;
  EXPECT_EQ(place({kEpoch - 1, 100}), Place::kNewest);
  add_edges(2);
  EXPECT_EQ(place({kEpoch - 1, 100}), Place::kInside);
  EXPECT_EQ(ring().after({kEpoch - 1, 100}).last, (EventCursor{kEpoch, 102}));
  EXPECT_EQ(place({kEpoch - 1, 99}), Place::kOtherEpoch);
  EXPECT_EQ(place({kEpoch - 1, 101}), Place::kOtherEpoch);
  EXPECT_EQ(place({kEpoch, 99}), Place::kTooOld);
  EXPECT_EQ(ring().back(10), (EventCursor{kEpoch, 100}));
}

TEST_F(EventRingTest, BeginsWithTheFirstEdgeThereIs) {
  static_cast<void>(ring());
  next_seq_ = 51;
  add_edges(1);
  EXPECT_EQ(ring().back(10), (EventCursor{kEpoch, 50}));
  EXPECT_EQ(place({kEpoch, 49}), Place::kTooOld);
  EXPECT_EQ(follow(50), from_to(51, 51));
}

TEST_F(EventRingTest, BackGoesAsFarAsThereAreEvents) {
  add_edges(5);
  EXPECT_EQ(ring().back(2), (EventCursor{kEpoch, 3}));
  EXPECT_EQ(ring().back(50), (EventCursor{kEpoch, 0}));
}

TEST_F(EventRingTest, FollowsOneUserAndTheGaps) {
  add({"alice", "bob", "alice2"});
  add_gap(2);
  add({"bob", "alice"});
  EXPECT_EQ(follow(0, "alice"), (std::vector<std::uint64_t>{1, 5, 7}));
  EXPECT_THAT(text_after(0, "alice"), Not(HasSubstr("bob")));
}

TEST_F(EventRingTest, AFollowerOfOneUserMovesOnPastTheOthers) {
  add_edges(1000);
  const auto events = ring().after({kEpoch, 0}, "nobody");
  EXPECT_EQ(events.text->sse, "");
  EXPECT_EQ(events.last, (EventCursor{kEpoch, EventRing::kChunkEdges}));
  EXPECT_EQ(follow(0, "nobody"), (std::vector<std::uint64_t>{}));
}

TEST_F(EventRingTest, TellsNewsOnceAndOnlyWhoeverAsked) {
  add_edges(1);
  EXPECT_EQ(news_, 0);
  EXPECT_FALSE(ring().arm({kEpoch, 0}));
  EXPECT_TRUE(ring().arm({kEpoch, 1}));
  EXPECT_TRUE(ring().arm({kEpoch, 1}));
  add_edges(1);
  add_edges(1);
  EXPECT_EQ(news_, 1);
  EXPECT_TRUE(ring().arm({kEpoch, 3}));
  add_gap(1);
  EXPECT_EQ(news_, 2);
}

TEST_F(EventRingTest, NoNewsIsLostBetweenALookAndTheWait) {
  // A follower that sleeps only when told that there is nothing, beside a thread that adds.
  constexpr std::uint64_t kEdges = 20'000;
  std::atomic<bool> news{false};
  ring().set_on_news([&news] {
    news = true;
    news.notify_one();
  });
  std::thread adder([this] {
    for (std::uint64_t i = 0; i < kEdges; ++i)
      add_edges(1);
  });
  EventCursor cursor{kEpoch, 0};
  while (cursor.seq < kEdges) {
    const auto events = ring().after(cursor);
    if (events.place == Place::kInside) {
      cursor = events.last;
      continue;
    }
    ASSERT_EQ(events.place, Place::kNewest);
    news = false;
    if (ring().arm(cursor)) news.wait(false);
  }
  adder.join();
}

TEST_F(EventRingTest, HasItsMemoryFromTheStart) {
  constexpr std::size_t kEntries = 16'384;
  constexpr std::int64_t kBytesPerEdge = 40;  // at least
  options_.entries_min = kEntries;
  const std::int64_t before = support::heap_bytes();
  ring();
  const std::int64_t empty = support::heap_bytes() - before;
  EXPECT_GE(empty, static_cast<std::int64_t>(kEntries) * kBytesPerEdge);
  for (std::size_t i = 0; i < 3 * kEntries / EventRing::kChunkEdges; ++i)
    add(std::vector<std::string>(EventRing::kChunkEdges, std::string(EventRing::kUidBytes, 'u')));
  EXPECT_LT(support::heap_bytes() - before, empty + empty / 10);
}

TEST_F(EventRingTest, EdgesOfAUserComeNewestFirst) {
  add({"alice", "bob", "alice"});
  add_gap(2);
  add_edges(300);
  add({"alice"});
  const auto seqs = [this](std::size_t count) {
    std::vector<std::uint64_t> out;
    for (const EventRing::PastEdge& edge : ring().edges_of("alice", count))
      out.push_back(edge.seq);
    return out;
  };
  EXPECT_EQ(seqs(10), (std::vector<std::uint64_t>{306, 3, 1}));
  EXPECT_EQ(seqs(2), (std::vector<std::uint64_t>{306, 3}));
  EXPECT_TRUE(ring().edges_of("nobody", 10).empty());
}

}  // namespace
}  // namespace pulsewheel

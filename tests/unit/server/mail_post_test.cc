#include "daemon/server/mail_post.h"

#include <limits>
#include <new>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/allocation_counter.h"

namespace pulsewheel {
namespace {

using Askers = std::vector<ShardIndex>;

MailBatch mail_of(const Askers& askers) {
  MailBatch batch;
  for (const ShardIndex asker : askers)
    batch.emplace_back(FenceMail{asker});
  return batch;
}

Askers askers_in(const MailBatch& batch) {
  Askers askers;
  for (const Mail& mail : batch)
    askers.push_back(std::get<FenceMail>(mail).asker);
  return askers;
}

/// What is to be done with a batch, breaking after so many moves: Asio takes some of its memory
/// where the tests cannot let it fail.
class Brittle {
 public:
  Brittle(int& moves_left, std::vector<Askers>& deliveries)
      : moves_left_(&moves_left), deliveries_(&deliveries) {}
  Brittle(Brittle&& other) : moves_left_(other.moves_left_), deliveries_(other.deliveries_) {
    if (--*moves_left_ < 0) throw std::bad_alloc();
  }

  void operator()(MailBatch& batch) const { deliveries_->push_back(askers_in(batch)); }

 private:
  int* moves_left_;
  std::vector<Askers>* deliveries_;
};

TEST(PostMailTest, TakesWhatIsInTheOutboxToTheOtherLoopInItsOrder) {
  boost::asio::io_context loop;
  MailBatch outbox = mail_of({3, 1, 2});
  Askers delivered;
  post_mail(loop, outbox, [&](MailBatch& batch) { delivered = askers_in(batch); });
  EXPECT_TRUE(outbox.empty());
  EXPECT_TRUE(delivered.empty());
  loop.run();
  EXPECT_EQ(delivered, (Askers{3, 1, 2}));
}

TEST(PostMailTest, WithoutMemoryForTheBatchEverythingStaysInTheOutbox) {
  boost::asio::io_context loop;
  MailBatch outbox = mail_of({1, 2});
  {
    const support::FailingAllocations failing(0);
    EXPECT_THROW(post_mail(loop, outbox, [](MailBatch&) {}), std::bad_alloc);
  }
  EXPECT_EQ(askers_in(outbox), (Askers{1, 2}));
}

TEST(PostMailTest, HoweverFarAPostHasComeItsFailureLeavesEverythingInTheOutbox) {
  boost::asio::io_context loop;
  MailBatch outbox = mail_of({1, 2});
  std::vector<Askers> deliveries;
  int moves = 0;
  int moves_left = 0;
  for (bool failed = true; failed; ++moves) {
    moves_left = moves;
    try {
      post_mail(loop, outbox, Brittle(moves_left, deliveries));
      failed = false;
    } catch (const std::bad_alloc&) {
      ASSERT_EQ(askers_in(outbox), (Askers{1, 2})) << moves;
    }
  }
  EXPECT_GT(moves, 2) << "no post has failed on its way";
  EXPECT_TRUE(outbox.empty());
  moves_left = std::numeric_limits<int>::max();  // on its way out of the loop it moves again
  loop.run();
  EXPECT_EQ(deliveries, (std::vector<Askers>{{1, 2}}));
}

}  // namespace
}  // namespace pulsewheel

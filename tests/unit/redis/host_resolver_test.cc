#include "daemon/redis/host_resolver.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "daemon/base/time.h"
#include "tests/support/eventually.h"
#include "tests/support/run_until.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::make_address;
using testing::ElementsAre;

/// Look-ups that hang until they are told to end. Their threads may outlive a test.
class HostResolverTest : public testing::Test {
 protected:
  struct Hanging {
    std::promise<void> end;
    std::shared_future<void> ends{end.get_future()};
    std::atomic<int> begun{0};
    std::atomic<int> ended{0};
  };

  ~HostResolverTest() override {
    let_go();
    EXPECT_TRUE(test::eventually([&] { return hanging_->ended == hanging_->begun; }));
  }

  HostResolver::Lookup hang() {
    return [hanging = hanging_](const std::string&) -> HostAddresses {
      ++hanging->begun;
      hanging->ends.wait();
      ++hanging->ended;
      return {.addresses = {make_address("192.0.2.1")}};
    };
  }
  void let_go() {
    if (!std::exchange(told_, true)) hanging_->end.set_value();
  }

  HostResolver::Callback keep() {
    return [this](HostAddresses found) { found_ = std::move(found); };
  }
  [[nodiscard]] bool run_until_found() {
    return test::run_until(*io_, [this] { return found_.has_value(); });
  }

  const std::shared_ptr<Hanging> hanging_ = std::make_shared<Hanging>();
  std::optional<boost::asio::io_context> io_{std::in_place, 1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_{
      io_->get_executor()};
  std::optional<HostAddresses> found_;
  bool told_ = false;  // to end
};

TEST_F(HostResolverTest, FindsALocalName) {
  HostResolver resolver(*io_, "localhost");
  resolver.resolve(keep());
  ASSERT_TRUE(run_until_found());
  EXPECT_FALSE(found_->addresses.empty()) << found_->error;
  for (const auto& address : found_->addresses)
    EXPECT_TRUE(address.is_loopback()) << address;
}

TEST_F(HostResolverTest, SaysWhyThereIsNoAddress) {
  HostResolver resolver(*io_, std::string(300, 'x'));  // no name is that long
  resolver.resolve(keep());
  ASSERT_TRUE(run_until_found());
  EXPECT_TRUE(found_->addresses.empty());
  EXPECT_FALSE(found_->error.empty());
}

TEST_F(HostResolverTest, ALookUpThatThrowsIsOneWithoutAddresses) {
  HostResolver resolver(*io_, "host", [](const std::string&) -> HostAddresses {
    throw std::runtime_error("out of order");
  });
  resolver.resolve(keep());
  ASSERT_TRUE(run_until_found());
  EXPECT_EQ(found_->error, "out of order");
}

TEST_F(HostResolverTest, ALookUpThatHangsDoesNotHoldUpTheEnd) {
  {
    HostResolver resolver(*io_, "host", hang());
    resolver.resolve(keep());
    ASSERT_TRUE(test::eventually([&] { return hanging_->begun == 1; }));
  }
  work_.reset();
  io_.reset();
  EXPECT_EQ(hanging_->ended, 0);
}

TEST_F(HostResolverTest, WhoeverAsksDuringALookUpGetsItsAnswer) {
  HostResolver resolver(*io_, "host", hang());
  bool first_was_called = false;
  resolver.resolve([&](const HostAddresses&) { first_was_called = true; });
  ASSERT_TRUE(test::eventually([&] { return hanging_->begun == 1; }));
  resolver.resolve(keep());
  let_go();
  ASSERT_TRUE(run_until_found());
  EXPECT_THAT(found_->addresses, ElementsAre(make_address("192.0.2.1")));
  EXPECT_FALSE(first_was_called);
  EXPECT_EQ(hanging_->begun, 1);
}

TEST_F(HostResolverTest, LooksUpAgainEachTimeOnceTheLastOneHasEnded) {
  HostResolver resolver(*io_, "host", hang());
  let_go();
  for (int look_up = 1; look_up <= 3; ++look_up) {
    found_.reset();
    resolver.resolve(keep());
    ASSERT_TRUE(run_until_found());
    EXPECT_EQ(hanging_->begun, look_up);
  }
}

TEST_F(HostResolverTest, NobodyIsCalledAfterACancel) {
  HostResolver resolver(*io_, "host", hang());
  resolver.resolve(keep());
  resolver.cancel();
  let_go();
  ASSERT_EQ(io_->run_one_for(60s), 1U);  // only a hang takes that long
  EXPECT_FALSE(found_);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/server/passed_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/server/start_error.h"

namespace pulsewheel {
namespace {

using boost::asio::ip::make_address;
using boost::asio::ip::tcp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const tcp::endpoint kV4{make_address("0.0.0.0"), 7600};
const tcp::endpoint kV6{make_address("::"), 7600};

PassedListener listener_of(std::size_t sockets) {
  return {kV4, std::vector<int>(sockets, 3)};
}

/// What it says where it throws.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const StartError& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfig);
    return error.what();
  }
  return "";
}

TEST(PassedListenersTest, SocketsOfOneAddressAreOneListener) {
  const auto listeners = group_by_address({{3, kV4}, {4, kV6}, {5, kV4}}, 16);
  ASSERT_EQ(listeners.size(), 2U);
  EXPECT_EQ(listeners[0].endpoint, kV4);
  EXPECT_THAT(listeners[0].descriptors, ElementsAre(3, 5));
  EXPECT_THAT(listeners[1].descriptors, ElementsAre(4));
}

TEST(PassedListenersTest, MoreAddressesThanCanBeServedAreRefused) {
  EXPECT_EQ(group_by_address({{3, kV4}, {4, kV6}}, 2).size(), 2U);
  EXPECT_THAT(refusal([] {
                return group_by_address({{3, kV4}, {4, kV6}}, 1);
              }),
              HasSubstr("for 2 addresses were passed: at most 1"));
}

TEST(PassedListenersTest, OneSocketIsSharedByAllShards) {
  const PassedListener listener{kV4, {3}};
  EXPECT_EQ(listener.descriptor_of(0), 3);
  EXPECT_EQ(listener.descriptor_of(7), 3);
}

TEST(PassedListenersTest, SeveralSocketsGoToAShardEach) {
  const PassedListener listener{kV4, {3, 4, 5}};
  EXPECT_EQ(listener.descriptor_of(0), 3);
  EXPECT_EQ(listener.descriptor_of(2), 5);
}

TEST(PassedListenersTest, SocketsDecideTheShardsWhereTheConfigurationDoesNot) {
  EXPECT_EQ(shards_for({}, 0), 0U);
  EXPECT_EQ(shards_for({listener_of(1)}, 0), 0U);
  EXPECT_EQ(shards_for({listener_of(1), listener_of(4)}, 0), 4U);
  EXPECT_EQ(shards_for({listener_of(4)}, 2), 2U);
  EXPECT_EQ(shards_for({listener_of(300)}, 0), 256U);
}

TEST(PassedListenersTest, OneForEachShardOrOneForAllIsAccepted) {
  EXPECT_NO_THROW(check_listeners({}, 4, ""));
  EXPECT_NO_THROW(check_listeners({listener_of(1), listener_of(4)}, 4, ""));
}

TEST(PassedListenersTest, TooManyAndTooFewAreRefusedWithTheWayOut) {
  for (const std::size_t count : {2U, 3U, 5U}) {
    const std::string number = std::to_string(count);
    EXPECT_THAT(refusal([&] { check_listeners({listener_of(count)}, 4, "because"); }),
                testing::AllOf(HasSubstr(number + " sockets were passed for 0.0.0.0:7600, and "
                                                  "there are 4 shards (because)"),
                               HasSubstr("pass one for each shard")));
  }
}

}  // namespace
}  // namespace pulsewheel

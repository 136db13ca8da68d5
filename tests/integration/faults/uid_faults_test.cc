// uids that are made to break what prints, parses or stores them: the exact bytes come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/base/percent.h"
#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

/// Every byte alone, and what has a meaning in a URL, in JSON, in a log, in Redis, in HTML or in
/// a terminal.
std::vector<std::string> nasty_uids() {
  std::vector<std::string> uids;
  for (int byte = 0; byte < 256; ++byte)
    uids.emplace_back(1, static_cast<char>(byte));
  const std::string nul("a\0b", 3);
  for (const std::string& uid : {nul,
                                 std::string(128, '\0'),
                                 std::string(128, '\xff'),
                                 std::string("a\r\nSet-Cookie: x=y\r\n\r\n"),
                                 std::string("a\n{\"seq\":1,\"uid\":\"forged\"}"),
                                 std::string("{}"),
                                 std::string("{tag}key"),
                                 std::string("user:*"),
                                 std::string("alice:kick"),
                                 std::string("a/../../etc/passwd"),
                                 std::string("%41"),
                                 std::string("%00"),
                                 std::string("%zz"),
                                 std::string("a?b=c&d#e"),
                                 std::string("\"quoted\" 'and' `more`\\"),
                                 std::string("<script>alert(1)</script>"),
                                 std::string("${HOME}$(id)"),
                                 std::string("\xc3\x28"),          // invalid UTF-8
                                 std::string("\xed\xa0\x80"),      // a surrogate
                                 std::string("\xf4\x90\x80\x80"),  // beyond Unicode
                                 std::string("\xc0\x80"),          // overlong NUL
                                 std::string("\xe2\x80\xae"
                                             "cod.exe"),  // right-to-left override
                                 std::string("\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d"),
                                 std::string("\x1b[2J\x1b]0;title\x07"),
                                 std::string(" lead and trail "),
                                 std::string("NaN"),
                                 std::string("null")}) {
    uids.push_back(uid);
  }
  return uids;
}

class UidFault : public ::testing::Test {
 protected:
  void SetUp() override {
    users_.add(uids_.size());
    ASSERT_TRUE(users_.all_connected());
    for (std::size_t i = 0; i < uids_.size(); ++i)
      users_.send_login(i, uids_[i], uids_[i].substr(0, 64));  // as a device label, too
    ASSERT_TRUE(users_.drive_until([&] { return users_.totals().logged_in == uids_.size(); }));
  }

  const std::vector<std::string> uids_ = nasty_uids();
  const Daemon daemon_{{.sets = fault_sets({kLongTimeout, "server.shards=2"})}};
  Swarm users_{daemon_.port()};
};

TEST_F(UidFault, ExactBytesComeBackThroughTheUrlAndItsJson) {
  for (const std::string& uid : uids_) {
    const auto answer = user(daemon_, uid);
    EXPECT_EQ(percent_decode(answer.at("uid").get<std::string>()), uid);
    EXPECT_EQ(answer.at("state"), "online");
    ASSERT_EQ(answer.at("sessions").size(), 1U) << percent_encode(uid);
    EXPECT_EQ(percent_decode(answer.at("sessions")[0].at("device").get<std::string>()),
              uid.substr(0, 64));
  }
}

TEST_F(UidFault, ExactBytesComeBackThroughTheEventLog) {
  const auto edges = daemon_.wait_for_edges(uids_.size());  // a line each, whatever is in them
  ASSERT_EQ(edges.size(), uids_.size());
  std::map<std::string, int> logged;
  for (const auto& edge : edges)
    ++logged[percent_decode(edge.at("uid").get<std::string>()).value()];
  for (const std::string& uid : uids_)
    EXPECT_EQ(logged[uid], 1) << percent_encode(uid);
}

TEST_F(UidFault, KickFindsExactlyThatUser) {
  for (const std::string& uid : {std::string("alice:kick"), std::string("%41"),
                                 std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_EQ(daemon_.post("/v1/users/" + percent_encode(uid) + ":kick").status, 200);
    EXPECT_EQ(state_of(daemon_, uid), "offline");
  }
  EXPECT_EQ(state_of(daemon_, "A"), "online");  // which "%41" would be, decoded once too often
  const EdgeCount expected{uids_.size(), 4};
  EXPECT_EQ(wait_for_edge_count(daemon_, expected), expected);
}

TEST_F(UidFault, LogHasPrintableLinesOnly) {
  for (const char c : daemon_.log())
    ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(UidSizeFault, OneAndAHundredAndTwentyEightBytesAreTaken) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  for (const std::size_t size : {1, 128}) {
    Client client(daemon.port());
    client.login(std::string(size, 'u'));
    EXPECT_EQ(state_of(daemon, std::string(size, 'u')), "online");
  }
}

TEST(UidSizeFault, NoneAndAHundredAndTwentyNineAreRefusedWithTheReason) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  for (const std::size_t size : {0, 129}) {
    Client client(daemon.port());
    std::string login("\x01\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00", 14);
    login[3] = static_cast<char>(10 + size);  // length of the payload
    login[10] = static_cast<char>(size);      // of the uid
    client.send_text(login + std::string(size, 'u'));
    EXPECT_EQ(client.expect_error(), proto::ErrorCode::kBadUid) << size;
  }
  EXPECT_EQ(daemon.get("/v1/users/").status, 400);
  EXPECT_EQ(daemon.get("/v1/users/" + std::string(129, 'u')).status, 400);
  EXPECT_TRUE(daemon.edges().empty());
}

}  // namespace
}  // namespace pulsewheel::test

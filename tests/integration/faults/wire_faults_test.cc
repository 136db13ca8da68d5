// Bytes that are wrong, cut, endless or of another protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ostream>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kLoginPayloadMax = 1'024;
constexpr std::size_t kMessagePayloadMax = 8'192;

std::array<std::byte, proto::kHeaderSize> header(proto::FrameType type, std::size_t payload_size) {
  return {static_cast<std::byte>(type), std::byte{0}, static_cast<std::byte>(payload_size >> 8),
          static_cast<std::byte>(payload_size & 0xff)};
}

/// A LOGIN with a payload of exactly `payload_size` bytes, filled up by an extension field that the
/// server skips.
std::vector<std::byte> padded_login(std::string_view uid, std::size_t payload_size) {
  std::vector<std::byte> frame = login_frame(uid);
  const std::size_t value_size = payload_size - (frame.size() - proto::kHeaderSize) - 4;
  for (const std::size_t byte :
       {std::size_t{0x7f}, std::size_t{0x01}, value_size >> 8, value_size & 0xff}) {
    frame.push_back(static_cast<std::byte>(byte));
  }
  frame.resize(frame.size() + value_size);
  const auto with_size = header(proto::FrameType::kLogin, payload_size);
  std::copy(with_size.begin(), with_size.end(), frame.begin());
  return frame;
}

TEST(OversizeFault, ExactlyTheLimitIsAccepted) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  Client client(daemon.port());
  client.send(padded_login("alice", kLoginPayloadMax));
  client.expect(proto::FrameType::kLoginAck);
  client.send(message_frame(1, kMessagePayloadMax - proto::kMessageIdSize));
  client.expect(proto::FrameType::kMessageAck);
}

TEST(OversizeFault, OneMoreAndTheMaximumAreRefusedAtTheHeader) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  for (const std::size_t size : {kLoginPayloadMax + 1, std::size_t{0xffff}}) {
    Client client(daemon.port());
    client.send(header(proto::FrameType::kLogin, size));  // and not a byte behind it
    EXPECT_EQ(client.expect_error(), proto::ErrorCode::kPayloadTooLong) << size;
  }
  for (const std::size_t size : {kMessagePayloadMax + 1, std::size_t{0xffff}}) {
    Client client(daemon.port());
    client.login("alice");
    client.send(header(proto::FrameType::kMessage, size));
    EXPECT_EQ(client.expect_error(), proto::ErrorCode::kPayloadTooLong) << size;
  }
}

TEST(OversizeFault, AThousandAnnouncementsTakeNoMemory) {
  constexpr std::size_t kClients = 1'000;
  constexpr std::size_t kMemoryMaxKib = kClients * 8;  // of the 64,000 that were announced
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", kClients));
  const std::size_t before = memory_kib(daemon.pid(), "VmRSS");
  const auto announced = header(proto::FrameType::kMessage, 0xffff);
  swarm.send_all(announced);
  ASSERT_TRUE(swarm.drive_until([&] { return swarm.totals().ended == kClients; }));
  EXPECT_EQ(swarm.totals().errors, kClients);
  EXPECT_TRUE(eventually([&] { return daemon.metric("pulsewheel_partial_frame_bytes") == 0; }));
  EXPECT_TRUE(grew_at_most(daemon.pid(), before, kMemoryMaxKib));
}

struct Hello {
  const char* protocol;
  std::string bytes;
};
void PrintTo(const Hello& hello, std::ostream* out) {
  *out << hello.protocol;
}

class OtherProtocolFault : public ::testing::TestWithParam<Hello> {};

TEST_P(OtherProtocolFault, OneErrorOneCloseAndFewLogLines) {
  constexpr std::size_t kClients = 100;
  const Daemon daemon({.sets = fault_sets({kLongTimeout, "log.rate_limit=5"})});
  Client bystander(daemon.port());
  bystander.login("bystander");
  Swarm strangers(daemon.port());
  strangers.add(kClients);
  ASSERT_TRUE(strangers.all_connected());
  for (std::size_t i = 0; i < kClients; ++i)
    strangers.send(i, GetParam().bytes);
  ASSERT_TRUE(strangers.drive_until([&] { return strangers.totals().ended == kClients; }));

  EXPECT_EQ(strangers.totals().errors, kClients);
  for (const Peer& peer : strangers.peers())
    EXPECT_EQ(peer.error, proto::ErrorCode::kNotThisProtocol);
  EXPECT_EQ(daemon.metric("pulsewheel_refusals_total{code=\"not_this_protocol\""), kClients);
  EXPECT_EQ(daemon.metric("pulsewheel_sessions_closed_total{reason=\"protocol_error\""), kClients);
  bystander.send_keepalive();
  bystander.expect(proto::FrameType::kKeepaliveAck);

  const auto refusals = [&] {
    const auto lines = split_lines(daemon.log());
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find(" refused: ") != std::string::npos;
    });
  };
  EXPECT_TRUE(eventually([&] { return refusals() >= 1; }));
  EXPECT_LT(refusals(), static_cast<long>(kClients / 2));  // 5 a second, and it took a few at most
}

INSTANTIATE_TEST_SUITE_P(
    Hellos, OtherProtocolFault,
    ::testing::Values(Hello{"Http",
                            std::string("GET / HTTP/1.1\r\nHost: presence.example\r\n\r\n")},
                      Hello{"Tls", std::string("\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", 11) +
                                       std::string(194, 'r')},
                      Hello{"Nuls", std::string(4'096, '\0')}),
    [](const auto& test) { return std::string(test.param.protocol); });

/// What a client may say in one go, and how it is answered: see expect_answers().
std::vector<std::byte> whole_stream(std::string_view uid) {
  std::vector<std::byte> stream = login_frame(uid, "phone");
  const auto append = [&stream](std::span<const std::byte> frame) {
    stream.insert(stream.end(), frame.begin(), frame.end());
  };
  append(proto::encode_keepalive(0));
  append(message_frame(7, 100));  // longer than a session's own buffer
  append(proto::encode_keepalive(proto::kNoReply));
  append(message_frame(8, 0));
  append(proto::kLogout);
  return stream;
}
constexpr std::size_t kAcksOfStream = 3;

void expect_answers(const Peer& peer) {
  EXPECT_NE(peer.session_id, 0U);
  EXPECT_EQ(peer.acks, kAcksOfStream);
  EXPECT_TRUE(peer.logged_out);
  EXPECT_FALSE(peer.error);
}

bool has_read(const Daemon& daemon, std::size_t bytes) {
  return eventually([&] {
    return daemon.metric("pulsewheel_received_bytes_total") == static_cast<double>(bytes);
  });
}

TEST(SplitFault, AStreamCutAtAnyByteIsAnsweredTheSame) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout, "server.shards=2"})});
  Swarm swarm(daemon.port());
  const std::size_t size = whole_stream("user-000").size();
  swarm.add(size);  // peer i's stream is cut behind byte i
  ASSERT_TRUE(swarm.all_connected());
  const auto stream = [](std::size_t i) {
    return whole_stream("user-" + std::to_string(1'000 + i).substr(1));
  };
  for (std::size_t i = 0; i < size; ++i)
    swarm.send(i, std::span<const std::byte>(stream(i)).first(i));
  ASSERT_TRUE(has_read(daemon, size * (size - 1) / 2));
  for (std::size_t i = 0; i < size; ++i)
    swarm.send(i, std::span<const std::byte>(stream(i)).subspan(i));
  ASSERT_TRUE(swarm.drive_until([&] { return swarm.totals().ended == size; }));
  for (std::size_t i = 0; i < size; ++i) {
    SCOPED_TRACE(i);
    expect_answers(swarm.at(i));
  }
  EXPECT_EQ(wait_for_edge_count(daemon, {size, size}), (EdgeCount{size, size}));
}

TEST(SplitFault, AStreamInSingleBytesIsAnsweredTheSame) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  Swarm swarm(daemon.port());
  swarm.add(1);
  ASSERT_TRUE(swarm.all_connected());
  const auto stream = whole_stream("alice");
  for (std::size_t i = 0; i < stream.size(); ++i) {
    swarm.send(0, std::span(stream).subspan(i, 1));
    ASSERT_TRUE(has_read(daemon, i + 1));
  }
  ASSERT_TRUE(swarm.drive_until([&] { return swarm.at(0).ended; }));
  expect_answers(swarm.at(0));
}

// One client's flood is handled in portions: a session reads 16 keepalives at a time, and a round
// of the loop runs a limited number of handlers.
TEST(FloodFault, FramesOfOneConnectionPerRoundAreBounded) {
  constexpr std::size_t kFrames = 10'000;
  constexpr std::size_t kHandlersMax = 8;
  // The loop waits for one handler and then runs those that are ready, each with 64 bytes at most.
  constexpr std::size_t kFramesPerRoundMax = (1 + kHandlersMax) * 64 / proto::kHeaderSize;
  const Daemon daemon(
      {.sets = fault_sets({kLongTimeout, "server.shards=1", "server.loop_handlers_max=8"})});
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", 2));
  std::vector<std::byte> flood;
  for (std::size_t i = 0; i < kFrames; ++i) {
    const auto keepalive = proto::encode_keepalive(0);
    flood.insert(flood.end(), keepalive.begin(), keepalive.end());
  }
  const double rounds_before = daemon.metric("pulsewheel_loop_rounds_total");
  daemon.signal(SIGSTOP);  // so that all of it is there when the daemon looks
  ASSERT_EQ(swarm.send(0, flood), flood.size());
  swarm.send(1, proto::encode_keepalive(0));
  daemon.signal(SIGCONT);
  ASSERT_TRUE(swarm.drive_until([&] { return swarm.at(0).acks == kFrames; }));
  EXPECT_EQ(swarm.at(1).acks, 1U);
  EXPECT_GE(daemon.metric("pulsewheel_loop_rounds_total") - rounds_before,
            static_cast<double>(kFrames / kFramesPerRoundMax));
}

TEST(FloodFault, AThousandFramesInOneSegmentAreAllAnswered) {
  const Daemon daemon({.sets = fault_sets({kLongTimeout})});
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", 1));
  std::vector<std::byte> segment;
  for (std::uint64_t id = 0; id < 1'000; ++id) {
    const auto message = message_frame(id, 5);
    segment.insert(segment.end(), message.begin(), message.end());
  }
  ASSERT_EQ(swarm.send(0, segment), segment.size());
  EXPECT_TRUE(swarm.drive_until([&] { return swarm.at(0).acks == 1'000; }));
  EXPECT_FALSE(swarm.at(0).ended);
}

TEST(DripFault, BytesOfAnIncompleteFrameAreNoLife) {
  const Daemon daemon({.sets = fault_sets()});
  Swarm swarm(daemon.port());
  ASSERT_TRUE(swarm.add_users("user", 2));
  const auto endless = message_frame(1, 8'000);
  const auto complete = message_frame(1, 0);
  for (std::size_t sent = 0; !swarm.at(0).ended && sent < endless.size(); ++sent) {
    swarm.send(0, std::span(endless).subspan(sent, 1));
    swarm.send(1, complete);  // one who does complete frames stays
    swarm.drive(milliseconds{100});
  }
  EXPECT_EQ(swarm.at(0).goaway, proto::GoawayReason::kTimeout);
  const auto edges = daemon.wait_for_edges(3);
  ASSERT_EQ(edges.size(), 3U);
  EXPECT_EQ(edges[2].at("uid"), "user-0");
  EXPECT_EQ(edges[2].at("reason"), "timeout");
  EXPECT_GE(silence_of(edges[2]), to_seconds(kTimeout));
  EXPECT_FALSE(swarm.at(1).ended);
}

}  // namespace
}  // namespace pulsewheel::test

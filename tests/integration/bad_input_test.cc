// Clients and operators who get it wrong: a clear answer, and nobody else disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;

constexpr int kUsage = 64, kUnavailable = 69, kOs = 71, kCannotCreate = 73, kIo = 74, kConfig = 78;

TEST(BadClientTest, AnotherProtocolGetsOneErrorAndOneClose) {
  const Daemon daemon;
  for (const std::string_view hello :
       {std::string_view("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string_view("\x16\x03\x01\x02", 4), std::string_view("\0\0\0\0\0\0\0\0", 8)}) {
    Client client(daemon.port());
    client.send_text(hello);
    EXPECT_EQ(client.expect_error(), proto::ErrorCode::kNotThisProtocol);
  }
  EXPECT_EQ(daemon.metric("pulsewheel_refusals_total{code=\"not_this_protocol\""), 3.0);
}

TEST(BadClientTest, FrameThatTheStateForbidsEndsTheSession) {
  const Daemon daemon;
  Client early(daemon.port());
  early.send_keepalive();
  EXPECT_EQ(early.expect_error(), proto::ErrorCode::kLoginRequired);
  Client twice(daemon.port());
  twice.login("alice");
  twice.send_login("alice");
  EXPECT_EQ(twice.expect_error(), proto::ErrorCode::kNotAllowed);
}

TEST(BadClientTest, OversizeIsRefusedAtTheHeader) {
  const Daemon daemon({.sets = {"presence.timeout=30s"}});
  Client exact(daemon.port());
  exact.login("alice");
  exact.send_message(1, std::string(8'192 - proto::kMessageIdSize, 'x'));
  exact.expect(proto::FrameType::kMessageAck);
  constexpr std::array kTooLong{std::byte{0x03}, std::byte{0}, std::byte{0x20}, std::byte{0x01}};
  exact.send(kTooLong);
  EXPECT_EQ(exact.expect_error(), proto::ErrorCode::kPayloadTooLong);
}

TEST(BadClientTest, UidOutsideItsBoundsIsRefused) {
  const Daemon daemon;
  // LOGIN, version 1 to 1, no wish, and a uid of no bytes.
  Client empty(daemon.port());
  constexpr std::array<unsigned char, 14> kNoUid{0x01, 0, 0, 10, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  empty.send(std::as_bytes(std::span(kNoUid)));
  EXPECT_EQ(empty.expect_error(), proto::ErrorCode::kBadUid);
}

TEST(BadClientTest, SlowLoginIsClosedAtTheDeadlineWhateverTrickles) {
  const Daemon daemon({.sets = {"server.login_timeout=1s"}});
  const auto begin = Client::Clock::now();
  Client silent(daemon.port());
  Client dripping(daemon.port());
  dripping.send_text("\x01");
  EXPECT_EQ(silent.expect_error(), proto::ErrorCode::kLoginTimeout);
  EXPECT_EQ(dripping.expect_error(), proto::ErrorCode::kLoginTimeout);
  EXPECT_GE(Client::Clock::now() - begin, std::chrono::seconds{1});
  EXPECT_EQ(daemon.metric("pulsewheel_sessions_closed_total{reason=\"login_timeout\""), 2.0);
}

TEST(BadClientTest, HalfAFrameIsNoProofOfLife) {
  const Daemon daemon({.sets = {"presence.timeout=1s"}});
  Client client(daemon.port());
  client.login("alice");
  client.send_text(std::string("\x03\0\0\x20", 4));  // a MESSAGE that never comes
  EXPECT_EQ(client.expect_goaway().reason, proto::GoawayReason::kTimeout);
}

TEST(BadClientTest, ConnectionsOverTheCapAreToldSo) {
  const Daemon daemon({.sets = {"server.max_connections=2", "server.shards=1"}});
  std::vector<Client> inside;
  for (int i = 0; i < 2; ++i) {
    inside.emplace_back(daemon.port());
    inside.back().login("user-" + std::to_string(i));
  }
  bool refused = false;
  for (int i = 0; i < 8 && !refused; ++i) {  // the shard's cap has headroom for an uneven spread
    Client outside(daemon.port());
    const auto frame = [&] {
      outside.send_login("late-" + std::to_string(i));
      return outside.read_frame();
    }();
    ASSERT_TRUE(frame);
    refused = frame->type == proto::FrameType::kGoaway;
    if (!refused) inside.push_back(std::move(outside));
  }
  EXPECT_TRUE(refused);
  EXPECT_GE(daemon.metric("pulsewheel_refused_busy_total"), 1.0);
}

TEST(BadStartTest, PortInUse) {
  const Daemon first;
  const Ended second =
      Daemon::run_to_end({.sets = {"listener.0.port=" + std::to_string(first.port())}});
  EXPECT_EQ(second.exit_code, kUnavailable);
  EXPECT_THAT(second.log, HasSubstr("127.0.0.1:" + std::to_string(first.port())));
  EXPECT_THAT(second.log, HasSubstr("in use"));
}

TEST(BadStartTest, HttpPortInUse) {
  const Daemon first;
  const Ended second =
      Daemon::run_to_end({.sets = {"http.port=" + std::to_string(first.http_port())}});
  EXPECT_EQ(second.exit_code, kUnavailable);
  EXPECT_THAT(second.log, HasSubstr(std::to_string(first.http_port())));
}

TEST(BadStartTest, ConfigurationThatCannotBePrinted) {
  const std::string line = std::string(PULSEWHEELD_PATH) + " --print-config >/dev/full";
  EXPECT_EQ(run_program({"/bin/sh", "-c", line}).exit_code, kIo);
}

TEST(BadStartTest, StateFolderOfAnotherDaemon) {
  const Daemon first;
  const Ended second = Daemon::run_to_end({.state_dir = first.state_dir()});
  EXPECT_EQ(second.exit_code, kCannotCreate);
  EXPECT_THAT(second.log, HasSubstr(first.state_dir()));
}

TEST(BadStartTest, StateFolderThatCannotBeWritten) {
  const Ended ended = Daemon::run_to_end({.state_dir = "/proc/no-folder"});
  EXPECT_EQ(ended.exit_code, kCannotCreate);
  EXPECT_THAT(ended.log, HasSubstr("/proc/no-folder"));
}

TEST(BadStartTest, TooFewDescriptors) {
  const Ended ended = Daemon::run_to_end({.descriptor_limit = 64});
  EXPECT_EQ(ended.exit_code, kOs);
  EXPECT_THAT(ended.log, HasSubstr("64 descriptors"));
}

TEST(BadStartTest, ConfigurationErrorsNameFileLineAndKey) {
  const TemporaryFolder folder;
  write_file(folder / "bad.toml", "[presence]\ntimout = \"30s\"\ntick = 5\n");
  const Ended ended = run_program({PULSEWHEELD_PATH, "--config", folder / "bad.toml"});
  EXPECT_EQ(ended.exit_code, kConfig);
  EXPECT_THAT(ended.log, HasSubstr("bad.toml:2"));
  EXPECT_THAT(ended.log, HasSubstr("presence.timeout"));
  EXPECT_THAT(ended.log, HasSubstr("bad.toml:3"));
  EXPECT_THAT(ended.log, HasSubstr("presence.tick"));
}

TEST(BadStartTest, UsageErrors) {
  EXPECT_EQ(run_program({PULSEWHEELD_PATH, "--no-such-flag"}).exit_code, kUsage);
  EXPECT_EQ(run_program({PULSEWHEELD_PATH, "--help"}).exit_code, 0);
  const Ended version = run_program({PULSEWHEELD_PATH, "--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.log, HasSubstr("pulsewheeld "));
}

TEST(BadStartTest, PrintedConfigurationLoadsBack) {
  const TemporaryFolder folder;
  const Ended printed =
      run_program({PULSEWHEELD_PATH, "--print-config", "--set", "presence.timeout=45s"});
  ASSERT_EQ(printed.exit_code, 0);
  write_file(folder / "printed.toml", printed.log);
  const Ended checked =
      run_program({PULSEWHEELD_PATH, "--check-config", "--config", folder / "printed.toml"});
  EXPECT_EQ(checked.exit_code, 0) << checked.log;
  EXPECT_THAT(printed.log, HasSubstr("45s"));
}

}  // namespace
}  // namespace pulsewheel::test

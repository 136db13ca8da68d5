// RedisClient against real redis-servers.
#include "daemon/redis/redis_client.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "daemon/base/log.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_server.h"
#include "tests/support/run_until.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_certificates.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::RedisConsole;
using test::RedisServer;
using test::TestCertificates;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using State = RedisClient::State;

// A client on an io_context that the test's thread runs.
class RedisClientServerTest : public testing::Test {
 protected:
  RedisClientServerTest() {
    options_.connection.connect_timeout = 20s;
    options_.connection.command_timeout = 20s;
    options_.backoff = {.first = 1ms, .cap = 20ms};
    options_.on_down = [this](const RedisDown& down) { downs_.push_back(down); };
  }

  // Starts the server with these words in its command line. Once.
  void serve(const std::vector<std::string>& arguments = {}) {
    server_.emplace(RedisServer::Options{.arguments = arguments});
    options_.connection.url = RedisUrl::parse(server_->url());
  }

  // The first call makes it: set options_ before.
  RedisClient& client() {
    if (!client_) client_ = std::make_unique<RedisClient>(io_, options_);
    return *client_;
  }

  template <class Predicate>
  [[nodiscard]] bool run_until(Predicate predicate) {
    return test::run_until(io_, predicate);
  }
  [[nodiscard]] bool becomes_ready() {
    client().start();
    return run_until([this] { return client().state() == State::kReady; });
  }
  // Runs until an attempt has failed, or a connection was lost, for this reason.
  [[nodiscard]] bool goes_down(RedisErrc reason) {
    client().start();
    const std::size_t before = downs_.size();
    return run_until([&] {
      for (std::size_t i = before; i < downs_.size(); ++i) {
        if (downs_[i].reason == reason) return true;
      }
      return false;
    });
  }

  struct Outcome {
    std::error_code ec;
    RedisReply reply;
  };
  Outcome ask(const std::vector<std::string>& words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    std::optional<Outcome> outcome;
    const auto refused = client().submit(views, [&](std::error_code ec, RedisReply reply) {
      outcome = Outcome{ec, std::move(reply)};
    });
    if (refused) return {refused, {}};
    EXPECT_TRUE(run_until([&] { return outcome.has_value(); }));
    return *outcome;
  }

  boost::asio::io_context io_{1};
  std::optional<RedisServer> server_;
  RedisClient::Options options_;
  std::vector<RedisDown> downs_;
  std::unique_ptr<RedisClient> client_;
};

TEST_F(RedisClientServerTest, TalksOverTcp) {
  serve();
  ASSERT_TRUE(becomes_ready());
  EXPECT_TRUE(ask({"SET", "key", "value"}).reply.is_status("OK"));
  EXPECT_EQ(ask({"GET", "key"}).reply.text, "value");
  EXPECT_TRUE(ask({"GET", "none"}).reply.is_nil());
  EXPECT_EQ(ask({"INCR", "count"}).reply.integer, 1);
  EXPECT_THAT(server_->command({"CLIENT", "LIST"}).text, HasSubstr("name=pulsewheel "));
}

TEST_F(RedisClientServerTest, TalksOverAUnixSocketInADatabaseOfItsOwn) {
  serve();
  options_.connection.url = RedisUrl::parse(server_->unix_url() + "?db=3");
  options_.connection.client_name = "node-7";
  ASSERT_TRUE(becomes_ready());
  EXPECT_TRUE(ask({"SET", "key", "value"}).reply.is_status("OK"));
  EXPECT_EQ(server_->command({"DBSIZE"}).integer, 0);
  RedisConsole console(*server_);
  console.command({"SELECT", "3"});
  EXPECT_EQ(console.command({"GET", "key"}).text, "value");
  EXPECT_THAT(server_->command({"CLIENT", "LIST"}).text, HasSubstr("name=node-7 "));
}

TEST_F(RedisClientServerTest, CarriesAnyBytesInBothDirections) {
  serve();
  ASSERT_TRUE(becomes_ready());
  std::string odd;
  for (int byte = 0; byte < 256; ++byte)
    odd += static_cast<char>(byte);
  EXPECT_EQ(ask({"SADD", odd, odd, "", "\r\n$-1\r\n"}).reply.integer, 3);
  EXPECT_EQ(ask({"SISMEMBER", odd, odd}).reply.integer, 1);
  EXPECT_EQ(ask({"SMEMBERS", odd}).reply.elements.size(), 3u);
  EXPECT_EQ(ask({"ECHO", odd + odd}).reply.text, odd + odd);
}

TEST_F(RedisClientServerTest, AnswersThousandsOfPipelinedCommands) {
  serve();
  options_.connection.commands_in_flight_max = 20'000;
  ASSERT_TRUE(becomes_ready());
  int answered = 0;
  bool in_order = true;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_FALSE(
        client().submit({"INCR", "n"}, [&, i](std::error_code ec, const RedisReply& reply) {
          in_order = in_order && !ec && reply.integer == i + 1;
          ++answered;
        }));
  }
  ASSERT_TRUE(run_until([&] { return answered == 20'000; }));
  EXPECT_TRUE(in_order);
}

TEST_F(RedisClientServerTest, LogsInWithAPassword) {
  serve({"--requirepass", "s3cret"});
  options_.connection.secret.password = "s3cret";
  ASSERT_TRUE(becomes_ready());
  EXPECT_TRUE(ask({"SET", "a", "b"}).reply.is_status("OK"));
}

TEST_F(RedisClientServerTest, LogsInAsAUser) {
  serve({"--user", "daemon", "on", ">s3cret", "~*", "&*", "+@all"});
  options_.connection.secret.user = "daemon";
  options_.connection.secret.password = "s3cret";
  ASSERT_TRUE(becomes_ready());
  EXPECT_EQ(ask({"ACL", "WHOAMI"}).reply.text, "daemon");
}

TEST_F(RedisClientServerTest, IsRefusedWithoutAPasswordAndWithAWrongOne) {
  serve({"--requirepass", "s3cret"});
  ASSERT_TRUE(goes_down(RedisErrc::kAuthRefused));
  EXPECT_TRUE(downs_.back().is_slow);
  EXPECT_EQ(client().counters().of(ReplyError::kNoAuth).value(), 1u);
  client_.reset();
  options_.connection.secret.password = "wrong";
  ASSERT_TRUE(goes_down(RedisErrc::kAuthRefused));
  EXPECT_TRUE(downs_.back().is_slow);
  EXPECT_EQ(client().counters().of(ReplyError::kWrongPass).value(), 1u);
}

TEST_F(RedisClientServerTest, IsRefusedWithAPasswordWhereNoneIsSet) {
  serve();
  options_.connection.secret.password = "s3cret";
  ASSERT_TRUE(goes_down(RedisErrc::kAuthRefused));
  EXPECT_THAT(downs_.back().detail, HasSubstr("is a password set in Redis"));
}

TEST_F(RedisClientServerTest, IsRefusedADatabaseThatIsNotThere) {
  serve();
  options_.connection.url.database = 99;
  ASSERT_TRUE(goes_down(RedisErrc::kHandshakeRefused));
  EXPECT_THAT(downs_.back().detail, HasSubstr("DB index is out of range"));
}

TEST_F(RedisClientServerTest, ComesBackWithThePasswordThatWasChanged) {
  serve({"--requirepass", "one"});
  const test::TemporaryFolder folder;
  test::write_file(folder / "secret", "one\n");
  options_.connection.secret.password_file = folder / "secret";
  ASSERT_TRUE(becomes_ready());
  RedisConsole console(*server_);
  console.command({"CONFIG", "SET", "requirepass", "two"});
  console.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(goes_down(RedisErrc::kAuthRefused));
  test::write_file(folder / "secret", "two\n");
  ASSERT_TRUE(becomes_ready());
  EXPECT_TRUE(ask({"SET", "a", "b"}).reply.is_status("OK"));
}

// The process's log from the first call on; a process has one.
std::string log_so_far() {
  static const test::TemporaryFolder folder;
  static const bool started = [] {
    log::init({.level = log::Level::kDebug,
               .format = log::Format::kHuman,
               .destination = folder / "log",
               .lines_per_second_max = 0});
    log::start_thread();
    return true;
  }();
  return started ? test::read_file(folder / "log") : "";
}

TEST_F(RedisClientServerTest, NeverWritesASecretToTheLog) {
  const std::size_t before = log_so_far().size();
  // A server without AUTH, which repeats what it was sent.
  serve({"--rename-command", "AUTH", "LOGIN"});
  options_.connection.url =
      RedisUrl::parse("redis://daemon:s3cret@127.0.0.1:" + std::to_string(server_->port()));
  options_.connection.secret = {
      .user = "daemon", .password = "s3cret", .password_file = {}, .password_env = {}};
  ASSERT_TRUE(goes_down(RedisErrc::kAuthRefused));
  ASSERT_TRUE(test::eventually([&] {
    const std::string text = log_so_far().substr(before);
    return text.ends_with('\n') && text.find("AUTH is refused") != std::string::npos;
  }));
  EXPECT_THAT(log_so_far(), HasSubstr("redis://127.0.0.1:"));
  EXPECT_THAT(log_so_far(), Not(HasSubstr("s3cret")));
}

TEST_F(RedisClientServerTest, TimesOutWhileAllClientsArePausedAndComesBack) {
  serve();
  options_.connection.command_timeout = 50ms;
  options_.connection.connect_timeout = 50ms;
  ASSERT_TRUE(becomes_ready());
  server_->command({"CLIENT", "PAUSE", "2000", "ALL"});
  EXPECT_EQ(ask({"SET", "a", "b"}).ec, RedisErrc::kTimeout);
  ASSERT_TRUE(goes_down(RedisErrc::kConnectTimeout));
  ASSERT_TRUE(becomes_ready());
}

TEST_F(RedisClientServerTest, TimesOutAtAFrozenServerAndComesBack) {
  serve();
  options_.connection.command_timeout = 50ms;
  options_.connection.connect_timeout = 50ms;
  ASSERT_TRUE(becomes_ready());
  server_->freeze();
  EXPECT_EQ(ask({"SET", "a", "b"}).ec, RedisErrc::kTimeout);
  ASSERT_TRUE(goes_down(RedisErrc::kConnectTimeout));
  server_->thaw();
  ASSERT_TRUE(becomes_ready());
}

TEST_F(RedisClientServerTest, ComesBackAfterAKilledServer) {
  serve();
  ASSERT_TRUE(becomes_ready());
  for (std::uint64_t round = 2; round <= 4; ++round) {
    server_->kill();
    ASSERT_TRUE(goes_down(RedisErrc::kClosedByServer));
    ASSERT_TRUE(goes_down(RedisErrc::kUnreachable));
    EXPECT_EQ(ask({"SET", "a", "b"}).ec, RedisErrc::kNotConnected);
    server_->start();
    ASSERT_TRUE(becomes_ready());
    EXPECT_EQ(client().counters().connections.value(), round);
  }
}

TEST_F(RedisClientServerTest, ComesBackToASocketThatWasGone) {
  serve();
  options_.connection.url = RedisUrl::parse(server_->unix_url());
  ASSERT_TRUE(becomes_ready());
  server_->stop();
  ASSERT_TRUE(goes_down(RedisErrc::kUnreachable));
  server_->start();
  ASSERT_TRUE(becomes_ready());
}

TEST_F(RedisClientServerTest, CallsScriptsThatTheServerHasForgotten) {
  serve();
  ASSERT_TRUE(becomes_ready());
  static const RedisScript kScript("return {KEYS[1], ARGV[1], redis.call('INCR', 'calls')}");
  std::vector<std::int64_t> calls;
  const auto call = [&](const std::string& argument) {
    const std::vector<std::string_view> keys{"k"};
    const std::vector<std::string_view> args{argument};
    ASSERT_FALSE(client().eval(kScript, keys, args, [&](std::error_code ec, RedisReply reply) {
      ASSERT_FALSE(ec);
      ASSERT_TRUE(reply.is_array()) << reply.text;
      EXPECT_EQ(reply.elements[0].text, "k");
      calls.push_back(reply.elements[2].integer);
    }));
  };
  for (int i = 0; i < 3; ++i)
    call("\0\xff"s);
  ASSERT_TRUE(run_until([&] { return calls.size() == 3; }));
  server_->command({"SCRIPT", "FLUSH"});
  for (int i = 0; i < 3; ++i)
    call("");
  ASSERT_TRUE(run_until([&] { return calls.size() == 6; }));
  EXPECT_THAT(calls, testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(client().counters().scripts_resent.value(), 6u);
}

TEST_F(RedisClientServerTest, WaitsWhileTheServerHasTooManyClients) {
  serve();
  RedisConsole console(*server_);
  console.command({"CONFIG", "SET", "maxclients", "1"});
  ASSERT_TRUE(goes_down(RedisErrc::kNotServing));
  EXPECT_THAT(downs_.back().detail, HasSubstr("max number of clients"));
  console.command({"CONFIG", "SET", "maxclients", "100"});
  ASSERT_TRUE(becomes_ready());
}

// Errors with which real servers answer a write, and what brings them about.
TEST_F(RedisClientServerTest, TellsAServerWithoutMemory) {
  serve();
  ASSERT_TRUE(becomes_ready());
  server_->command({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_THAT(ask({"SET", "a", "b"}).reply.text, StartsWith("OOM "));
  EXPECT_EQ(client().counters().of(ReplyError::kOom).value(), 1u);
  EXPECT_EQ(client().state(), State::kReady);
}

TEST_F(RedisClientServerTest, TellsAServerThatCannotSave) {
  serve();
  ASSERT_TRUE(becomes_ready());
  // A folder where the file is to be.
  std::filesystem::create_directory(server_->folder() + "/dump.rdb");
  server_->command({"CONFIG", "SET", "save", "3600 1"});
  server_->command({"SET", "a", "b"});
  server_->command({"BGSAVE"});
  ASSERT_TRUE(test::eventually([&] {
    return ask({"SET", "a", "b"}).reply.text.starts_with("MISCONF ");
  }));
  EXPECT_GE(client().counters().of(ReplyError::kMisconf).value(), 1u);
  server_->command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(goes_down(RedisErrc::kNotServing));
  EXPECT_THAT(downs_.back().detail, HasSubstr("cannot save"));
}

TEST_F(RedisClientServerTest, TellsAServerWithoutEnoughReplicas) {
  serve();
  ASSERT_TRUE(becomes_ready());
  server_->command({"CONFIG", "SET", "min-replicas-to-write", "1"});
  EXPECT_THAT(ask({"SET", "a", "b"}).reply.text, StartsWith("NOREPLICAS "));
  EXPECT_EQ(client().counters().of(ReplyError::kNoReplicas).value(), 1u);
}

TEST_F(RedisClientServerTest, TellsAKeyOfAnotherType) {
  serve();
  server_->command({"SET", "slot-0", "x"});
  ASSERT_TRUE(becomes_ready());
  EXPECT_THAT(ask({"SADD", "slot-0", "x"}).reply.text, StartsWith("WRONGTYPE "));
  EXPECT_EQ(client().counters().of(ReplyError::kWrongType).value(), 1u);
}

TEST_F(RedisClientServerTest, TellsAUserWithoutPermissionAndStaysConnected) {
  serve({"--user", "weak", "on", "nopass", "~ours*", "+get"});
  options_.connection.secret.user = "weak";
  options_.connection.secret.password = "any";
  ASSERT_TRUE(becomes_ready());  // although neither SETNAME nor PING is allowed
  EXPECT_THAT(ask({"SET", "ours", "b"}).reply.text, StartsWith("NOPERM "));
  EXPECT_THAT(ask({"GET", "theirs"}).reply.text, StartsWith("NOPERM "));
  EXPECT_TRUE(ask({"GET", "ours"}).reply.is_nil());
  EXPECT_EQ(client().state(), State::kReady);
}

TEST_F(RedisClientServerTest, LeavesAReplicaAndWaitsForOneWithoutAMaster) {
  serve({"--replica-serve-stale-data", "no"});
  ASSERT_TRUE(becomes_ready());
  server_->command({"CONFIG", "SET", "replica-serve-stale-data", "yes"});
  server_->command({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_THAT(ask({"SET", "a", "b"}).reply.text, StartsWith("READONLY "));
  EXPECT_EQ(downs_.back().reason, RedisErrc::kNotMaster);
  server_->command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  server_->command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(goes_down(RedisErrc::kNotServing));
  EXPECT_GE(client().counters().of(ReplyError::kMasterDown).value(), 1u);
  server_->command({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(becomes_ready());
  EXPECT_TRUE(ask({"SET", "a", "b"}).reply.is_status("OK"));
}

TEST_F(RedisClientServerTest, TellsAServerThatIsHeldUpByAScript) {
  serve({"--busy-reply-threshold", "1"});
  ASSERT_TRUE(becomes_ready());
  RedisConsole other(*server_);
  other.send({"EVAL", "while true do end", "0"});
  // It may take a moment until the server has read that.
  ASSERT_TRUE(test::eventually([&] { return ask({"GET", "a"}).reply.text.starts_with("BUSY "); }));
  server_->command({"SCRIPT", "KILL"});
  // The script ends a moment after that.
  ASSERT_TRUE(test::eventually([&] { return ask({"GET", "a"}).reply.is_nil(); }));
}

TEST_F(RedisClientServerTest, TellsKeysInDifferentSlotsOfACluster) {
  server_.emplace(RedisServer::Options{.cluster = true});
  options_.connection.url = RedisUrl::parse(server_->url());
  server_->command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  ASSERT_TRUE(test::eventually([&] {
    return server_->command({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
  }));
  ASSERT_TRUE(becomes_ready());
  EXPECT_THAT(ask({"MSET", "a", "1", "b", "2"}).reply.text, StartsWith("CROSSSLOT "));
  EXPECT_TRUE(ask({"MSET", "{t}a", "1", "{t}b", "2"}).reply.is_status("OK"));
  EXPECT_EQ(client().counters().of(ReplyError::kCrossSlot).value(), 1u);
}

// The same over TLS.
class RedisClientTlsTest : public RedisClientServerTest {
 protected:
  // With a certificate for these names.
  void serve_tls(const std::string& subjects, const std::string& clients = "no") {
    certificates_.add("server", subjects);
    server_.emplace(RedisServer::Options{
        .arguments = {"--tls-cert-file", certificates_.path("server.pem"), "--tls-key-file",
                      certificates_.path("server.key"), "--tls-ca-cert-file",
                      certificates_.path("ca.pem"), "--tls-auth-clients", clients},
        .tls = true});
    connect_to("127.0.0.1", server_->tls_port());
    options_.connection.tls.ca_file = certificates_.path("ca.pem");
  }
  void connect_to(const std::string& host, std::uint16_t port) {
    options_.connection.url = RedisUrl::parse("rediss://" + host + ":" + std::to_string(port));
  }

  TestCertificates certificates_;
};

TEST_F(RedisClientTlsTest, TalksToAServerByAddressAndByName) {
  serve_tls("IP:127.0.0.1,DNS:localhost");
  ASSERT_TRUE(becomes_ready());
  const std::string large(1'000'000, 'x');
  EXPECT_TRUE(ask({"SET", "key", large}).reply.is_status("OK"));
  EXPECT_EQ(ask({"GET", "key"}).reply.text, large);
  client_.reset();
  connect_to("localhost", server_->tls_port());
  ASSERT_TRUE(becomes_ready());
}

TEST_F(RedisClientTlsTest, RefusesACertificateForAnotherName) {
  serve_tls("DNS:other.example");
  ASSERT_TRUE(goes_down(RedisErrc::kTls));
  EXPECT_THAT(downs_.back().detail, HasSubstr("certificate verify failed"));
  client_.reset();
  options_.connection.tls.server_name = "other.example";
  ASSERT_TRUE(becomes_ready());
}

TEST_F(RedisClientTlsTest, RefusesACertificateByAnotherAuthority) {
  serve_tls("IP:127.0.0.1");
  const TestCertificates others;
  options_.connection.tls.ca_file = others.path("ca.pem");
  ASSERT_TRUE(goes_down(RedisErrc::kTls));
  client_.reset();
  options_.connection.tls.ca_file.clear();  // the system's
  ASSERT_TRUE(goes_down(RedisErrc::kTls));
}

TEST_F(RedisClientTlsTest, ShowsACertificateToAServerThatWantsOne) {
  serve_tls("IP:127.0.0.1", "yes");
  ASSERT_TRUE(goes_down(RedisErrc::kClosedByServer));
  client_.reset();
  certificates_.add("daemon", "DNS:daemon");
  options_.connection.tls.cert_file = certificates_.path("daemon.pem");
  options_.connection.tls.key_file = certificates_.path("daemon.key");
  ASSERT_TRUE(becomes_ready());
}

TEST_F(RedisClientTlsTest, NamesAFileThatItCannotUse) {
  serve_tls("IP:127.0.0.1");
  options_.connection.tls.ca_file = certificates_.path("none.pem");
  ASSERT_TRUE(goes_down(RedisErrc::kTls));
  EXPECT_THAT(downs_.back().detail, HasSubstr("none.pem"));
  EXPECT_TRUE(downs_.back().is_slow);
}

TEST_F(RedisClientTlsTest, EndsAnAttemptAtAPortThatSpeaksNoTls) {
  serve_tls("IP:127.0.0.1");
  options_.connection.connect_timeout = 100ms;
  connect_to("127.0.0.1", server_->port());
  // It takes the greeting for the beginning of a long line.
  ASSERT_TRUE(goes_down(RedisErrc::kConnectTimeout));
}

TEST_F(RedisClientTlsTest, EndsAnAttemptWithoutTlsAtAPortThatSpeaksNothingElse) {
  serve_tls("IP:127.0.0.1");
  options_.connection.url =
      RedisUrl::parse("redis://127.0.0.1:" + std::to_string(server_->tls_port()));
  client().start();
  ASSERT_TRUE(run_until([&] { return !downs_.empty(); }));
  EXPECT_FALSE(downs_[0].was_ready);
}

TEST_F(RedisClientTlsTest, ComesBackAfterAKilledServer) {
  serve_tls("IP:127.0.0.1");
  ASSERT_TRUE(becomes_ready());
  server_->kill();
  ASSERT_TRUE(goes_down(RedisErrc::kClosedByServer));
  server_->start();
  ASSERT_TRUE(becomes_ready());
}

}  // namespace
}  // namespace pulsewheel

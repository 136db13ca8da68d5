// The program pulsewheelctl as a child process, against the real HTTP server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/http_server.h"
#include "daemon/admin/routes.h"
#include "daemon/base/build_info.h"
#include "daemon/ctl/commands.h"
#include "tests/unit/admin/fake_source.h"
#include "tests/unit/ctl/program.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kUsage = 64;
constexpr int kUnavailable = 69;

std::string url_of(std::uint16_t port) {
  return "http://127.0.0.1:" + std::to_string(port);
}

// A port of ours where no daemon answers.
class DeafPort {
 public:
  enum class Kind { kRefuses, kNeverAnswers };

  explicit DeafPort(Kind kind) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(fd_, generic, size) != 0 || ::getsockname(fd_, generic, &size) != 0 ||
        (kind == Kind::kNeverAnswers && ::listen(fd_, 1) != 0)) {
      throw std::runtime_error("cannot have a port");
    }
    port_ = ntohs(address.sin_port);
  }
  ~DeafPort() { ::close(fd_); }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;

  [[nodiscard]] std::string url() const { return url_of(port_); }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

class PulsewheelctlTest : public testing::Test {
 protected:
  // Starts the daemon's HTTP port with `source_`, and asks it.
  ProgramResult ask(std::vector<std::string> arguments) {
    if (!server_) serve(make_routes(source_));
    arguments.insert(arguments.end(), {"--url", url_of(server_->port())});
    return run(std::move(arguments));
  }
  static ProgramResult run(std::vector<std::string> arguments,
                           std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), PULSEWHEELCTL_PATH);
    return run_program(std::move(arguments), std::move(environment));
  }
  void serve(Router router) {
    HttpServer::Options options;
    options.port = 0;
    server_ = std::make_unique<HttpServer>(options, std::move(router));
    server_->start();
  }

  FakeSource source_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(PulsewheelctlTest, VersionIsThatOfTheBuild) {
  const ProgramResult result = run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, version_line("pulsewheelctl") + "\n");
}

TEST_F(PulsewheelctlTest, HelpNamesCommandsAndExitCodes) {
  const ProgramResult result = run({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word : {"healthcheck", "status", "user", "kick", "PULSEWHEEL_URL", "69"}) {
    EXPECT_THAT(result.out, HasSubstr(word));
  }
}

TEST_F(PulsewheelctlTest, HealthcheckSaysReady) {
  const ProgramResult result = ask({"healthcheck"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "ready\n");
}

TEST_F(PulsewheelctlTest, HealthcheckSaysWhyNotReady) {
  source_.not_ready_because = "draining";
  const ProgramResult result = ask({"healthcheck"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "not ready: draining\n");
}

TEST_F(PulsewheelctlTest, HealthcheckCanAskForLifeAlone) {
  source_.not_ready_because = "draining";
  const ProgramResult result = ask({"healthcheck", "--live"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "live\n");
}

TEST_F(PulsewheelctlTest, HealthcheckAnswersInJson) {
  source_.not_ready_because = "draining";
  EXPECT_EQ(Json::parse(ask({"healthcheck", "--json"}).out),
            Json({{"healthy", false}, {"message", "not ready: draining"}}));
}

TEST_F(PulsewheelctlTest, HealthcheckOfNobodyIsNotHealthy) {
  const DeafPort port(DeafPort::Kind::kRefuses);
  const ProgramResult result = run({"healthcheck", "--json", "--url", port.url()});
  EXPECT_EQ(result.exit_code, kUnavailable);
  EXPECT_EQ(Json::parse(result.out).at("healthy"), false);
}

TEST_F(PulsewheelctlTest, StatusPrintsAValueALine) {
  source_.status_json = {{"users", {{"online", 12}}}, {"shards", {{{"sessions", 3}}}}};
  const ProgramResult result = ask({"status"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out,
            "shards[0].sessions  3\n"
            "users.online        12\n");
}

TEST_F(PulsewheelctlTest, StatusInJsonIsTheDaemonsOwn) {
  source_.status_json = {{"users", {{"online", 12}}}};
  EXPECT_EQ(Json::parse(ask({"--json", "status"}).out), source_.status_json);
}

TEST_F(PulsewheelctlTest, StatusHarmsNoTerminal) {
  source_.status_json = {{"note\x1b[2J", "\x1b]0;owned\x07"}};
  EXPECT_THAT(ask({"status"}).out, testing::Not(HasSubstr("\x1b")));
}

TEST_F(PulsewheelctlTest, UserShowsStateAndSessions) {
  SessionReport session;
  session.id = 7;
  session.device = "phone";
  session.timeout_ms = 30'000;
  session.deadline_ms = 1'700'000'030'005;
  source_.user = UserReport{"online", 1'700'000'000'000, std::nullopt, {session}};
  const ProgramResult result = ask({"user", "bob"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, StartsWith("uid        bob\n"
                                     "state      online\n"
                                     "since      2023-11-14 22:13:20.000 UTC\n"
                                     "last seen  never\n"
                                     "sessions   1\n"));
  EXPECT_THAT(result.out, HasSubstr("  deadline   2023-11-14 22:13:50.005 UTC\n"));
  EXPECT_THAT(result.out, HasSubstr("  device     phone\n"));
}

TEST_F(PulsewheelctlTest, UserTakesAnyUid) {
  const char* const uids[] = {"bob", "a%2Fb",       "a/b",   "room:42",
                              "%00", "caf\xc3\xa9", "x y?#", "\xff"};
  for (const char* uid : uids)
    EXPECT_EQ(ask({"user", uid}).exit_code, 0) << uid;
  using namespace std::string_literals;
  EXPECT_THAT(source_.asked(),
              ElementsAre("bob", "a/b", "a/b", "room:42", "\0"s, "caf\xc3\xa9", "x y?#", "\xff"));
}

TEST_F(PulsewheelctlTest, UserInJsonIsTheDaemonsOwn) {
  EXPECT_EQ(Json::parse(ask({"user", "bob", "--json"}).out), to_json("bob", *source_.user));
}

TEST_F(PulsewheelctlTest, KickSaysWhomAndHowManySessions) {
  source_.kick_report = KickReport{true, 2};
  const ProgramResult result = ask({"kick", "room:42"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "kicked room%3A42, sessions closed: 2\n");
  EXPECT_THAT(source_.kicked(), ElementsAre("room:42"));
}

TEST_F(PulsewheelctlTest, KickOfAUserWhoIsNotOnlineIsRefused) {
  source_.kick_report = KickReport{};
  const ProgramResult result = ask({"kick", "bob"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("not online"));
}

TEST_F(PulsewheelctlTest, MalformedUidIsWrongUsage) {
  for (const char* command : {"user", "kick"}) {
    for (const char* uid : {"%", "100%", "%zz", ""}) {
      const ProgramResult result = ask({command, uid});
      EXPECT_EQ(result.exit_code, kUsage) << uid;
      EXPECT_THAT(result.err, HasSubstr("%25"));
    }
  }
}

TEST_F(PulsewheelctlTest, RefusalOfTheDaemonIsShown) {
  const ProgramResult result = ask({"user", std::string(129, 'a')});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "pulsewheelctl: the daemon says: a uid has 1 to 128 bytes after decoding, this one has "
            "129\n");
}

TEST_F(PulsewheelctlTest, DaemonThatCannotAnswerNowIsUnavailable) {
  source_.user = std::nullopt;
  EXPECT_EQ(ask({"user", "bob"}).exit_code, kUnavailable);
}

TEST_F(PulsewheelctlTest, ClosedPortIsUnavailable) {
  const DeafPort port(DeafPort::Kind::kRefuses);
  const ProgramResult result = run({"status", "--url", port.url()});
  EXPECT_EQ(result.exit_code, kUnavailable);
  EXPECT_EQ(result.err, "pulsewheelctl: cannot reach " + port.url() + ": Connection refused\n");
}

TEST_F(PulsewheelctlTest, SilentPortIsUnavailableAfterTheTimeout) {
  const DeafPort port(DeafPort::Kind::kNeverAnswers);
  const ProgramResult result = run({"status", "--timeout", "50ms", "--url", port.url()});
  EXPECT_EQ(result.exit_code, kUnavailable);
  EXPECT_THAT(result.err, HasSubstr("no answer within 50 ms"));
}

TEST_F(PulsewheelctlTest, OtherHttpServersAreNotTakenForADaemon) {
  Router router;
  router.add(http::verb::get, "/v1/status", [](const Request&, Responder respond) {
    Response response;
    response.content_type = kTextType;
    response.body = "hello";
    respond(std::move(response));
  });
  serve(std::move(router));
  const ProgramResult result = ask({"status"});
  EXPECT_EQ(result.exit_code, kUnavailable);
  EXPECT_THAT(result.err, HasSubstr("no pulsewheeld"));
}

TEST_F(PulsewheelctlTest, UrlComesFromTheEnvironment) {
  (void)ask({"status"});
  const ProgramResult result = run({"healthcheck"}, {"PULSEWHEEL_URL=" + url_of(server_->port())});
  EXPECT_EQ(result.out, "ready\n");
}

TEST_F(PulsewheelctlTest, FlagBeatsTheEnvironment) {
  (void)ask({"status"});
  const ProgramResult result =
      run({"healthcheck", "--url", url_of(server_->port())}, {"PULSEWHEEL_URL=http://127.0.0.1:1"});
  EXPECT_EQ(result.out, "ready\n");
}

TEST_F(PulsewheelctlTest, WrongUsageIs64AndSaysWhat) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "command is missing"},
      {{"dance"}, "dance"},
      {{"status", "--loud"}, "--loud"},
      {{"user"}, "UID"},
      {{"kick"}, "UID"},
      {{"status", "--timeout", "5"}, "1ms to 60m"},
      {{"status", "--timeout", "0s"}, "1ms to 60m"},
      {{"status", "--timeout", "2h"}, "1ms to 60m"},
      {{"status", "--timeout", "61m"}, "1ms to 60m"},
      {{"status", "--timeout", "3600001ms"}, "1ms to 60m"},
      {{"status", "--timeout", "-1s"}, "1ms to 60m"},
      {{"status", "--timeout", "99999999999s"}, "1ms to 60m"},
      {{"status", "--url", "127.0.0.1:7601"}, "http://HOST:PORT"},
  };
  for (const auto& [arguments, named] : cases) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, kUsage) << named;
    EXPECT_THAT(result.err, HasSubstr(named));
    EXPECT_THAT(result.err, StartsWith("pulsewheelctl: "));
    EXPECT_EQ(result.out, "");
  }
}

TEST(ToLinesTest, ShowsEmptyValuesAndNumbersAsTheyAre) {
  EXPECT_EQ(ctl::to_lines({{"a", nullptr}, {"b", Json::array()}, {"c", ""}, {"d", 1.5}}),
            "a  null\nb  []\nc  \"\"\nd  1.5\n");
}

}  // namespace
}  // namespace pulsewheel

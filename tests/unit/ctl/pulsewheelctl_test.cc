// The program pulsewheelctl as a child process, against the real HTTP server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/http_server.h"
#include "daemon/admin/routes.h"
#include "daemon/base/build_info.h"
#include "daemon/ctl/commands.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/admin/fake_source.h"
#include "tests/unit/ctl/program.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kUsage = 64;
constexpr int kNoInput = 66;
constexpr int kInputOutput = 74;
constexpr int kNoPermission = 77;
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
  for (const char* word : {"healthcheck", "status", "drain", "reload", "user", "explain", "kick",
                           "hold", "release", "query", "top", "watch", "PULSEWHEEL_URL", "69"}) {
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

TEST_F(PulsewheelctlTest, ExplainSaysWhyAndWhere) {
  Explanation& e = *source_.explanation;
  e.user.state = "online";
  SessionExplanation& session = e.sessions.emplace_back();
  session.address = "192.0.2.1:4711";
  session.remaining_ms = 12'345;
  session.wheel = WheelSlot{1, 7};
  e.edges.push_back(
      {.seq = {}, .kind = "online", .reason = "login", .at_ms = 0, .last_seen_ms = {}});
  const ProgramResult result = ask({"explain", "bob"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("summary     online, live sessions: 1"));
  EXPECT_THAT(result.out, HasSubstr("  address      192.0.2.1:4711\n"));
  EXPECT_THAT(result.out, HasSubstr(", in 12.3 s\n"));
  EXPECT_THAT(result.out, HasSubstr("  wheel        level 1, slot 7\n"));
  EXPECT_THAT(result.out, HasSubstr("1970-01-01 00:00:00.000 UTC  online (login)\n"));
}

TEST_F(PulsewheelctlTest, HoldAndReleaseSayWhatTheyDid) {
  source_.hold_report = HoldReport{HoldReport::Verdict::kHeld, {0, 90'000}};
  EXPECT_EQ(ask({"hold", "a/b", "--for", "90s"}).out,
            "held a%2Fb until 1970-01-01 00:01:30.000 UTC\n");
  EXPECT_THAT(source_.held(),
              ElementsAre(std::pair(std::string("a/b"), std::chrono::milliseconds(90'000))));
  EXPECT_EQ(ask({"release", "a/b"}).out, "released a%2Fb, held for 1.5 s\n");
}

TEST_F(PulsewheelctlTest, ReleaseOfAUserWhoIsNotHeldFails) {
  source_.release_report = ReleaseReport{};
  const ProgramResult none = ask({"release", "bob"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("not held"));
}

TEST_F(PulsewheelctlTest, DrainSaysHowManyLeave) {
  const ProgramResult result = ask({"drain"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "draining: 12 connections leave within 10.0 s\n");
}

TEST_F(PulsewheelctlTest, ReloadSaysThatNothingHasChanged) {
  EXPECT_EQ(ask({"reload"}).out, "reloaded: nothing has changed\n");
}

TEST_F(PulsewheelctlTest, ReloadSaysWhatHasChanged) {
  source_.reload_report = ReloadReport{{}, {{"a.b", "1", "2"}}, {{"c.d", "x", "y"}}};
  EXPECT_EQ(ask({"reload"}).out, "a.b: 1 is now 2\nc.d: x stays, y takes a restart\n");
}

TEST_F(PulsewheelctlTest, ReloadOfAWrongConfigurationSaysWhatIsWrong) {
  source_.reload_report = ReloadReport{{"line 3: no such key", "line 5: too long"}, {}, {}};
  const ProgramResult result = ask({"reload"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "pulsewheelctl: the daemon says: the configuration was not reloaded, everything stays "
            "as it was\n  line 3: no such key\n  line 5: too long\n");
}

TEST_F(PulsewheelctlTest, QueryTakesUidsFromArgumentsAndFile) {
  source_.lines = std::vector<UserLine>{{"a/b", "online", 0, {}, 1, {"phone", "tab"}}};
  const test::TemporaryFolder folder;
  test::write_file(folder / "uids", "c%00\r\n\nd\n");
  const ProgramResult result = ask({"query", "a/b", "b", "--file", folder / "uids"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out,
            "UID    STATE   SINCE                        LAST SEEN  SESSIONS  DEVICES\n"
            "a%2Fb  online  1970-01-01 00:00:00.000 UTC  never      1         phone,tab\n");
  using namespace std::string_literals;
  EXPECT_THAT(source_.asked(), ElementsAre("a/b", "b", "c\0"s, "d"));
}

TEST_F(PulsewheelctlTest, QueryOfVeryManyTakesSeveralCalls) {
  source_.lines = std::vector<UserLine>{{"x", "offline", {}, {}, 0, {}}};
  const test::TemporaryFolder folder;
  std::string uids;
  for (int i = 0; i < 25'000; ++i)
    uids += "u" + std::to_string(i) + "\n";
  test::write_file(folder / "uids", uids);
  const ProgramResult result = ask({"query", "--json", "--file", folder / "uids"});
  EXPECT_EQ(Json::parse(result.out).at("users").size(), 3U) << "one line for each call here";
  EXPECT_EQ(source_.asked().size(), 5'000U);
  EXPECT_EQ(source_.asked().back(), "u24999");
}

TEST_F(PulsewheelctlTest, QueryOfAFileThatIsNotThereIsNoInput) {
  const ProgramResult result = ask({"query", "--file", "/nowhere/uids"});
  EXPECT_EQ(result.exit_code, kNoInput);
  EXPECT_THAT(result.err, HasSubstr("'/nowhere/uids': No such file"));
}

TEST_F(PulsewheelctlTest, QueryOfAFileWithoutANameIsNoInput) {
  EXPECT_EQ(ask({"query", "bob", "--file", ""}).exit_code, kNoInput);
}

TEST_F(PulsewheelctlTest, QueryNamesTheUidThatIsWrong) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "uids", "good\n100%\nfine\n");
  const ProgramResult result = ask({"query", "--file", folder / "uids"});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.err, HasSubstr("100% is no UID"));
}

TEST_F(PulsewheelctlTest, QueryReadsLinesOfAKibibyteAtMost) {
  source_.lines = std::vector<UserLine>{};
  const test::TemporaryFolder folder;
  const std::string longest(1'024, 'a');
  test::write_file(folder / "uids", "b\n" + longest + "\n" + longest);
  EXPECT_EQ(ask({"query", "--file", folder / "uids"}).exit_code, 1) << "the daemon takes 128 bytes";
  test::write_file(folder / "uids", "b\n" + longest + "a\n");
  const ProgramResult result = ask({"query", "--file", folder / "uids"});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.err, HasSubstr("line of more than 1024 bytes"));
  EXPECT_EQ(ask({"query", "--file", "/dev/zero"}).exit_code, kUsage);
}

TEST_F(PulsewheelctlTest, QueryReadsStandardInput) {
  const ProgramResult result = ask({"query", "--file", "-", "--json"});  // it is empty here
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(Json::parse(result.out), Json::parse(R"({"users": []})"));
}

TEST_F(PulsewheelctlTest, TopDrawsTheWheelAndItsHand) {
  source_.status_json = {{"phase", "serving"}, {"connections", 12}};
  source_.wheel =
      WheelReport{.tick_s = 1,
                  .shards = {{.shard = 0,
                              .tick = 1,
                              .levels = {{.ticks_per_slot = 1, .hand = 1, .counts = {0, 4, 8}}}}}};
  const ProgramResult result = ask({"top", "--count", "1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("connections     12"));
  EXPECT_THAT(result.out, HasSubstr("slots of 1 ticks, the fullest holds 8\n    #\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  # #\n  ^\n"));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("\x1b"))) << "this is no terminal";
}

TEST_F(PulsewheelctlTest, TopInJsonIsALineForEachLook) {
  const ProgramResult result = ask({"top", "--json", "--count", "2", "--interval", "1ms"});
  std::istringstream lines(result.out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(Json::parse(line).at("status"), source_.status_json);
  EXPECT_EQ(count, 2U);
}

TEST_F(PulsewheelctlTest, AsksThroughAUnixSocket) {
  const test::TemporaryFolder folder;
  HttpServer::Options options;
  options.port = 0;
  options.unix_socket = folder / "http";
  server_ = std::make_unique<HttpServer>(options, make_routes(source_));
  server_->start();
  const ProgramResult result =
      run({"status", "--unix-socket", folder / "http", "--url", "http://127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const ProgramResult none = run({"status", "--unix-socket", folder / "none"});
  EXPECT_EQ(none.exit_code, kUnavailable);
  EXPECT_THAT(none.err, HasSubstr("cannot reach unix:" + folder / "none"));
  EXPECT_EQ(run({"status", "--unix-socket", std::string(200, 'a')}).exit_code, kUnavailable);
}

TEST_F(PulsewheelctlTest, ShowsTheTokenThatAFileHolds) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "token", "correct-horse-battery-staple\n");
  test::write_file(folder / "wrong", "wrong-horse-battery-staple\n");
  HttpServer::Options options;
  options.port = 0;
  options.token = BearerToken::read(folder / "token");
  server_ = std::make_unique<HttpServer>(options, make_routes(source_));
  server_->start();
  const std::string url = url_of(server_->port());
  EXPECT_EQ(run({"status", "--url", url, "--token-file", folder / "token"}).exit_code, 0);
  EXPECT_EQ(run({"status", "--url", url}, {"PULSEWHEEL_TOKEN_FILE=" + folder / "token"}).exit_code,
            0);
  EXPECT_EQ(run({"status", "--url", url, "--token-file", folder / "wrong"}).exit_code,
            kNoPermission);
  const ProgramResult without = run({"status", "--url", url});
  EXPECT_EQ(without.exit_code, kNoPermission);
  EXPECT_THAT(without.err, HasSubstr("--token-file FILE"));
  test::write_file(folder / "odd", "a token\r\nX: y");
  EXPECT_EQ(run({"status", "--url", url, "--token-file", folder / "odd"}).exit_code, kNoInput);
  EXPECT_EQ(run({"status", "--url", url, "--token-file", folder / "none"}).exit_code, kNoInput);
}

TEST_F(PulsewheelctlTest, MalformedUidIsWrongUsage) {
  for (const char* command : {"user", "explain", "kick", "hold", "release", "query"}) {
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

TEST_F(PulsewheelctlTest, AUrlThatIsTypedBeatsASocketInTheEnvironment) {
  (void)ask({"status"});
  const std::vector<std::string> environment = {"PULSEWHEEL_UNIX_SOCKET=/nowhere/http"};
  EXPECT_EQ(run({"healthcheck", "--url", url_of(server_->port())}, environment).out, "ready\n");
  EXPECT_THAT(run({"status"}, environment).err, HasSubstr("cannot reach unix:/nowhere/http"));
}

TEST_F(PulsewheelctlTest, ASocketThatIsTypedBeatsAUrlInTheEnvironment) {
  const ProgramResult result =
      run({"status", "--unix-socket", "/nowhere/http"}, {"PULSEWHEEL_URL=http://127.0.0.1:1"});
  EXPECT_THAT(result.err, HasSubstr("cannot reach unix:/nowhere/http"));
}

TEST_F(PulsewheelctlTest, AnAnswerThatCannotBeWrittenIsAnError) {
  (void)ask({"status"});
  for (const char* command : {"status", "healthcheck", "top --count 2 --interval 1ms"}) {
    const std::string line = std::string(PULSEWHEELCTL_PATH) + " " + command + " --url " +
                             url_of(server_->port()) + " >/dev/full";
    const ProgramResult result = run_program({"/bin/sh", "-c", line});
    EXPECT_EQ(result.exit_code, kInputOutput) << command;
    EXPECT_EQ(result.err, "pulsewheelctl: cannot write the answer to standard output\n");
  }
}

TEST_F(PulsewheelctlTest, WrongUsageIs64AndSaysWhat) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "command is missing"},
      {{"dance"}, "dance"},
      {{"status", "--loud"}, "--loud"},
      {{"user"}, "UID"},
      {{"kick"}, "UID"},
      {{"hold", "bob", "--for", "169h"}, "1ms to 168h"},
      {{"hold", "bob", "--for", "soon"}, "1ms to 168h"},
      {{"hold", "bob", "--for", ""}, "1ms to 168h"},
      {{"query"}, "name some UIDs"},
      {{"top", "--interval", "0s"}, "1ms to 60m"},
      {{"top", "--count", "-1"}, "--count: Value -1 not in range 0 to 315360000"},
      {{"top", "--count", "99999999999999999999"}, "--count"},
      {{"watch", "--uid", ""}, "is no UID"},
      {{"user", "100%"}, "100% is no UID"},
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

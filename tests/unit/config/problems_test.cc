// What is refused, and what the messages say: whole lines, since people and scripts read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/config.h"
#include "tests/unit/config/config_testing.h"

namespace pulsewheel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

TEST(ConfigProblemTest, UnknownKeysNameTheirPlaceAndTheNearestKey) {
  EXPECT_THAT(problems_of_text("[presence]\ntick = \"1s\"\ntimout = \"30s\"\n"),
              ElementsAre("test.toml:3: unknown key \"presence.timout\"; did you mean "
                          "\"presence.timeout\"?"));
  EXPECT_THAT(problems_of_text("tick = \"1s\""),
              ElementsAre("test.toml:1: unknown key \"tick\"; did you mean \"presence.tick\"?"));
  EXPECT_THAT(problems_of_text("[server]\nwindow = \"1s\""),
              ElementsAre("test.toml:2: unknown key \"server.window\"; did you mean "
                          "\"drain.window\"?"));
  EXPECT_THAT(problems_of_text("[[listener]]\nprot = 1"),
              ElementsAre("test.toml:2: unknown key \"listener.0.prot\"; did you mean "
                          "\"listener.0.port\"?"));
  EXPECT_THAT(problems_of_sets({"presence.Tick=1s"}),
              ElementsAre("--set: unknown key \"presence.Tick\"; did you mean \"presence.tick\"?"));
}

TEST(ConfigProblemTest, UnknownKeysFarFromAllOthersListThoseOfTheirTable) {
  EXPECT_THAT(problems_of_text("http.certificate = 1"),
              ElementsAre(StartsWith("test.toml:1: unknown key \"http.certificate\"; [http] has "
                                     "enabled, address, port, ")));
  EXPECT_THAT(problems_of_text("zzzzzzzzz = 1"),
              ElementsAre("test.toml:1: unknown key \"zzzzzzzzz\""));
}

TEST(ConfigProblemTest, AnUnknownTableIsOneProblemWhateverItHolds) {
  EXPECT_THAT(problems_of_text("[presense]\ntick = \"1s\"\ntimeout = \"1s\"\n"),
              ElementsAre("test.toml:1: unknown key \"presense\"; did you mean \"presence\"?"));
}

TEST(ConfigProblemTest, ASecretInTheUrlOfRedisIsRefusedAndNotShown) {
  EXPECT_THAT(problems_of_sets({"redis.url=redis://:hunter2@localhost"}),
              ElementsAre("redis.url: must not hold a user or a password: use redis.user and "
                          "redis.password_file"));
}

TEST(ConfigProblemTest, ASharedRingOfThirtyOneSlotsIsRefused) {
  EXPECT_THAT(problems_of_sets({"redis.mode=shared", "redis.slots=31"}),
              ElementsAre("redis.slots: must be 32 with redis.mode = \"shared\": in a ring of 31 a "
                          "user can stand in the very slot that the hand reads"));
}

TEST(ConfigProblemTest, UnknownVariablesNameTheNearestVariable) {
  EXPECT_THAT(problems_of_env({{"PULSEWHEEL_PRESENCE_TIK", "1s"}}),
              ElementsAre("PULSEWHEEL_PRESENCE_TIK: unknown variable; did you mean "
                          "PULSEWHEEL_PRESENCE_TICK?"));
  EXPECT_THAT(problems_of_env({{"PULSEWHEEL_LISTENER_0_PROT", "1"}}),
              ElementsAre("PULSEWHEEL_LISTENER_0_PROT: unknown variable; did you mean "
                          "PULSEWHEEL_LISTENER_0_PORT?"));
  EXPECT_THAT(problems_of_env({{"PULSEWHEEL_PORTS_FILE", "/a"}}),
              ElementsAre(StartsWith("PULSEWHEEL_PORTS_FILE: unknown variable; did you mean")));
}

TEST(ConfigProblemTest, WrongTypesSayWhatIsAllowed) {
  EXPECT_THAT(problems_of_text("http.enabled = \"yes\""),
              ElementsAre("test.toml:1: http.enabled = \"yes\": wrong type (string); allowed: "
                          "true or false"));
  EXPECT_THAT(problems_of_text("http.port = \"7601\""),
              ElementsAre("test.toml:1: http.port = \"7601\": wrong type (string); allowed: an "
                          "integer, 0 to 65535"));
  EXPECT_THAT(problems_of_text("server.state_dir = 1979-05-27"),
              ElementsAre("test.toml:1: server.state_dir: wrong type (date); allowed: a string, 1 "
                          "to 4096 bytes of UTF-8 without control characters"));
  EXPECT_THAT(problems_of_text("presence.tick = 0.5"),
              ElementsAre("test.toml:1: presence.tick: wrong type (float); allowed: a duration, "
                          "\"10ms\" to \"10s\""));
  EXPECT_THAT(problems_of_text("presence.tick = { value = \"1s\" }"),
              ElementsAre("test.toml:1: presence.tick: wrong type (table); allowed: a duration, "
                          "\"10ms\" to \"10s\""));
}

TEST(ConfigProblemTest, DurationsWithoutAUnitSayHowToWriteThem) {
  const std::string tail =
      "a duration needs a unit, as \"5s\" or \"5ms\"; allowed: a duration, \"10ms\" to \"10s\"";
  EXPECT_THAT(problems_of_text("presence.tick = 5"),
              ElementsAre("test.toml:1: presence.tick = 5: " + tail));
  EXPECT_THAT(problems_of_sets({"presence.tick=5"}),
              ElementsAre("--set: presence.tick = \"5\": " + tail));
}

TEST(ConfigProblemTest, WrongWordsSayWhichThereAre) {
  EXPECT_THAT(problems_of_sets({"server.fd_tables=per_shard"}),
              ElementsAre("--set: server.fd_tables = \"per_shard\": not one of the choices; "
                          "allowed: \"auto\", \"shared\" or \"per-shard\""));
  EXPECT_THAT(problems_of_sets({"log.level=INFO"}), SizeIs(1));
  EXPECT_THAT(problems_of_sets({"log.level="}), SizeIs(1));
}

TEST(ConfigProblemTest, AddressesAreLiterals) {
  for (const char* address : {"*", "0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_THAT(problems_of_sets({std::string{"listener.0.address="} + address}), IsEmpty())
        << address;
  }
  for (const char* address : {"", "localhost", "[::1]", "127.0.0.1:7600", "127.1", "256.0.0.1"}) {
    EXPECT_THAT(problems_of_sets({std::string{"listener.0.address="} + address}),
                ElementsAre(HasSubstr("not an IP address")))
        << address;
  }
  EXPECT_THAT(problems_of_sets({"http.address=*"}), ElementsAre(HasSubstr("not an IP address")));
}

TEST(ConfigProblemTest, AFileModeIsThreeOctalDigits) {
  for (const char* mode : {"660", "0600", "000", "\"777\""}) {
    EXPECT_THAT(problems_of_sets({std::string{"http.unix_socket_mode="} + mode}), IsEmpty())
        << mode;
  }
  for (const char* mode : {"", "66", "1660", "668", "0o660", "u=rw", "06600"}) {
    EXPECT_THAT(problems_of_sets({std::string{"http.unix_socket_mode="} + mode}),
                ElementsAre(HasSubstr("not a file mode")))
        << mode;
  }
}

TEST(ConfigProblemTest, TextIsUtf8WithoutControlCharactersAndNotTooLong) {
  const auto problems = [](const std::string& path) {
    return problems_of_sets({"events.path=" + path});
  };
  EXPECT_THAT(problems(std::string(4'096, 'a')), IsEmpty());
  EXPECT_THAT(problems(std::string(4'097, 'a')), ElementsAre(HasSubstr("too long")));
  EXPECT_THAT(problems("\xE2\x82\xAC\xF4\x8F\xBF\xBF"), IsEmpty());
  for (const char* text : {"a\x1B[31m", "a\nb", "a\x7F"}) {
    EXPECT_THAT(problems(text), ElementsAre(HasSubstr("contains a control character")));
  }
  // A stray byte, a cut sequence, overlong forms, a surrogate, past the last code point.
  for (const char* text : {"\x80", "\xC3", "\xE2\x82", "\xC0\xAF", "\xE0\x80\xAF",
                           "\xF0\x80\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_THAT(problems(text), ElementsAre(HasSubstr("not UTF-8")));
  }
}

TEST(ConfigProblemTest, IsAlwaysOneShortPrintableLine) {
  const auto problems =
      problems_of_sets({"log.level=\x1B]0;x\x07\n\xFF\\\"" + std::string(500, 'x')});
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0],
              StartsWith("--set: log.level = \"\\u001B]0;x\\u0007\\u000A\\xFF\\\\\\\"x"));
  EXPECT_THAT(problems[0], HasSubstr("xxx\"...: not one of the choices"));
  EXPECT_LT(problems[0].size(), 300U);
}

TEST(ConfigProblemTest, NamesOfVariablesAndFilesArePrintableToo) {
  EXPECT_THAT(problems_of_env({{"PULSEWHEEL_X\nY\x1B", ""}}),
              ElementsAre(StartsWith("PULSEWHEEL_X?Y?: unknown key")));
  EXPECT_THAT(problems_of([] {
                return load_config_text("x = 1", {"a\nb", {}, {}});
              }),
              ElementsAre("a?b:1: unknown key \"x\""));
}

TEST(ConfigProblemTest, TablesAndArraysInEachOthersPlaceSaySo) {
  EXPECT_THAT(problems_of_text("[listener]\nport = 1"),
              ElementsAre("test.toml:1: listener is an array of tables: write [[listener]]"));
  EXPECT_THAT(problems_of_text("listener = []"),
              ElementsAre("test.toml:1: listener is an array of 1 to 16 tables [[listener]] with "
                          "the keys address, port, protocol (listener.0.port on the command "
                          "line)"));
  EXPECT_THAT(problems_of_text("presence = 1"),
              ElementsAre(StartsWith("test.toml:1: presence is a table with the keys tick,")));
  EXPECT_THAT(problems_of_text("[[http]]\nport = 1"),
              ElementsAre(StartsWith("test.toml:1: unknown key \"http.0\"; [http] has enabled, "
                                     "address, port, ")));
}

TEST(ConfigProblemTest, QuotedKeysAreNotPaths) {
  EXPECT_THAT(problems_of_text("\"presence.tick\" = \"100ms\""), SizeIs(1));
  EXPECT_THAT(problems_of_text("[listener.0]\nport = 1"), Not(IsEmpty()));
}

TEST(ConfigProblemTest, ListenersAreNumberedWithoutGaps) {
  EXPECT_THAT(problems_of_sets({"listener.2.port=1"}),
              ElementsAre("--set: listener.2: the next listener would be listener.1"));
  EXPECT_THAT(problems_of_sets({"listener.16.port=1"}),
              ElementsAre("--set: more than 16 listeners"));
  for (const char* name : {"listener.-1.port", "listener.x.port", "listener..port", "listener.0",
                           "listener.99999999999999999999.port", "listener.0.port.x"}) {
    EXPECT_THAT(problems_of_sets({std::string{name} + "=1"}), SizeIs(1)) << name;
  }
}

TEST(ConfigProblemTest, SetNeedsAnEqualsSign) {
  EXPECT_THAT(problems_of_sets({"presence.tick"}),
              ElementsAre("--set \"presence.tick\": no \"=\"; write --set key=value"));
  EXPECT_THAT(problems_of_sets({""}), SizeIs(1));
  EXPECT_THAT(problems_of_sets({"="}), ElementsAre("--set: unknown key \"\""));
  EXPECT_THAT(problems_of_sets({" = "}), ElementsAre("--set: unknown key \"\""));
}

TEST(ConfigProblemTest, SyntaxErrorsNameLineAndColumn) {
  EXPECT_THAT(problems_of_text("[server]\nshards = = 1\n"),
              ElementsAre(StartsWith("test.toml:2:10: ")));
  EXPECT_THAT(problems_of_text("x = \"\xFF\""), ElementsAre(StartsWith("test.toml:1:")));
}

TEST(ConfigProblemTest, MalformedTableHeadersNameTheirLine) {
  for (const char* header : {"[=", "[&]", "[[[a]]]", "[[="}) {
    EXPECT_THAT(problems_of_text(std::string{"[server]\nshards = 1\n\n"} + header + "\n[http]\n"),
                ElementsAre(StartsWith("test.toml:4:1: ")))
        << header;
    EXPECT_THAT(problems_of_text(header), ElementsAre(StartsWith("test.toml:1:1: "))) << header;
  }
}

TEST(ConfigProblemTest, DuplicateKeysAreSyntaxErrors) {
  EXPECT_THAT(problems_of_text("[server]\nshards = 1\nshards = 2\n"),
              ElementsAre(AllOf(StartsWith("test.toml:3:"), HasSubstr("shards"))));
}

TEST(ConfigProblemTest, AllAreReportedNotOnlyTheFirst) {
  const ConfigSource source{
      "f", {"server.shards=257"}, {{"PULSEWHEEL_HTTP_PORT", "65536"}, {"PULSEWHEEL_X", ""}}};
  const auto problems = problems_of(
      [&] { return load_config_text("presence.tick = 1\nlog.level = \"loud\"", source); });
  EXPECT_THAT(problems,
              ElementsAre(StartsWith("f:1: presence.tick"), StartsWith("f:2: log.level"),
                          StartsWith("PULSEWHEEL_HTTP_PORT: "), StartsWith("PULSEWHEEL_X: "),
                          StartsWith("--set: server.shards")));
}

TEST(ConfigProblemTest, AFileIsReportedInItsOwnOrder) {
  EXPECT_THAT(problems_of_text("z = 1\n[server]\nshards = -1\n[http]\nport = -1\na = 1\n"),
              ElementsAre(StartsWith("test.toml:1:"), StartsWith("test.toml:3:"),
                          StartsWith("test.toml:5:"), StartsWith("test.toml:6:")));
}

TEST(ConfigProblemTest, TwentyAreListedAndTheRestCounted) {
  std::string text;
  for (int i = 0; i < 25; ++i)
    text += "key" + std::to_string(i) + " = 1\n";
  const auto problems = problems_of_text(text);
  ASSERT_THAT(problems, SizeIs(21));
  EXPECT_THAT(problems[19], StartsWith("test.toml:20: "));
  EXPECT_EQ(problems[20], "and 5 more");
}

TEST(ConfigProblemTest, WhatIsOneLinePerProblem) {
  try {
    static_cast<void>(load_sets({"a", "b"}));
    FAIL() << "loaded";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), (error.problems()[0] + "\n" + error.problems()[1]).c_str());
  }
}

TEST(ConfigCheckTest, KeysThatBoundEachOtherAreNamedWithTheirOrigins) {
  EXPECT_THAT(problems_of_text("presence.timeout = \"3s\""),
              ElementsAre("test.toml:1: presence.timeout_min = \"5s\" (the default) must not be "
                          "greater than presence.timeout = \"3s\" (test.toml:1)"));
}

TEST(ConfigCheckTest, BoundsHoldUpToEquality) {
  struct Case {
    std::vector<std::string> equal;  // both sides
    std::string greater;             // then this breaks the rule
  };
  const Case cases[] = {
      {{"presence.tick=5s"}, "presence.tick=5001ms"},
      {{"server.login_timeout=1s"}, "server.login_timeout=999ms"},
      {{"presence.timeout_min=30s"}, "presence.timeout_min=30001ms"},
      {{"presence.timeout_max=30s"}, "presence.timeout_max=29999ms"},
      {{"server.payload_before_login_max=8KiB"}, "server.payload_before_login_max=8193"},
      {{"server.shards=4", "server.max_connections=4"}, "server.max_connections=3"},
      {{"server.tcp_user_timeout=4m"}, "server.tcp_user_timeout=239s"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(problems_of_sets(c.equal), IsEmpty()) << c.equal[0];
    auto sets = c.equal;
    sets.push_back(c.greater);
    EXPECT_THAT(problems_of_sets(sets), ElementsAre(HasSubstr(" must not be greater than ")))
        << c.greater;
  }
}

TEST(ConfigCheckTest, BoundDoesNotHoldForWhatIsOff) {
  EXPECT_THAT(problems_of_sets({"server.tcp_user_timeout=0s"}), IsEmpty());
  EXPECT_THAT(problems_of_sets({"server.tcp_user_timeout=1s", "server.tcp_keepalive_idle=0s"}),
              IsEmpty());
}

TEST(ConfigCheckTest, ARefusedValueHasNoSecondProblem) {
  EXPECT_THAT(problems_of_sets({"presence.timeout_min=40", "presence.timeout=3s"}), SizeIs(1));
}

TEST(ConfigCheckTest, NoTwoPortsClash) {
  EXPECT_THAT(problems_of_sets({"listener.1.port=7600"}),
              ElementsAre("listener.1 and listener.0: both would listen on port 7600"));
  EXPECT_THAT(problems_of_sets({"listener.0.port=7601"}),
              ElementsAre("http and listener.0: both would listen on port 7601"));
  EXPECT_THAT(problems_of_sets({"listener.0.port=7601", "http.enabled=false"}), IsEmpty());
  EXPECT_THAT(problems_of_sets({"listener.0.port=0", "listener.1.port=0", "http.port=0"}),
              IsEmpty());
  const auto both = [](const std::string& a, const std::string& b) {
    return problems_of_sets({"listener.0.address=" + a, "listener.1.address=" + b,
                             "listener.0.port=9000", "listener.1.port=9000"});
  };
  EXPECT_THAT(both("127.0.0.1", "127.0.0.2"), IsEmpty());
  EXPECT_THAT(both("0.0.0.0", "::"), IsEmpty());
  EXPECT_THAT(both("0.0.0.0", "::1"), IsEmpty());
  EXPECT_THAT(both("::1", "::"), SizeIs(1));
  EXPECT_THAT(both("127.0.0.1", "0.0.0.0"), SizeIs(1));
  EXPECT_THAT(both("::1", "*"), SizeIs(1));
}

TEST(ConfigCheckTest, NoTwoLogsShareAFile) {
  EXPECT_THAT(problems_of_sets({"events.path=/a", "events.offline_path=/a"}),
              ElementsAre("events.path and events.offline_path: both are \"/a\""));
  EXPECT_THAT(problems_of_sets({"events.path=/a", "log.destination=/a"}), SizeIs(1));
  EXPECT_THAT(problems_of_sets({"events.offline_path=/a", "log.destination=/a"}), SizeIs(1));
  EXPECT_THAT(
      problems_of_sets({"events.path=/a", "events.offline_path=/a", "events.enabled=false"}),
      IsEmpty());
}

class ConfigFileProblemTest : public testing::Test {
 protected:
  ConfigFileProblemTest() {
    std::string pattern = testing::TempDir() + "pulsewheel_config_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~ConfigFileProblemTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) const {
    std::ofstream{folder_ / "c.toml"} << text;
    return folder_ / "c.toml";
  }
  static std::vector<std::string> problems_of_file(const std::string& file) {
    return problems_of([&] { return load_config({file, {}, {}}); });
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigFileProblemTest, AFileIsReadFromDisk) {
  EXPECT_EQ(load_config({write("server.shards = 7\n"), {}, {}}).server.shards, 7U);
}

TEST_F(ConfigFileProblemTest, AnAbsentFileIsNamed) {
  const std::string file = folder_ / "absent.toml";
  EXPECT_THAT(problems_of_file(file),
              ElementsAre(file + ": cannot open: No such file or directory"));
}

TEST_F(ConfigFileProblemTest, AFolderOrFifoIsNoFile) {
  EXPECT_THAT(problems_of_file(folder_),
              ElementsAre(folder_.string() + ": is a directory; a TOML file is needed"));
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(problems_of_file(fifo),
              ElementsAre(EndsWith("not a regular file; a TOML file is needed")));
}

TEST_F(ConfigFileProblemTest, AnUnreadableFileIsNamed) {
  const std::string file = write("");
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  if (access(file.c_str(), R_OK) == 0) GTEST_SKIP() << "this user may read everything";
  EXPECT_THAT(problems_of_file(file), ElementsAre(file + ": cannot open: Permission denied"));
}

TEST_F(ConfigFileProblemTest, AFailedReadIsNamed) {
  // A regular file that opens, and whose first page cannot be read.
  EXPECT_THAT(problems_of_file("/proc/self/mem"),
              ElementsAre("/proc/self/mem: cannot read: Input/output error"));
}

TEST_F(ConfigFileProblemTest, OneMebibyteIsTheLimit) {
  EXPECT_THAT(problems_of_file(write(std::string(1 << 20, '\n'))), IsEmpty());
  EXPECT_THAT(problems_of_file(write(std::string((1 << 20) + 1, '\n'))),
              ElementsAre(EndsWith("c.toml: larger than 1 MiB")));
}

TEST_F(ConfigFileProblemTest, OtherSourcesAreCheckedAllTheSame) {
  EXPECT_THAT(problems_of([&] {
                return load_config({folder_ / "absent.toml", {"server.shards=-1"}, {}});
              }),
              SizeIs(2));
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  while (times-- > 0)
    all += text;
  return all;
}

TEST(ConfigHostileFileTest, NestingIsBounded) {
  EXPECT_THAT(problems_of_text("x = " + std::string(100'000, '[')),
              ElementsAre(HasSubstr("TOML_MAX_NESTED_VALUES")));
  std::string dotted = "a";
  for (int i = 0; i < 32; ++i)
    dotted += ".a";
  EXPECT_THAT(problems_of_text(dotted + " = 1"), ElementsAre("test.toml:1: unknown key \"a\""));
  EXPECT_THAT(problems_of_text("\n" + dotted + ".a = 1"),
              ElementsAre("test.toml:2:66: more than 32 dots in one line"));
  EXPECT_THAT(problems_of_sets({"server.shards={" + dotted + ".a = 1}"}), SizeIs(1));
}

TEST(ConfigHostileFileTest, DotsInStringsAndCommentsAndOtherLinesAreFree) {
  const std::string dots(1'000, '.');
  EXPECT_THAT(problems_of_text("events.path = \"" + dots + "\" # " + dots + "\n# " + dots),
              IsEmpty());
  EXPECT_THAT(problems_of_text("x = [\n" + repeated("0.5,\n", 40) + "]"),
              ElementsAre("test.toml:1: unknown key \"x\""));
}

TEST(ConfigHostileFileTest, CharactersOutsideOfAsciiNeedQuotes) {
  EXPECT_THAT(problems_of_text("# é\nevents.path = 'é' # é\nevents.offline_path = \"\\\"é\""),
              IsEmpty());
  const std::string reason = "a character outside of ASCII needs quotes round it";
  EXPECT_THAT(problems_of_text("é = 1"), ElementsAre("test.toml:1:1: " + reason));
  EXPECT_THAT(problems_of_text("# é\nevents.path = 'é'\xC2\xA0"),
              ElementsAre("test.toml:2:18: " + reason));
  EXPECT_THAT(problems_of_text("log.level = \xE2\x80\x9Cinfo\xE2\x80\x9D"),
              ElementsAre("test.toml:1:13: " + reason));
  EXPECT_THAT(problems_of_text("events.path = 'a\\'é"), ElementsAre("test.toml:1:19: " + reason));
  EXPECT_EQ(load_text("\xEF\xBB\xBFserver.shards = 2").server.shards, 2U);
}

TEST(ConfigHostileFileTest, MultiLineStringsAreRefused) {
  for (const char* quotes : {"\"\"\"", "'''"}) {
    EXPECT_THAT(problems_of_text(std::string{"events.path = "} + quotes + "a" + quotes),
                ElementsAre("test.toml:1:15: multi-line strings are not taken here"));
  }
  EXPECT_THAT(problems_of_text("events.path = \"\"\nserver.ports_file = ''"), IsEmpty());
}

TEST(ConfigHostileFileTest, UnfinishedStringsAreSyntaxErrors) {
  for (const char* text : {"log.level = \"info", "log.level = 'info\n", "log.level = \"info\\",
                           "log.level = \"info\\\n\"", "log.level = \"\\\"", "\"", "x = \"é"}) {
    EXPECT_THAT(problems_of_text(text), ElementsAre(StartsWith("test.toml:"))) << text;
  }
}

TEST(ConfigHostileFileTest, ManyProblemsCostNoSearch) {
  std::string text;
  for (int i = 0; text.size() < 900'000; ++i)
    text += "presence_" + std::to_string(i) + "=1\n";
  EXPECT_THAT(problems_of_text(text), SizeIs(21));
}

}  // namespace
}  // namespace pulsewheel

#include "tests/client_sim/options.h"

#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/base/build_info.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// Flags are separated by spaces.
Options parse(const std::string& flags) {
  std::istringstream rest("pulsewheel-sim " + flags);
  const std::vector<std::string> words(std::istream_iterator<std::string>(rest), {});
  std::vector<const char*> argv;
  for (const std::string& word : words)
    argv.push_back(word.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data()).value();
}

std::string refusal(const std::string& flags) {
  try {
    static_cast<void>(parse(flags));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(DurationTest, ReadsNumbersWithUnits) {
  struct Case {
    const char* text;
    std::optional<Duration> value;
  };
  for (const Case& c : {Case{"100ms", 100ms},
                        {"30s", 30s},
                        {"2m", 2min},
                        {"1h", 1h},
                        {"90", 90s},
                        {"0.5s", 500ms},
                        {"0", 0s},
                        {"1000h", 1000h}}) {
    EXPECT_EQ(parse_duration(c.text), c.value) << c.text;
  }
  for (const char* wrong : {"", "s", "-1s", "1 s", "1d", "1ss", "nan", "inf", "1001h", "1e30h"}) {
    EXPECT_EQ(parse_duration(wrong), std::nullopt) << wrong;
  }
}

TEST(OptionsTest, VersionIsPrintedAndNothingRuns) {
  const char* const argv[] = {"pulsewheel-sim", "--version"};
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse_options(2, argv).has_value());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), version_line("pulsewheel-sim") + "\n");
}

TEST(OptionsTest, TakesEveryFlag) {
  const Options options = parse(
      "--spawn daemon --set a=1 --set b=2 --connections 10 --keepalive 1s --timeout 3s "
      "--ramp 5 --duration 2m --silent-percent 1 --disconnect-percent 2 "
      "--logout-percent 3 --churn 4 --message-percent 5 --devices 2 --stop-all-at 60s "
      "--freeze-daemon-at 30s --freeze-for 40s --cut-all-at 50s --back-within 5s --drain 4s "
      "--seed 9 --report r.json --tick 100ms --slack 3s --grace 2s --keep");
  EXPECT_EQ(options.spawn, "daemon");
  EXPECT_EQ(options.sets, (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(options.connections, 10U);
  EXPECT_EQ(options.keepalive, 1s);
  EXPECT_EQ(options.timeout, 3s);
  EXPECT_EQ(options.ramp, 5.0);
  EXPECT_EQ(options.duration, 2min);
  EXPECT_EQ(options.silent_percent, 1.0);
  EXPECT_EQ(options.disconnect_percent, 2.0);
  EXPECT_EQ(options.logout_percent, 3.0);
  EXPECT_EQ(options.churn, 4.0);
  EXPECT_EQ(options.message_percent, 5.0);
  EXPECT_EQ(options.devices, 2U);
  EXPECT_EQ(options.stop_all_at, 60s);
  EXPECT_EQ(options.freeze_at, 30s);
  EXPECT_EQ(options.freeze_for, 40s);
  EXPECT_EQ(options.cut_all_at, 50s);
  EXPECT_EQ(options.back_within, 5s);
  EXPECT_EQ(options.drain, 4s);
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(options.report, "r.json");
  EXPECT_EQ(options.tick, 100ms);
  EXPECT_EQ(options.slack, 3s);
  EXPECT_EQ(options.grace, 2s);
  EXPECT_TRUE(options.keep);
}

TEST(OptionsTest, SpawnNeedsNoProgram) {
  EXPECT_EQ(parse("--spawn").spawn, "");
  EXPECT_EQ(parse("--spawn --connections 5").spawn, "");
}

TEST(OptionsTest, OfAFlagGivenTwiceTheLastCounts) {
  EXPECT_EQ(parse("--spawn --seed 1 --seed 2").seed, 2U);
}

TEST(OptionsTest, NeedsExactlyOneDaemon) {
  EXPECT_NE(refusal("").find("either --target"), std::string::npos);
  EXPECT_NE(refusal("--spawn x --target h:1").find("either --target"), std::string::npos);
  EXPECT_NE(refusal("--target h:1 --set a=1").find("--set"), std::string::npos);
}

TEST(OptionsTest, RefusesAKeepaliveThatIsNotShorterThanTheTimeout) {
  EXPECT_EQ(refusal("--spawn --keepalive 29999ms"), "(accepted)");
  EXPECT_NE(refusal("--spawn --keepalive 30s").find("--expect-offline"), std::string::npos);
  EXPECT_EQ(refusal("--spawn --keepalive 30s --expect-offline"), "(accepted)");
  EXPECT_EQ(refusal("--spawn --keepalive 30s --timeout 31s"), "(accepted)");
  EXPECT_EQ(refusal("--spawn --keepalive 30s --set presence.timeout=45s"), "(accepted)");
}

TEST(OptionsTest, RefusesValuesOutOfRange) {
  for (const char* flags :
       {"--connections 0", "--connections 1000001", "--devices 0", "--devices 5 --connections 4",
        "--churn-percent 6001", "--churn-percent -1", "--silent-percent 101",
        "--silent-percent 60 --logout-percent 41", "--churn -1", "--duration soon", "--keepalive 0",
        "--edges a --edges b --edges c", "--no-such-flag"}) {
    EXPECT_NE(refusal(std::string("--spawn ") + flags), "(accepted)") << flags;
  }
}

TEST(OptionsTest, RefusesHalfOfWhatGoesTogether) {
  EXPECT_NE(refusal("--spawn --freeze-daemon-at 3s").find("--freeze-for"), std::string::npos);
  EXPECT_NE(refusal("--spawn --freeze-for 3s").find("--freeze-daemon-at"), std::string::npos);
  EXPECT_EQ(refusal("--spawn --verify-redis redis://localhost"), "(accepted)");
  EXPECT_NE(refusal("--spawn --verify-redis localhost").find("redis://"), std::string::npos);
  EXPECT_NE(refusal("--target h:1 --verify-redis redis://localhost").find("--edges"),
            std::string::npos);
  EXPECT_NE(refusal("--spawn --back-within 3s").find("--cut-all-at"), std::string::npos);
  const std::string freeze = "--freeze-daemon-at 3s --freeze-for 4s";
  EXPECT_NE(refusal("--target h:1 " + freeze).find("--pid"), std::string::npos);
  EXPECT_EQ(refusal("--target h:1 --pid 7 " + freeze), "(accepted)");
}

TEST(OptionsTest, ChurnIsARateOrAShareOfTheClients) {
  EXPECT_DOUBLE_EQ(churn_rate_of(parse("--spawn --churn 7")), 7);
  EXPECT_DOUBLE_EQ(churn_rate_of(parse("--spawn --connections 20000 --churn-percent 30")), 100);
  EXPECT_NE(refusal("--spawn --churn 1 --churn-percent 1").find("either"), std::string::npos);
}

TEST(OptionsTest, ClientsNameTheirDevicesWhereANewConnectionIsToReplaceTheOldOne) {
  EXPECT_FALSE(names_devices(parse("--spawn")));
  EXPECT_FALSE(names_devices(parse("--spawn --churn 7")));
  EXPECT_TRUE(names_devices(parse("--spawn --devices 2")));
  EXPECT_TRUE(names_devices(parse("--spawn --churn-percent 30")));
}

TEST(OptionsTest, TheTickIsThatOfTheSpawnedDaemon) {
  EXPECT_EQ(tick_of(parse("--spawn")), 1s);
  EXPECT_EQ(tick_of(parse("--spawn --set presence.tick=100ms")), 100ms);
  EXPECT_EQ(tick_of(parse("--spawn --set presence.tick=\"50ms\"")), 50ms);
  EXPECT_EQ(tick_of(parse("--spawn --set presence.tick=100ms --tick 20ms")), 20ms);
}

TEST(OptionsTest, TheLastOfSeveralSetsCounts) {
  EXPECT_EQ(value_of({"a=1", "a=2", "ab=3"}, "a"), "2");
  EXPECT_EQ(value_of({"a=1"}, "b"), std::nullopt);
  EXPECT_EQ(value_of({"a"}, "a"), std::nullopt);
}

TEST(OptionsTest, ReloadsAreInOrderOfTime) {
  const Options options =
      parse("--spawn --reload-daemon 9s:presence.timeout=6s --reload-daemon 1500ms:a.b=c=d");
  EXPECT_EQ(options.reloads,
            (std::vector<TimedReload>{{1500ms, "a.b", "c=d"}, {9s, "presence.timeout", "6s"}}));
}

TEST(OptionsTest, AReloadThatIsNoneIsRefused) {
  EXPECT_NE(refusal("--target h:1 --reload-daemon 9s:a=b").find("needs --spawn"),
            std::string::npos);
  for (const char* text : {"", "9s", "9s:a", "9s:=b", "a=b", "later:a=b", "9s:a=\"b\"", "a=9s:b"}) {
    EXPECT_NE(refusal(std::string("--spawn --reload-daemon ") + text).find("--reload-daemon"),
              std::string::npos)
        << text;
  }
}

TEST(OptionsTest, ARestartIsForADaemonOfItsOwnAndForNothingElseAtOnce) {
  EXPECT_EQ(restart_time_of(parse("--spawn --restart-daemon-at 5s")), 5s);
  EXPECT_EQ(restart_time_of(parse("--spawn --kill-daemon-at 6s --daemon-down-for 2s")), 6s);
  EXPECT_EQ(restart_time_of(parse("--spawn")), std::nullopt);
  EXPECT_NE(refusal("--target h:1 --restart-daemon-at 5s").find("need --spawn"), std::string::npos);
  EXPECT_NE(refusal("--spawn --restart-daemon-at 5s --kill-daemon-at 5s").find("either"),
            std::string::npos);
  EXPECT_NE(refusal("--spawn --kill-daemon-at 5s --cut-all-at 5s").find("do not go with"),
            std::string::npos);
  EXPECT_NE(refusal("--spawn --daemon-down-for 5s").find("goes with"), std::string::npos);
}

TEST(OptionsTest, WhatARestartLeavesComesFromTheDaemonsConfiguration) {
  EXPECT_EQ(restart_grace_of(parse("--spawn")), 60s);
  EXPECT_EQ(restart_grace_of(parse("--spawn --set restart.grace=5s")), 5s);
  EXPECT_EQ(snapshot_age_of(parse("--spawn --set snapshot.interval=1s")), 3s);
}

}  // namespace
}  // namespace pulsewheel::sim

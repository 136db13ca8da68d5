#include "daemon/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::log {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::eventually;
using test::read_file;
using test::split_lines;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  LogTest() {
    options_.destination = path_;
    options_.lines_per_second_max = 0;
  }

  /// The lines that `write` leaves in a log of its own.
  template <class Write>
  std::vector<std::string> lines_of(Write write) {
    {
      Logger log(options_);
      log.start_thread();
      write(log);
    }
    return split_lines(read_file(path_));
  }

  /// Writes until lines have been dropped and the destination has failed.
  static bool writes_until_lines_are_lost(Logger& log) {
    return eventually([&log] {
      log.write(Level::kInfo, "n", {}, "{}", std::string(1'000, 'x'));
      return log.stats().overrun > 0 && log.stats().errors > 0;
    });
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "log";
  Options options_;
};

TEST_F(LogTest, HumanLineHasTimeLevelKindMessageAndFields) {
  const auto lines = lines_of([](Logger& log) {
    log.write(Level::kWarn, "accept",
              {{"fd", 3}, {"peer", "::1"}, {"wait", 1.5}, {"ipv6", true}, {"path", "/a b"}},
              "cannot accept: {}", "no room");
  });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0],
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z warn "
                           "accept: cannot accept: no room fd=3 peer=::1 wait=1.5 ipv6=true "
                           "path=\"/a b\""));
}

TEST_F(LogTest, JsonLineHasTheSame) {
  options_.format = Format::kJson;
  const auto lines = lines_of([](Logger& log) {
    log.write(Level::kError, "accept", {{"fd", -3}, {"peer", "::1"}, {"ok", false}, {"wait", 1.5}},
              "cannot accept: {}", "no \"room\"");
  });
  ASSERT_EQ(lines.size(), 1U);
  const auto line = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["kind"], "accept");
  EXPECT_EQ(line["msg"], "cannot accept: no \"room\"");
  EXPECT_EQ(line["fd"], -3);
  EXPECT_EQ(line["peer"], "::1");
  EXPECT_EQ(line["ok"], false);
  EXPECT_EQ(line["wait"], 1.5);
  EXPECT_THAT(line["time"].get<std::string>(), EndsWith("Z"));
}

TEST_F(LogTest, UidsArePercentEncodedAsFieldsAndAsArguments) {
  const auto lines = lines_of([](Logger& log) {
    log.write(Level::kInfo, "login", {{"uid", Uid{"a b\n"}}}, "user {}", Uid{"<%>"});
  });
  EXPECT_THAT(lines.at(0), EndsWith("login: user %3C%25%3E uid=a%20b%0A"));
}

TEST_F(LogTest, AnyBytesStayOneValidLineInBothFormats) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte)
    bytes.push_back(static_cast<char>(byte));
  const auto write = [&bytes](Logger& log) {
    log.write(Level::kInfo, "any", {{"field", bytes}}, "{}", bytes);
  };
  auto lines = lines_of(write);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("\\x00\\x01"));
  for (const char c : lines[0])
    EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);

  std::filesystem::remove(path_);
  options_.format = Format::kJson;
  lines = lines_of(write);
  ASSERT_EQ(lines.size(), 1U);
  const auto line = nlohmann::json::parse(lines[0]);  // throws on anything invalid, UTF-8 too
  EXPECT_EQ(line["msg"], line["field"]);
  EXPECT_TRUE(line["msg"].get<std::string>().starts_with(bytes.substr(0, 0x80)));
}

TEST_F(LogTest, NumbersThatJsonLacksAreStrings) {
  options_.format = Format::kJson;
  const auto lines = lines_of([](Logger& log) {
    log.write(Level::kInfo, "number", {{"ratio", std::numeric_limits<double>::infinity()}}, "");
  });
  EXPECT_EQ(nlohmann::json::parse(lines.at(0))["ratio"], "inf");
}

TEST_F(LogTest, ALongMessageIsCut) {
  const auto lines = lines_of(
      [](Logger& log) { log.write(Level::kInfo, "long", {}, "{}", std::string(100'000, 'x')); });
  EXPECT_THAT(lines.at(0), EndsWith(": " + std::string(Logger::kMessageBytesMax, 'x')));
}

TEST_F(LogTest, LinesBelowTheLevelAreNotWritten) {
  const auto lines = lines_of([](Logger& log) {
    log.write(Level::kDebug, "a", {}, "no");
    log.write(Level::kInfo, "b", {}, "yes");
    log.set_level(Level::kError);
    log.write(Level::kWarn, "c", {}, "no");
    EXPECT_FALSE(log.would_log(Level::kWarn));
    EXPECT_TRUE(log.would_log(Level::kError));
  });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], EndsWith("b: yes"));
}

TEST_F(LogTest, LinesFromBeforeTheStartAreKept) {
  {
    Logger log(options_);
    log.write(Level::kInfo, "early", {}, "first");
    EXPECT_FALSE(std::filesystem::exists(path_));
    log.start_thread();
    log.write(Level::kInfo, "late", {}, "second");
  }
  const auto lines = split_lines(read_file(path_));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], EndsWith("early: first"));
}

TEST_F(LogTest, MoreLinesThanOneBufferHoldsAllArriveWithoutAnotherPush) {
  options_.queue_lines_max = 4096;
  Logger log(options_);
  for (int i = 0; i < 1'000; ++i)
    log.write(Level::kInfo, "many", {}, "line {} {}", i, std::string(100, 'x'));
  log.start_thread();
  EXPECT_TRUE(eventually([&] { return log.stats().written == 1'000; }));
}

TEST_F(LogTest, StopWritesMoreThanOneBufferHolds) {
  options_.queue_lines_max = 4096;
  const auto lines = lines_of([](Logger& log) {
    for (int i = 0; i < 2'000; ++i)
      log.write(Level::kInfo, "many", {}, "line {} {}", i, std::string(100, 'x'));
  });
  EXPECT_EQ(lines.size(), 2'000U);
}

TEST_F(LogTest, AfterStopLinesAreDiscarded) {
  const auto lines = lines_of([](Logger& log) {
    log.stop();
    log.write(Level::kError, "late", {}, "no");
    log.stop();
  });
  EXPECT_TRUE(lines.empty());
}

TEST_F(LogTest, AKindBeyondItsRateIsSuppressedAndTold) {
  constexpr std::uint64_t kLines = 1'000;
  options_.lines_per_second_max = 3;
  options_.queue_lines_max = 2 * kLines;
  Logger log(options_);
  log.start_thread();
  for (std::uint64_t i = 0; i < kLines; ++i)
    log.write(Level::kInfo, "flood", {}, "line");
  log.write(Level::kInfo, "other", {}, "heard");
  // By itself, without another line: the log's thread has a timer while there is something to tell.
  EXPECT_TRUE(eventually([&] { return read_file(path_).find("suppressed") != std::string::npos; }));
  log.stop();

  std::uint64_t written = 0;
  std::uint64_t told = 0;
  std::uint64_t others = 0;
  const std::regex summary(".* warn log: suppressed ([0-9]+) lines of kind flood");
  for (const std::string& line : split_lines(read_file(path_))) {
    std::smatch match;
    written += line.ends_with("flood: line") ? 1 : 0;
    others += line.ends_with("other: heard") ? 1 : 0;
    if (std::regex_match(line, match, summary)) told += std::stoull(match[1]);
  }
  EXPECT_GE(written, 3U);
  EXPECT_GT(told, 0U);
  EXPECT_EQ(written + told, kLines);
  EXPECT_EQ(told, log.stats().suppressed);
  EXPECT_EQ(others, 1U);
}

TEST_F(LogTest, AKindWithoutALimitIsAlwaysWritten) {
  options_.lines_per_second_max = 1;
  const auto lines = lines_of([](Logger& log) {
    for (int i = 0; i < 20; ++i)
      log.write(Level::kInfo, Kind::unlimited("answer"), {}, "line");
  });
  EXPECT_EQ(lines.size(), 20U);
}

TEST_F(LogTest, SuppressedLinesAreToldAtTheEnd) {
  options_.lines_per_second_max = 1;
  const auto lines = lines_of([](Logger& log) {
    for (int i = 0; i < 50; ++i)
      log.write(Level::kInfo, "flood", {}, "line");
  });
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), HasSubstr("lines of kind flood"));
}

TEST_F(LogTest, MoreKindsThanTheTableHoldsStillWrite) {
  options_.lines_per_second_max = 1;
  const auto lines = lines_of([](Logger& log) {
#define PULSEWHEEL_TEN_KINDS(tens)                                                              \
  log.write(Level::kInfo, #tens "0", {}, "x"), log.write(Level::kInfo, #tens "1", {}, "x"),     \
      log.write(Level::kInfo, #tens "2", {}, "x"), log.write(Level::kInfo, #tens "3", {}, "x"), \
      log.write(Level::kInfo, #tens "4", {}, "x"), log.write(Level::kInfo, #tens "5", {}, "x"), \
      log.write(Level::kInfo, #tens "6", {}, "x"), log.write(Level::kInfo, #tens "7", {}, "x"), \
      log.write(Level::kInfo, #tens "8", {}, "x"), log.write(Level::kInfo, #tens "9", {}, "x")
    PULSEWHEEL_TEN_KINDS(1);
    PULSEWHEEL_TEN_KINDS(2);
    PULSEWHEEL_TEN_KINDS(3);
    PULSEWHEEL_TEN_KINDS(4);
    PULSEWHEEL_TEN_KINDS(5);
    PULSEWHEEL_TEN_KINDS(6);
    PULSEWHEEL_TEN_KINDS(7);
#undef PULSEWHEEL_TEN_KINDS
  });
  EXPECT_GE(lines.size(), 64U);
}

TEST_F(LogTest, AFullQueueDropsTheOldestAndSaysSo) {
  options_.queue_lines_max = 8;
  {
    Logger log(options_);
    for (int i = 0; i < 20; ++i)
      log.write(Level::kInfo, "n", {}, "line {}", i);
    EXPECT_EQ(log.stats().overrun, 12U);
    log.start_thread();
  }
  const auto lines = split_lines(read_file(path_));
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_THAT(lines[0], EndsWith("line 12"));
  EXPECT_THAT(lines[7], EndsWith("line 19"));
  EXPECT_THAT(lines[8], EndsWith("lost 12 lines: the destination was too slow"));
}

TEST_F(LogTest, ADestinationThatCannotBeOpenedIsNamed) {
  options_.destination = folder_ / "missing/log";
  Logger log(options_);
  try {
    log.start_thread();
    FAIL() << "opened";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(options_.destination));
  }
}

TEST_F(LogTest, AFullDiskBlocksNeitherWritersNorTheEnd) {
  options_.destination = "/dev/full";
  options_.queue_lines_max = 16;
  Logger log(options_);
  log.start_thread();
  EXPECT_TRUE(writes_until_lines_are_lost(log));
  const MonoTime begin = MonoClock::now();
  log.stop(milliseconds{50});
  EXPECT_LT(MonoClock::now() - begin, seconds{10});
  EXPECT_EQ(log.stats().written, 0U);
}

/// Standard error on a pipe that nobody reads, in blocking mode, as left by a stuck supervisor.
TEST_F(LogTest, AStuckPipeOnStandardErrorBlocksNobodyAndRecovers) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const int saved = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  options_.destination = "stderr";
  options_.queue_lines_max = 16;
  {
    Logger log(options_);
    log.start_thread();
    EXPECT_TRUE(writes_until_lines_are_lost(log));
    // Somebody reads again: the rest arrives, all lines are whole.
    std::string text;
    ASSERT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    EXPECT_TRUE(eventually([&] {
      std::array<char, 4096> bytes;
      const ssize_t n = ::read(ends[0], bytes.data(), bytes.size());
      if (n > 0) text.append(bytes.data(), static_cast<std::size_t>(n));
      return text.find("lines: the destination was too slow\n") != std::string::npos;
    }));
    for (const std::string& line : split_lines(text)) {
      EXPECT_THAT(line, MatchesRegex("[0-9T:.-]+Z (info n: x+|warn log: lost .*)"));
    }
  }
  ::dup2(saved, STDERR_FILENO);
  for (const int fd : {saved, ends[0], ends[1]})
    ::close(fd);
}

TEST_F(LogTest, ReopenFollowsTheNameAfterARename) {
  Logger log(options_);
  log.start_thread();
  log.write(Level::kInfo, "a", {}, "old");
  ASSERT_TRUE(eventually([&] { return log.stats().written == 1; }));
  std::filesystem::rename(path_, path_ + ".1");
  log.reopen();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path_); }));
  log.write(Level::kInfo, "a", {}, "new");
  ASSERT_TRUE(eventually([&] { return log.stats().written == 2; }));
  EXPECT_THAT(read_file(path_), EndsWith("new\n"));
}

TEST_F(LogTest, ManyThreadsLoseNothingThatFits) {
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  options_.queue_lines_max = kThreads * kLines;
  const auto lines = lines_of([](Logger& log) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < kLines; ++i)
          log.write(Level::kInfo, "n", {{"thread", t}}, "line");
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  });
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(kThreads * kLines));
}

TEST(ProcessLogTest, LinesBeforeInitAreDiscardedAndLaterOnesArrive) {
  const test::TemporaryFolder folder;
  warn("early", "nobody listens");
  EXPECT_FALSE(would_log(Level::kError));
  Options options;
  options.destination = folder / "log";
  init(options);
  info("start", "with fields only in the other {}", "overload");
  info("start", {{"shards", 2U}}, "with fields");
  start_thread();
  stop();
  const auto lines = split_lines(read_file(folder / "log"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], EndsWith("info start: with fields only in the other overload"));
  EXPECT_THAT(lines[1], EndsWith("info start: with fields shards=2"));
  EXPECT_EQ(stats().written, 2U);
}

}  // namespace
}  // namespace pulsewheel::log

#include "daemon/base/rfc3339.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>

namespace pulsewheel {
namespace {

WallTime at_seconds(std::int64_t seconds, std::int64_t nanoseconds = 0) {
  return WallTime{std::chrono::seconds{seconds} + std::chrono::nanoseconds{nanoseconds}};
}

TEST(Rfc3339Test, KnownTimes) {
  struct Case {
    std::int64_t seconds, nanoseconds;
    const char* text;
  };
  for (const auto& [seconds, nanoseconds, text] : {
           Case{0, 0, "1970-01-01T00:00:00.000000Z"},
           {-1, 0, "1969-12-31T23:59:59.000000Z"},
           {951'782'400, 0, "2000-02-29T00:00:00.000000Z"},
           {1'709'251'199, 999'999'999, "2024-02-29T23:59:59.999999Z"},
           {1'735'689'599, 0, "2024-12-31T23:59:59.000000Z"},
           {1'735'689'600, 1'000, "2025-01-01T00:00:00.000001Z"},
           {1'767'323'045, 678'901'000, "2026-01-02T03:04:05.678901Z"},
           {4'107'542'400, 0, "2100-03-01T00:00:00.000000Z"},
       }) {
    EXPECT_EQ(to_rfc3339(at_seconds(seconds, nanoseconds)), text);
  }
}

TEST(Rfc3339Test, NanosecondsAreCutOffNotRounded) {
  EXPECT_EQ(to_rfc3339(at_seconds(0, 999'999'999)), "1970-01-01T00:00:00.999999Z");
  EXPECT_EQ(to_rfc3339(at_seconds(0, -1)), "1969-12-31T23:59:59.999999Z");
}

TEST(Rfc3339Test, EndsOfTheRangeKeepTheirSize) {
  EXPECT_EQ(to_rfc3339(WallTime::min()).substr(0, 4), "1677");
  EXPECT_EQ(to_rfc3339(WallTime::max()).substr(0, 4), "2262");
  EXPECT_EQ(to_rfc3339(WallTime::max()).size(), Rfc3339Writer::kSize);
}

/// The text of the last second is remembered: never for another one.
TEST(Rfc3339Test, OneWriterAgreesWithTheCLibraryOverJumpsInTime) {
  Rfc3339Writer writer;
  std::string text(Rfc3339Writer::kSize, '\0');
  std::time_t seconds = 1'600'000'000;
  for (int i = 0; i < 2'000; ++i) {
    // The same second, the next, back by a day, ahead by about a month.
    const std::time_t steps[] = {0, 1, -86'400, 2'600'000};
    seconds += steps[i % 4];
    char expected[32];
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.000000Z", &parts);
    writer.write(at_seconds(seconds), text.data());
    ASSERT_EQ(text, expected);
  }
}

}  // namespace
}  // namespace pulsewheel

#include "config/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(DurationTest, ReadsEveryUnitAndTheirSums) {
  EXPECT_EQ(parse_duration("7ns"), nanoseconds{7});
  EXPECT_EQ(parse_duration("7us"), nanoseconds{7'000});
  EXPECT_EQ(parse_duration("100ms"), milliseconds{100});
  EXPECT_EQ(parse_duration("30s"), seconds{30});
  EXPECT_EQ(parse_duration("5m"), minutes{5});
  EXPECT_EQ(parse_duration("24h"), hours{24});
  EXPECT_EQ(parse_duration("2d"), hours{48});
  EXPECT_EQ(parse_duration("0s"), seconds{0});
  EXPECT_EQ(parse_duration("1m30s"), seconds{90});
  EXPECT_EQ(parse_duration("1d2h3m4s5ms6us7ns"),
            hours{26} + minutes{3} + seconds{4} + milliseconds{5} + nanoseconds{6'007});
  EXPECT_EQ(parse_duration("90s"), seconds{90});
}

TEST(DurationTest, RefusesWhatIsNotCountsWithFallingUnits) {
  for (const char* text : {"", "s", "30", "-1s", "+1s", "1.5s", "1 s", " 1s", "1s ", "1S", "1sec",
                           "30s1m", "1s1s", "1m30", "0x1s", "1e3s", "\xC2\xB5s", "1m,30s"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(DurationTest, RefusesMoreThanNanosecondsCanCount) {
  EXPECT_EQ(parse_duration("9223372036854775807ns"), nanoseconds::max());
  EXPECT_EQ(parse_duration("9223372036854775808ns"), std::nullopt);
  EXPECT_EQ(parse_duration("9223372036s854775807ns"), nanoseconds::max());
  EXPECT_EQ(parse_duration("9223372036s854775808ns"), std::nullopt);
  EXPECT_EQ(parse_duration("106751d"), hours{24} * 106'751);
  EXPECT_EQ(parse_duration("106752d"), std::nullopt);
  EXPECT_EQ(parse_duration("99999999999999999999s"), std::nullopt);
}

TEST(DurationTest, IsWrittenInTheUnitsThatPeopleUse) {
  EXPECT_EQ(format_duration(nanoseconds{0}), "0s");
  EXPECT_EQ(format_duration(milliseconds{100}), "100ms");
  EXPECT_EQ(format_duration(milliseconds{1'500}), "1s500ms");
  EXPECT_EQ(format_duration(seconds{60}), "1m");
  EXPECT_EQ(format_duration(seconds{90}), "1m30s");
  EXPECT_EQ(format_duration(hours{24}), "24h");
  EXPECT_EQ(format_duration(hours{720}), "720h");
}

TEST(DurationTest, IsReadBackAsItWasWritten) {
  for (const nanoseconds value :
       {nanoseconds{1}, nanoseconds{999}, nanoseconds{1'000}, nanoseconds{999'999'999},
        nanoseconds{seconds{59}}, nanoseconds{hours{25}}, nanoseconds::max()}) {
    EXPECT_EQ(parse_duration(format_duration(value)), value) << format_duration(value);
  }
}

TEST(SizeTest, ReadsEveryUnit) {
  EXPECT_EQ(parse_size("0B"), 0);
  EXPECT_EQ(parse_size("65535B"), 65'535);
  EXPECT_EQ(parse_size("16KiB"), 16'384);
  EXPECT_EQ(parse_size("256MiB"), 268'435'456);
  EXPECT_EQ(parse_size("1GiB"), 1'073'741'824);
  EXPECT_EQ(parse_size("1TiB"), 1'099'511'627'776);
}

TEST(SizeTest, RefusesWhatIsNotOneCountWithAUnit) {
  for (const char* text :
       {"", "B", "16", "16K", "16KB", "16kib", "16 KiB", "-1KiB", "1.5MiB", "1MiB1KiB", "16KiB "}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(SizeTest, RefusesMoreThan63Bits) {
  EXPECT_EQ(parse_size("8388607TiB"), std::int64_t{8'388'607} << 40);
  EXPECT_EQ(parse_size("8388608TiB"), std::nullopt);
}

TEST(SizeTest, IsWrittenInTheGreatestUnitThatFits) {
  EXPECT_EQ(format_size(0), "0B");
  EXPECT_EQ(format_size(1'023), "1023B");
  EXPECT_EQ(format_size(1'024), "1KiB");
  EXPECT_EQ(format_size(1'025), "1025B");
  EXPECT_EQ(format_size(1'536), "1536B");
  EXPECT_EQ(format_size(3 << 20), "3MiB");
  EXPECT_EQ(format_size(std::int64_t{1} << 40), "1TiB");
}

}  // namespace
}  // namespace pulsewheel

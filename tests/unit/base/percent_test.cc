#include "daemon/base/percent.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

using namespace std::string_literals;

TEST(PercentTest, KeepsLettersDigitsAndFourMarks) {
  const std::string plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  EXPECT_EQ(percent_encode(plain), plain);
}

TEST(PercentTest, EncodesWhatSeparatesOrHides) {
  EXPECT_EQ(percent_encode("a/b:c?d#e"), "a%2Fb%3Ac%3Fd%23e");
  EXPECT_EQ(percent_encode("100 %"), "100%20%25");
  EXPECT_EQ(percent_encode("\0\n\x7f\xff"s), "%00%0A%7F%FF");
  EXPECT_EQ(percent_encode("<\"'>"), "%3C%22%27%3E");
}

TEST(PercentTest, EveryByteComesBackExact) {
  std::string bytes;
  for (int i = 0; i < 256; ++i)
    bytes.push_back(static_cast<char>(i));
  EXPECT_EQ(percent_decode(percent_encode(bytes)), bytes);
}

TEST(PercentTest, AppendKeepsWhatWasThere) {
  std::string out = "uid=";
  append_percent_encoded(out, "a b");
  EXPECT_EQ(out, "uid=a%20b");
}

TEST(PercentTest, DecodesDigitsOfEitherCase) {
  EXPECT_EQ(percent_decode("%2f%2F%c3%A9"), "//\xc3\xa9");
}

TEST(PercentTest, LeavesRawBytesAsTheyAre) {
  EXPECT_EQ(percent_decode(""), "");
  EXPECT_EQ(percent_decode("a+b@\xff"), "a+b@\xff");
}

TEST(PercentTest, DecodesOnce) {
  EXPECT_EQ(percent_decode("%2541"), "%41");
}

TEST(PercentTest, RefusesAPercentWithoutTwoDigits) {
  for (const char* text : {"%", "%4", "a%", "%%41", "%4g", "%g4", "% 41", "%-1", "%0x", "ab%2"}) {
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace pulsewheel

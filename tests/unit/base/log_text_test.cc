#include "daemon/base/log_text.h"

#include <gtest/gtest.h>

#include <string>

namespace pulsewheel::log {
namespace {

using namespace std::string_literals;

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string human(std::string_view text) {
  std::string out;
  append_human_value(out, text);
  return out;
}

TEST(LogTextTest, JsonStringsEscapeWhatJsonMust) {
  EXPECT_EQ(json(""), R"("")");
  EXPECT_EQ(json("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json("\0\n\x1f\x7f"s), R"("\u0000\u000a\u001f\u007f")");
}

TEST(LogTextTest, JsonStringsKeepValidUtf8AndShowOtherBytes) {
  EXPECT_EQ(json("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"");
  EXPECT_EQ(json("\xff\xc3"), R"("\\xff\\xc3")");
}

TEST(LogTextTest, HumanValuesAreQuotedWhereTheyCouldBeMisread) {
  EXPECT_EQ(human("plain-1.2:/x"), "plain-1.2:/x");
  EXPECT_EQ(human(""), R"("")");
  EXPECT_EQ(human("a b"), R"("a b")");
  EXPECT_EQ(human("a=b"), R"("a=b")");
  EXPECT_EQ(human("a\"\\\n"), R"("a\"\\\x0a")");
  EXPECT_EQ(human("\xc3\xbc"), R"("\xc3\xbc")");
}

TEST(LogTextTest, Utf8SequencesAreMeasuredUpToTheirBoundaries) {
  struct Case {
    std::string text;
    std::size_t size;
  };
  for (const auto& [text, size] : std::initializer_list<Case>{{"\0"s, 1},
                                                              {"\x7f", 1},
                                                              {"\x80", 0},      // a continuation
                                                              {"\xc1\xbf", 0},  // overlong
                                                              {"\xc2\x80", 2},  // U+0080
                                                              {"\xdf\xbf", 2},  // U+07FF
                                                              {"\xc2", 0},      // cut
                                                              {"\xc2\x7f", 0},  // no continuation
                                                              {"\xe0\x9f\xbf", 0},  // overlong
                                                              {"\xe0\xa0\x80", 3},  // U+0800
                                                              {"\xed\x9f\xbf", 3},  // U+D7FF
                                                              {"\xed\xa0\x80", 0},  // a surrogate
                                                              {"\xee\x80\x80", 3},  // U+E000
                                                              {"\xef\xbf\xbf", 3},  // U+FFFF
                                                              {"\xef\xbf", 0},      // cut
                                                              {"\xf0\x8f\xbf\xbf", 0},  // overlong
                                                              {"\xf0\x90\x80\x80", 4},  // U+10000
                                                              {"\xf4\x8f\xbf\xbf", 4},  // U+10FFFF
                                                              {"\xf4\x90\x80\x80", 0},  // beyond
                                                              {"\xf5\x80\x80\x80", 0},
                                                              {"\xff", 0}}) {
    EXPECT_EQ(utf8_sequence_size(text), size) << json(text);
  }
}

}  // namespace
}  // namespace pulsewheel::log

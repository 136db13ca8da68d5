#include "daemon/redis/redis_command.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/redis/redis_script.h"

namespace pulsewheel {
namespace {

using namespace std::string_literals;

std::string command(const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  std::string out = "kept";
  append_command(out, views);
  EXPECT_LE(out.size() - 4, command_bytes_max(views));
  EXPECT_EQ(out.substr(0, 4), "kept");
  return out.substr(4);
}

TEST(RedisCommandTest, WritesWordsWithTheirLengths) {
  EXPECT_EQ(command({"PING"}), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(command({"SADD", "slot-1", "alice"}),
            "*3\r\n$4\r\nSADD\r\n$6\r\nslot-1\r\n$5\r\nalice\r\n");
}

TEST(RedisCommandTest, TakesAnyBytes) {
  EXPECT_EQ(command({"SADD", "a b", "\0\r\n%s*$"s, ""}),
            "*4\r\n$4\r\nSADD\r\n$3\r\na b\r\n$7\r\n\0\r\n%s*$\r\n$0\r\n\r\n"s);
}

TEST(RedisCommandTest, TakesAnEmptyViewWithoutAPointer) {
  std::string out;
  append_command(out, std::vector<std::string_view>{"GET", {}});
  EXPECT_EQ(out, "*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
}

TEST(RedisScriptTest, IsNamedByTheHashThatRedisUses) {
  // redis-cli SCRIPT LOAD "return 1"
  EXPECT_EQ(RedisScript("return 1").sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
  EXPECT_EQ(RedisScript("").sha1(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

}  // namespace
}  // namespace pulsewheel

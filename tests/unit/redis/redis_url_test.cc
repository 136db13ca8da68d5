#include "daemon/redis/redis_url.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>

namespace pulsewheel {
namespace {

using testing::HasSubstr;
using testing::Not;
using Transport = RedisUrl::Transport;

std::string error_of(std::string_view text) {
  try {
    return "accepted: " + RedisUrl::parse(text).display();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

TEST(RedisUrlTest, ReadsHostPortAndDatabase) {
  const RedisUrl url = RedisUrl::parse("redis://cache.example:6380/3");
  EXPECT_EQ(url.transport, Transport::kTcp);
  EXPECT_EQ(url.host, "cache.example");
  EXPECT_EQ(url.port, 6380);
  EXPECT_EQ(url.database, 3u);
  EXPECT_EQ(url.user, "");
  EXPECT_EQ(url.password, "");
}

TEST(RedisUrlTest, FillsInPortAndDatabase) {
  for (const char* text : {"redis://h", "redis://h/", "redis://h/0", "redis://h:6379"}) {
    const RedisUrl url = RedisUrl::parse(text);
    EXPECT_EQ(url.host, "h") << text;
    EXPECT_EQ(url.port, 6379) << text;
    EXPECT_EQ(url.database, 0u) << text;
  }
}

TEST(RedisUrlTest, ReadsUserAndPasswordWithAnyBytes) {
  const RedisUrl url = RedisUrl::parse("rediss://al%3Aice:p%40ss%2Fw%25rd%ff@h:1");
  EXPECT_EQ(url.transport, Transport::kTls);
  EXPECT_EQ(url.user, "al:ice");
  EXPECT_EQ(url.password, "p@ss/w%rd\xff");
  EXPECT_EQ(url.host, "h");
  EXPECT_EQ(RedisUrl::parse("redis://:secret@h").user, "");
  EXPECT_EQ(RedisUrl::parse("redis://:secret@h").password, "secret");
}

TEST(RedisUrlTest, TakesAnUnencodedAtSignForThePassword) {
  EXPECT_EQ(RedisUrl::parse("redis://:a@b@h").password, "a@b");
}

TEST(RedisUrlTest, ReadsAddressesOfVersionSix) {
  const RedisUrl url = RedisUrl::parse("redis://[::1]:7000/2");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 7000);
  EXPECT_EQ(RedisUrl::parse("redis://[fe80::1]").host, "fe80::1");
  EXPECT_EQ(url.display(), "redis://[::1]:7000/2");
}

TEST(RedisUrlTest, ReadsPathsOfSockets) {
  const RedisUrl url = RedisUrl::parse("unix:///run/redis/redis.sock?db=5");
  EXPECT_EQ(url.transport, Transport::kUnix);
  EXPECT_EQ(url.path, "/run/redis/redis.sock");
  EXPECT_EQ(url.database, 5u);
  EXPECT_EQ(RedisUrl::parse("unix:///a%20b").path, "/a b");
  EXPECT_EQ(url.display(), "unix:///run/redis/redis.sock?db=5");
}

TEST(RedisUrlTest, ShowsNeitherUserNorPassword) {
  EXPECT_EQ(RedisUrl::parse("redis://alice:secret@h/1").display(), "redis://h:6379/1");
  EXPECT_EQ(RedisUrl::parse("rediss://:secret@h").display(), "rediss://h:6379/0");
}

TEST(RedisUrlTest, SaysWhatIsWrongAndWhatIsAllowed) {
  const std::string long_path = "unix:///" + std::string(108, 'p');
  const struct {
    std::string text;
    const char* error;
  } kCases[] = {
      {"", "a Redis URL is redis://"},
      {"localhost:6379", "a Redis URL is redis://"},
      {"http://h", "a Redis URL is redis://"},
      {"REDIS://h", "a Redis URL is redis://"},
      {"redis://", "has no host"},
      {"redis://:6379", "has no host"},
      {"redis://:secret@", "has no host"},
      {"redis://h:", "'' is no port of Redis: 1 to 65535"},
      {"redis://h:0", "'0' is no port"},
      {"redis://h:65536", "'65536' is no port"},
      {"redis://h:12ab", "'12ab' is no port"},
      {"redis://h: 1", "' 1' is no port"},
      {"redis://h/x", "'x' is no database number of Redis: 0 to 65535"},
      {"redis://h/-1", "'-1' is no database"},
      {"redis://h/1/2", "'1/2' is no database"},
      {"redis://h/99999999999999999999", "is no database"},
      {"redis://h?db=1", "give the database as /NUMBER"},
      {"redis://h#1", "give the database as /NUMBER"},
      {"redis://::1", "stands in brackets"},
      {"redis://[::1", "stands in brackets"},
      {"redis://[::1]x", "stands in brackets"},
      {"redis://a b", "is no name and no address"},
      {"redis://h\n", "is no name and no address"},
      {"redis://" + std::string(254, 'h'), "is no name and no address"},
      {"redis://alice@h", "has a name before '@' but no password"},
      {"redis://alice:@h", "the password of the Redis URL is empty"},
      {"redis://:%zz@h", "the password of the Redis URL has a '%' without two hex digits"},
      {"redis://:a%00b@h", "the password of the Redis URL has a NUL byte"},
      {"unix://", "is absolute"},
      {"unix://run/redis.sock", "is absolute"},
      {"unix:///a?database=1", "takes ?db=NUMBER and nothing else"},
      {"unix:///a?db=", "'' is no database"},
      {"unix:///a%00b", "the path of the Redis URL has a NUL byte"},
      {long_path, "has at most 107 bytes"},
  };
  for (const auto& [text, error] : kCases)
    EXPECT_THAT(error_of(text), HasSubstr(error)) << text;
}

TEST(RedisUrlTest, NeverQuotesASecretInAnError) {
  for (const char* text :
       {"redis://alice:s3cret@h:99999", "redis://:s3cret@h/x", "redis://:s3cret@",
        "redis://:s3cret%zz@h", "redis://s3cret@h", "rediss://:s3cret@::1", "redis://:s3cret@h?x",
        "http://:s3cret@h", "redis://:s3c:s3cret@h:x"}) {
    EXPECT_THAT(error_of(text), Not(HasSubstr("s3cret"))) << text;
    EXPECT_THAT(error_of(text), Not(HasSubstr("accepted"))) << text;
  }
}

}  // namespace
}  // namespace pulsewheel

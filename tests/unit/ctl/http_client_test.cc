#include "daemon/ctl/http_client.h"

#include <string>

#include <gmock/gmock.h>

namespace pulsewheel::ctl {
namespace {

std::string parsed(std::string_view text) {
  const Url url = Url::parse(text);
  return url.host + " " + url.port + " " + url.authority();
}

TEST(UrlTest, TakesHostAndPort) {
  EXPECT_EQ(parsed("http://127.0.0.1:8080"), "127.0.0.1 8080 127.0.0.1:8080");
  EXPECT_EQ(parsed("http://presence-1.example/"),
            "presence-1.example 7601 "
            "presence-1.example:7601");
  EXPECT_EQ(parsed("http://[::1]:1"), "::1 1 [::1]:1");
  EXPECT_EQ(parsed("http://[2001:db8::7]"), "2001:db8::7 7601 [2001:db8::7]:7601");
  EXPECT_EQ(parsed("http://a:65535"), "a 65535 a:65535");
}

TEST(UrlTest, RefusesTheRestAndSaysHowToWriteOne) {
  for (const char* text :
       {"", "127.0.0.1:7601", "https://127.0.0.1", "http://", "http://:7601",
        "http://a:", "http://a:0", "http://a:65536", "http://a:-1", "http://a:1x", "http://a b",
        "http://a/v1", "http://a?x", "http://u@a", "http://[::1", "http://[::1]7601", "http://[]:1",
        "http://::1:7601", "http://a\r\nX:1"}) {
    try {
      (void)Url::parse(text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("http://HOST:PORT")) << text;
    }
  }
}

}  // namespace
}  // namespace pulsewheel::ctl

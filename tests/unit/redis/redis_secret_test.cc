#include "daemon/redis/redis_secret.h"

#include <sys/stat.h>

#include <gmock/gmock.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

using test::TemporaryFolder;
using test::write_file;
using testing::HasSubstr;
using testing::Not;

RedisSecret from_file(const std::string& path) {
  RedisSecret secret;
  secret.password_file = path;
  return secret;
}

std::string error_of(const RedisSecret& secret) {
  try {
    static_cast<void>(secret.read_password());
    return "no error";
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

TEST(RedisSecretTest, ReadsTheFileAnewEachTime) {
  const TemporaryFolder folder;
  const RedisSecret secret = from_file(folder / "secret");
  EXPECT_TRUE(secret.is_set());
  write_file(folder / "secret", "first\n");
  EXPECT_EQ(secret.read_password(), "first");
  write_file(folder / "secret", "second");
  EXPECT_EQ(secret.read_password(), "second");
}

TEST(RedisSecretTest, DropsOneLineEndAndNothingElse) {
  const TemporaryFolder folder;
  const struct {
    std::string content, password;
  } kCases[] = {
      {"a\n", "a"}, {"a\r\n", "a"}, {"a\n\n", "a\n"}, {" a b ", " a b "}, {"\xff\x01", "\xff\x01"}};
  for (const auto& [content, password] : kCases) {
    write_file(folder / "secret", content);
    EXPECT_EQ(from_file(folder / "secret").read_password(), password);
  }
}

TEST(RedisSecretTest, NamesTheFileThatCannotBeUsed) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(from_file(folder / "none")),
              testing::AllOf(HasSubstr("/none'"), HasSubstr("No such file")));
  EXPECT_THAT(error_of(from_file(folder.path())), HasSubstr("no regular file"));
  write_file(folder / "empty", "\n");
  EXPECT_THAT(error_of(from_file(folder / "empty")), HasSubstr("/empty' is empty"));
  write_file(folder / "long", std::string(RedisSecret::kPasswordBytesMax + 1, 'x'));
  EXPECT_THAT(error_of(from_file(folder / "long")), HasSubstr("more than 4096 bytes"));
  EXPECT_THAT(error_of(from_file(folder / "long")), Not(HasSubstr("xxx")));
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of(from_file(folder / "fifo")), HasSubstr("no regular file"));
}

TEST(RedisSecretTest, TakesThePasswordItself) {
  RedisSecret secret;
  EXPECT_FALSE(secret.is_set());
  secret.password = "p";
  EXPECT_TRUE(secret.is_set());
  EXPECT_EQ(secret.read_password(), "p");
}

TEST(RedisSecretTest, ReadsAVariable) {
  RedisSecret secret;
  secret.password_env = "PULSEWHEEL_TEST_REDIS_SECRET";
  EXPECT_TRUE(secret.is_set());
  ::unsetenv("PULSEWHEEL_TEST_REDIS_SECRET");
  EXPECT_THAT(error_of(secret), HasSubstr("no variable PULSEWHEEL_TEST_REDIS_SECRET"));
  ::setenv("PULSEWHEEL_TEST_REDIS_SECRET", "", 1);
  EXPECT_THAT(error_of(secret), HasSubstr("PULSEWHEEL_TEST_REDIS_SECRET is empty"));
  ::setenv("PULSEWHEEL_TEST_REDIS_SECRET", "p w", 1);
  EXPECT_EQ(secret.read_password(), "p w");
  ::unsetenv("PULSEWHEEL_TEST_REDIS_SECRET");
}

}  // namespace
}  // namespace pulsewheel

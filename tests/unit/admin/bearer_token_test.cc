#include "daemon/admin/bearer_token.h"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

using namespace std::string_literals;
using test::TemporaryFolder;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kToken = "0123456789abcdefXYZ-._~+/==";

BearerToken token_of(const std::string& content) {
  const TemporaryFolder folder;
  write_file(folder / "token", content);
  return BearerToken::read(folder / "token");
}

std::string error_of(const std::string& content) {
  try {
    static_cast<void>(token_of(content));
    return "no error";
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

/// Text that counts how much of it is looked at.
struct WatchedText {
  std::string_view text;
  std::size_t* looks;

  [[nodiscard]] std::size_t size() const { return text.size(); }
  char operator[](std::size_t i) const {
    ++*looks;
    return text[i];
  }
};

std::size_t looks_at(std::string_view given) {
  std::size_t looks = 0;
  static_cast<void>(equal_in_constant_time("secret-secret", WatchedText{given, &looks}));
  return looks;
}

TEST(ConstantTimeTest, IsTrueForTheSecretAlone) {
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"s));
  for (const char* given : {"", "s", "secre", "secrets", "secretsecret", "Secret", "secreT"}) {
    EXPECT_FALSE(equal_in_constant_time("secret", std::string_view(given))) << given;
  }
}

TEST(ConstantTimeTest, LooksAtEveryByteWhereverTheFirstDifferenceIs) {
  for (const std::string_view given :
       {"secret-secret", "Xecret-secret", "secret-secreX", "XXXXXXXXXXXXX"}) {
    EXPECT_EQ(looks_at(given), given.size()) << given;
  }
  EXPECT_EQ(looks_at("X"), 1U);
  EXPECT_EQ(looks_at("secret-secret-secret"), 20U);
}

TEST(BearerTokenTest, AdmitsItselfBehindTheNameOfTheScheme) {
  const BearerToken token = token_of(kToken + "\n"s);
  EXPECT_TRUE(token.is_set());
  EXPECT_TRUE(token.admits("Bearer "s + kToken));
  EXPECT_TRUE(token.admits("bearer   "s + kToken));
}

TEST(BearerTokenTest, AdmitsNothingElse) {
  const BearerToken token = token_of(kToken);
  const std::string kOthers[] = {"",
                                 "Bearer",
                                 "Bearer ",
                                 kToken,
                                 "Basic "s + kToken,
                                 "Bearer"s + kToken,
                                 "Bearer "s + kToken + " ",
                                 "Bearer "s + kToken + "x",
                                 "Bearer "s + std::string(kToken).substr(1),
                                 "Bearer "s + kToken + kToken};
  for (const std::string& other : kOthers)
    EXPECT_FALSE(token.admits(other)) << other;
}

TEST(BearerTokenTest, NoneIsSetByDefault) {
  EXPECT_FALSE(BearerToken().is_set());
}

TEST(BearerTokenTest, RefusesFilesThatHoldNoToken) {
  EXPECT_THAT(error_of(""), HasSubstr("/token' is empty"));
  EXPECT_THAT(error_of("fifteen-bytes-x\n"), HasSubstr("fewer than 16 bytes"));
  EXPECT_THAT(error_of(std::string(1025, 'x')), HasSubstr("more than 1024 bytes"));
  for (const char* content :
       {"two tokens of bytes", "line-one-of-two\nline-two\n", "token=in=the=middle",
        "================", "t\xc3\xb6ken-token-token"}) {
    EXPECT_THAT(error_of(content),
                AllOf(HasSubstr("letters, digits"), Not(HasSubstr("token-token"))))
        << content;
  }
  EXPECT_EQ(error_of(std::string(1024, 'x')), "no error");
}

TEST(BearerTokenTest, NamesTheFileThatCannotBeRead) {
  const TemporaryFolder folder;
  try {
    static_cast<void>(BearerToken::read(folder / "none"));
    FAIL() << "there is no such file";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("/none'"), HasSubstr("No such file")));
  }
}

}  // namespace
}  // namespace pulsewheel

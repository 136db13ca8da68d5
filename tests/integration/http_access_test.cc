// Who may ask a running daemon: the token, and the unix socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Json = nlohmann::json;

constexpr const char* kToken = "correct-horse-battery-staple";

Daemon::HttpAccess access_with(const std::string& token) {
  return {.fields = "Authorization: Bearer " + token + "\r\n", .unix_socket = {}};
}

class HttpAccessTest : public ::testing::Test {
 protected:
  HttpAccessTest() { write_file(token_, std::string(kToken) + "\n"); }

  [[nodiscard]] std::string config() const {
    return Daemon::kQuickConfig + ("http.token_file = \"" + token_ + "\"\n");
  }

  const TemporaryFolder folder_;
  const std::string token_ = folder_ / "token";
  const std::string socket_ = folder_ / "http";
};

TEST_F(HttpAccessTest, WithATokenFileNothingButHealthIsOpen) {
  Daemon daemon({.sets = {"http.token_file=" + token_}});
  for (const char* target : {"/metrics", "/version", "/v1/status", "/v1/users/alice", "/none"}) {
    EXPECT_EQ(daemon.get(target).status, 401) << target;
  }
  EXPECT_EQ(daemon.post("/v1/users/alice:kick").status, 401);
  EXPECT_EQ(daemon.get("/livez").status, 200);
  EXPECT_EQ(daemon.get("/readyz").status, 200);
  daemon.set_http_access(access_with(kToken));
  EXPECT_EQ(daemon.get("/v1/status").status, 200);
  EXPECT_EQ(daemon.post("/v1/users/alice:kick").status, 404);
  EXPECT_THAT(daemon.log(), Not(HasSubstr(kToken)));
}

TEST_F(HttpAccessTest, AReloadReadsTheTokenAgain) {
  Daemon daemon({.config = config()});
  daemon.set_http_access(access_with(kToken));
  EXPECT_EQ(daemon.get("/v1/status").status, 200);
  write_file(token_, "another-horse-battery-staple");
  daemon.signal(SIGHUP);
  daemon.set_http_access(access_with("another-horse-battery-staple"));
  EXPECT_TRUE(eventually([&] { return daemon.get("/v1/status").status == 200; }));
  daemon.set_http_access(access_with(kToken));
  EXPECT_EQ(daemon.get("/v1/status").status, 401);
}

TEST_F(HttpAccessTest, AReloadSaysThatTheTokenIsAnotherOne) {
  Daemon daemon({.config = config()});
  daemon.set_http_access(access_with(kToken));
  EXPECT_EQ(Json::parse(daemon.post("/v1/reload").body).at("changed"), Json::array());
  write_file(token_, "another-horse-battery-staple");
  EXPECT_EQ(Json::parse(daemon.post("/v1/reload").body).at("changed"),
            Json::parse(R"([{"key": "http.token_file", "before": "the token in it",
                             "after": "another one"}])"));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("horse")));
}

TEST_F(HttpAccessTest, ATokenFileThatIsGoneLeavesTheOldTokenInForce) {
  Daemon daemon({.config = config()});
  daemon.set_http_access(access_with(kToken));
  ASSERT_EQ(::unlink(token_.c_str()), 0);
  EXPECT_FALSE(daemon.reload(config()));
  EXPECT_EQ(daemon.get("/v1/status").status, 200);
  EXPECT_TRUE(eventually([&] {  // the log has a thread of its own
    return daemon.log().find("http.token_file: cannot open '" + token_ + "'") != std::string::npos;
  })) << daemon.log();
  daemon.set_http_access({});
  EXPECT_EQ(daemon.get("/v1/status").status, 401);
}

TEST_F(HttpAccessTest, AnUnfitTokenFileEndsTheStart) {
  write_file(token_, "short\n");
  const Ended ended = Daemon::run_to_end({.sets = {"http.token_file=" + token_}});
  EXPECT_EQ(ended.exit_code, 78);
  EXPECT_THAT(ended.log, HasSubstr("http.token_file: '" + token_ + "' has fewer than 16 bytes"));
  EXPECT_THAT(ended.log, Not(HasSubstr("short")));
}

TEST_F(HttpAccessTest, TheUnixSocketServesWithoutAToken) {
  Daemon daemon({.sets = {"http.token_file=" + token_, "http.unix_socket=" + socket_,
                          "http.unix_socket_mode=0600"}});
  struct stat status {};
  ASSERT_EQ(::lstat(socket_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(daemon.get("/v1/status").status, 401);
  daemon.set_http_access({.fields = {}, .unix_socket = socket_});
  EXPECT_EQ(daemon.get("/v1/status").status, 200);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_NE(::lstat(socket_.c_str(), &status), 0);
}

TEST_F(HttpAccessTest, ASocketOfAKilledDaemonIsReplacedAndOneOfALiveDaemonIsNot) {
  const std::string set = "http.unix_socket=" + socket_;
  {
    Daemon killed({.sets = {set}});
    killed.signal(SIGKILL);
    killed.wait();
  }
  Daemon daemon({.sets = {set}});
  daemon.set_http_access({.fields = {}, .unix_socket = socket_});
  EXPECT_EQ(daemon.get("/livez").status, 200);
  const Ended second = Daemon::run_to_end({.sets = {set}});
  EXPECT_EQ(second.exit_code, 69);
  EXPECT_THAT(second.log, HasSubstr(socket_ + ": somebody listens there already"));
  EXPECT_EQ(daemon.get("/livez").status, 200);
}

TEST_F(HttpAccessTest, PathsThatTryToLeaveLeadNowhere) {
  const Daemon daemon;
  for (const char* target :
       {"/../../etc/passwd", "/v1/../v1/status", "/v1/users/../status", "/%2e%2e/etc/passwd",
        "/v1/status/..%2f..%2fetc/passwd", "//etc/passwd", "/v1//status", "/.git/config"}) {
    const auto answer = daemon.get(target);
    EXPECT_EQ(answer.status, 404) << target;
    EXPECT_THAT(answer.body, Not(HasSubstr("root:"))) << target;
  }
}

}  // namespace
}  // namespace pulsewheel::test

// Who may ask the HTTP port: the token, and the unix socket.
#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/http_server.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {
namespace {

using namespace std::string_literals;
using test::TemporaryFolder;
using test::write_file;

std::string request(std::string_view method, std::string_view target, std::string_view fields = {},
                    std::string_view host = "localhost") {
  std::string text(method);
  text.append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(host).append("\r\n");
  text.append(fields).append("Content-Length: 0\r\n\r\n");
  return text;
}

std::string with(std::string_view token) {
  return "Authorization: Bearer " + std::string(token) + "\r\n";
}

class HttpAccessTest : public testing::Test {
 protected:
  static constexpr const char* kToken = "correct-horse-battery-staple";

  HttpAccessTest() {
    options_.port = 0;
    options_.token = token(kToken);
  }

  BearerToken token(const std::string& text) const {
    write_file(folder_ / "token", text);
    return BearerToken::read(folder_ / "token");
  }

  // First call starts the server: set options_ before it.
  HttpServer& server() {
    if (server_) return *server_;
    Router router;
    const auto answer = [](const Request&, Responder respond) {
      respond(json_response({{"secret", 42}}));
    };
    router.add(http::verb::get, "/open", answer, {.open = true});
    router.add(http::verb::get, "/closed", answer);
    router.add(http::verb::post, "/change", answer);
    server_ = std::make_unique<HttpServer>(options_, std::move(router));
    server_->start();
    return *server_;
  }
  RawClient::Answer ask(std::string_view bytes) { return RawClient(server().port()).ask(bytes); }
  unsigned status(std::string_view bytes) { return ask(bytes).result_int(); }

  const TemporaryFolder folder_;
  HttpServer::Options options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpAccessTest, TheTokenOpensWhatIsClosed) {
  EXPECT_EQ(status(request("GET", "/closed", with(kToken))), 200U);
  EXPECT_EQ(status(request("POST", "/change", with(kToken))), 200U);
}

TEST_F(HttpAccessTest, WithoutATokenThereIsAChallengeAndNothingElse) {
  RawClient client(server().port());
  const auto answer = client.ask(request("GET", "/closed"));
  EXPECT_EQ(answer.result_int(), 401U);
  EXPECT_EQ(answer[http::field::www_authenticate], R"(Bearer realm="pulsewheel")");
  EXPECT_EQ(answer.body().find("42"), std::string::npos);
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_EQ(server().counters().unauthorized.value(), 1U);
}

TEST_F(HttpAccessTest, AWrongTokenIsToldSoAndNotRepeated) {
  const auto answer = ask(request("GET", "/closed", with("wrong-horse-battery-staple-x")));
  EXPECT_EQ(answer.result_int(), 401U);
  EXPECT_EQ(answer[http::field::www_authenticate],
            R"(Bearer realm="pulsewheel", error="invalid_token")");
  EXPECT_EQ(answer.body().find("horse"), std::string::npos);
}

TEST_F(HttpAccessTest, TwoTokensAreOneTooMany) {
  EXPECT_EQ(status(request("GET", "/closed", with(kToken) + with(kToken))), 401U);
}

TEST_F(HttpAccessTest, WhatDoesNotExistIsHiddenToo) {
  EXPECT_EQ(status(request("GET", "/nothing")), 401U);
  EXPECT_EQ(status(request("DELETE", "/open")), 401U);
  EXPECT_EQ(status(request("GET", "/open/../closed")), 401U);
  EXPECT_EQ(status(request("GET", "/nothing", with(kToken))), 404U);
}

TEST_F(HttpAccessTest, OpenRoutesNeedNone) {
  EXPECT_EQ(status(request("GET", "/open")), 200U);
  EXPECT_EQ(status(request("GET", "/open", with("wrong-horse-battery-staple-x"))), 200U);
}

TEST_F(HttpAccessTest, ABodyIsNotEvenReadWithoutTheToken) {
  // The answer comes although the body never does.
  RawClient client(server().port());
  EXPECT_EQ(client.ask("POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
                .result_int(),
            401U);
}

TEST_F(HttpAccessTest, WhoHasTheTokenMayComeUnderAnyNameOfTheHost) {
  EXPECT_EQ(status(request("GET", "/closed", with(kToken), "pulse.example.com")), 200U);
  EXPECT_EQ(
      status(request("POST", "/change", with(kToken) + "Origin: https://pulse.example.com\r\n",
                     "pulse.example.com")),
      200U);
  EXPECT_EQ(status(request("GET", "/open", {}, "pulse.example.com")), 403U);
}

TEST_F(HttpAccessTest, AnotherTokenCountsFromTheNextRequestOn) {
  RawClient client(server().port());
  EXPECT_EQ(client.ask(request("GET", "/closed", with(kToken))).result_int(), 200U);
  server().set_token(token("another-horse-battery-staple"));
  ASSERT_TRUE(test::eventually([&] {
    return status(request("GET", "/closed", with("another-horse-battery-staple"))) == 200U;
  }));
  EXPECT_EQ(client.ask(request("GET", "/closed", with(kToken))).result_int(), 401U);
}

TEST_F(HttpAccessTest, TheUnixSocketNeedsNoTokenButTheRightMode) {
  options_.unix_socket = folder_ / "http";
  options_.unix_socket_mode = 0600;
  static_cast<void>(server());
  struct stat status {};
  ASSERT_EQ(::stat(options_.unix_socket.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  RawClient client(options_.unix_socket);
  EXPECT_EQ(client.ask(request("GET", "/closed", {}, "pulse.example.com")).result_int(), 200U);
  EXPECT_EQ(client.ask(request("POST", "/change")).result_int(), 200U);
}

TEST_F(HttpAccessTest, PagesOfOthersChangeNothingThroughTheUnixSocketEither) {
  options_.unix_socket = folder_ / "http";
  static_cast<void>(server());
  EXPECT_EQ(RawClient(options_.unix_socket)
                .ask(request("POST", "/change", "Origin: http://example.com\r\n"))
                .result_int(),
            403U);
}

TEST_F(HttpAccessTest, AUnixSocketInUseLeavesNothingOpen) {
  options_.unix_socket = folder_ / "http";
  static_cast<void>(server());
  HttpServer second(options_, Router());
  EXPECT_THROW(second.start(), std::system_error);
  EXPECT_EQ(RawClient(options_.unix_socket).ask(request("GET", "/closed")).result_int(), 200U);
  server_->stop();
  second.start();
  EXPECT_EQ(RawClient(options_.unix_socket).ask(request("GET", "/closed")).result_int(), 404U);
}

}  // namespace
}  // namespace pulsewheel

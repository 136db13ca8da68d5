#include "daemon/admin/dashboard.h"

#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/admin/http_server.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string url_of(const DashboardFile& file) {
  return file.name == "index.html" ? "/" : "/dashboard/" + std::string(file.name);
}

const DashboardFile& file(std::string_view name) {
  for (const DashboardFile& file : dashboard_files()) {
    if (file.name == name) return file;
  }
  throw std::runtime_error("no such file of the dashboard: " + std::string(name));
}

class DashboardTest : public testing::Test {
 protected:
  DashboardTest() {
    test::write_file(folder_ / "token", "a-token-of-the-test");
    HttpServer::Options options;
    options.port = 0;
    options.token = BearerToken::read(folder_ / "token");
    Router router;
    add_dashboard_routes(router);
    server_ = std::make_unique<HttpServer>(options, std::move(router));
    server_->start();
    client_ = std::make_unique<RawClient>(server_->port());
  }

  RawClient::Answer ask(std::string_view target, std::string_view fields = {}) {
    return client_->ask("GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" +
                        std::string(fields) + "\r\n");
  }

  const test::TemporaryFolder folder_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<RawClient> client_;
};

TEST_F(DashboardTest, ServesEachFileWithoutAToken) {
  for (const DashboardFile& file : dashboard_files()) {
    const RawClient::Answer answer = ask(url_of(file));
    EXPECT_EQ(answer.result_int(), 200U) << file.name;
    EXPECT_EQ(answer.body(), file.bytes);
    EXPECT_EQ(answer[http::field::content_type], file.content_type);
    EXPECT_EQ(answer["X-Content-Type-Options"], "nosniff");
  }
}

TEST_F(DashboardTest, HasNothingElseToServe) {
  for (const char* target : {"/dashboard/", "/dashboard/index.html", "/dashboard/../main.js",
                             "/dashboard/%2e%2e/main.js", "/dashboard/main.js/", "/main.js"}) {
    EXPECT_EQ(ask(target, "Authorization: Bearer a-token-of-the-test\r\n").result_int(), 404U)
        << target;
  }
}

TEST_F(DashboardTest, LetsABrowserLoadAndRunNothingButItsFiles) {
  for (const DashboardFile& file : dashboard_files()) {
    const std::string policy(ask(url_of(file))["Content-Security-Policy"]);
    for (const char* part : {"default-src 'none';", "script-src 'self';", "style-src 'self';",
                             "connect-src 'self';", "base-uri 'none';", "form-action 'none';",
                             "frame-ancestors 'none';", "require-trusted-types-for 'script'"}) {
      EXPECT_THAT(policy, HasSubstr(part)) << file.name;
    }
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  }
}

TEST_F(DashboardTest, LetsABrowserRunNothingFromOtherAnswers) {
  EXPECT_EQ(ask("/nothing")["Content-Security-Policy"],
            "default-src 'none'; frame-ancestors 'none'");
}

TEST_F(DashboardTest, IsKeptByABrowserThatAsksWhetherItIsStillTheSame) {
  const RawClient::Answer first = ask("/");
  EXPECT_EQ(first[http::field::cache_control], "no-cache");
  const std::string etag(first[http::field::etag]);
  const RawClient::Answer second = ask("/", "If-None-Match: \"0\", W/" + etag + "\r\n");
  EXPECT_EQ(second.result_int(), 304U);
  EXPECT_EQ(second[http::field::etag], etag);
  EXPECT_THAT(second.body(), IsEmpty());
  EXPECT_EQ(second.count(http::field::content_length), 0U);
  // On the same connection: nothing is left of the answer before.
  EXPECT_EQ(ask("/", "If-None-Match: \"0\"\r\n").body(), first.body());
}

TEST_F(DashboardTest, OtherBytesHaveAnotherTag) {
  EXPECT_NE(file("main.js").etag, file("edges.js").etag);
}

TEST_F(DashboardTest, NamesOnlyFilesThatItHas) {
  static const std::regex kReference(R"re((?:src|href|from)[ =]"([^"#]+)")re");
  std::size_t references = 0;
  for (const DashboardFile& file : dashboard_files()) {
    const std::string text(file.bytes);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), kReference);
         it != std::sregex_iterator(); ++it, ++references) {
      std::string target = (*it)[1];
      if (target.starts_with("./")) target = "/dashboard" + target.substr(1);
      if (target == "/metrics" || target == "/openapi.json") continue;
      EXPECT_EQ(ask(target).result_int(), 200U) << target << " in " << file.name;
    }
  }
  EXPECT_GT(references, 10U);
}

TEST_F(DashboardTest, HasNeitherCodeNorStyleInsideItsHtmlAndNeedsNothingFromOutside) {
  const std::string page(file("index.html").bytes);
  EXPECT_THAT(page, Not(ContainsRegex("<style| style=| on[a-z]+=|<script[^>]*>[^<]")));
  for (const DashboardFile& file : dashboard_files()) {
    std::string text(file.bytes);
    text = std::regex_replace(text, std::regex("\"http://www\\.w3\\.org/2000/svg\""), "");
    EXPECT_THAT(text, Not(ContainsRegex("https?://"))) << file.name;
    EXPECT_THAT(text, Not(ContainsRegex("innerHTML|insertAdjacentHTML|document\\.write|eval\\(")))
        << file.name;
  }
}

}  // namespace
}  // namespace pulsewheel

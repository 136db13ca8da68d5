#include "daemon/admin/router.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    add(http::verb::get, "/");
    add(http::verb::get, "/v1/users");
    add(http::verb::post, "/v1/users:query");
    add(http::verb::get, "/v1/users/{uid}");
    add(http::verb::post, "/v1/users/{uid}:kick");
    add(http::verb::get, "/v1/users/{uid}/sessions/{session}");
    add(http::verb::put, "/v1/users/{uid}");
  }

  void add(http::verb method, std::string pattern) {
    router_.add(method, pattern, [this, pattern](const Request& request, Responder) {
      reached_ = pattern;
      params_.clear();
      for (const PathParam& param : request.params)
        params_ += " " + param.value;
    });
  }

  // The pattern whose handler is found, and the parameters; or the status and the error's code.
  std::string route(http::verb method, std::string_view target) {
    auto match = router_.match(method, target);
    if (const auto* response = std::get_if<Response>(&match)) {
      const Json error = Json::parse(response->body).at("error");
      return std::to_string(static_cast<unsigned>(response->status)) + " " +
             error.at("code").get<std::string>();
    }
    auto& found = std::get<Router::Match>(match);
    const Request request{method, found.query, {}, std::move(found.params)};
    (*found.handler)(request, Responder([](Response) {}));
    return reached_ + params_;
  }

  Router router_;
  std::string reached_, params_;
};

TEST_F(RouterTest, FindsLiteralsParametersAndVerbs) {
  EXPECT_EQ(route(http::verb::get, "/"), "/");
  EXPECT_EQ(route(http::verb::get, "/v1/users"), "/v1/users");
  EXPECT_EQ(route(http::verb::post, "/v1/users:query"), "/v1/users:query");
  EXPECT_EQ(route(http::verb::get, "/v1/users/bob"), "/v1/users/{uid} bob");
  EXPECT_EQ(route(http::verb::post, "/v1/users/bob:kick"), "/v1/users/{uid}:kick bob");
  EXPECT_EQ(route(http::verb::get, "/v1/users/bob/sessions/7"),
            "/v1/users/{uid}/sessions/{session} bob 7");
}

TEST_F(RouterTest, DecodesParametersAfterCutting) {
  EXPECT_EQ(route(http::verb::get, "/v1/users/a%2Fb%3Ac%25"), "/v1/users/{uid} a/b:c%");
  EXPECT_EQ(route(http::verb::post, "/v1/users/a%3Akick:kick"), "/v1/users/{uid}:kick a:kick");
  EXPECT_EQ(route(http::verb::get, "/v1/users/"), "/v1/users/{uid} ");
  EXPECT_EQ(route(http::verb::get, "/v1/users/%2e%2e"), "/v1/users/{uid} ..");
}

TEST_F(RouterTest, LiteralsAreNotDecoded) {
  EXPECT_EQ(route(http::verb::get, "/v1/%75sers"), "404 not_found");
}

TEST_F(RouterTest, QueryDoesNotTouchTheRoute) {
  EXPECT_EQ(route(http::verb::get, "/v1/users/bob?x=/y:z"), "/v1/users/{uid} bob");
}

TEST_F(RouterTest, HeadFindsTheGetRoute) {
  EXPECT_EQ(route(http::verb::head, "/v1/users/bob"), "/v1/users/{uid} bob");
  EXPECT_EQ(route(http::verb::head, "/v1/users:query"), "405 method_not_allowed");
}

TEST_F(RouterTest, AnswersInsteadOfAHandler) {
  EXPECT_EQ(route(http::verb::get, "/v2/users"), "404 not_found");
  EXPECT_EQ(route(http::verb::get, "/v1/users/bob/x"), "404 not_found");
  EXPECT_EQ(route(http::verb::get, "/v1/users/bob:nap"), "404 no_such_verb");
  EXPECT_EQ(route(http::verb::get, "/v1/users/bob:"), "404 no_such_verb");
  EXPECT_EQ(route(http::verb::get, "/v2/users:nap"), "404 not_found");
  EXPECT_EQ(route(http::verb::get, "/v1/users/100%"), "400 bad_encoding");
  EXPECT_EQ(route(http::verb::get, "*"), "400 bad_target");
  EXPECT_EQ(route(http::verb::delete_, "/v1/users"), "405 method_not_allowed");
  EXPECT_EQ(route(http::verb::unknown, "/v1/users"), "405 method_not_allowed");
  EXPECT_EQ(route(http::verb::unknown, "/v2"), "404 not_found");
}

TEST_F(RouterTest, AllowListsTheMethodsOfThePath) {
  const auto match = router_.match(http::verb::delete_, "/v1/users/bob");
  const auto& response = std::get<Response>(match);
  EXPECT_THAT(response.fields,
              testing::ElementsAre(testing::Pair(http::field::allow, "GET, HEAD, PUT")));
  EXPECT_THAT(response.body, testing::HasSubstr("GET, HEAD, PUT"));
}

TEST_F(RouterTest, MatchHandsOutTheQuery) {
  const auto match = router_.match(http::verb::get, "/v1/users?state=online&cursor=7");
  EXPECT_EQ(std::get<Router::Match>(match).query, "state=online&cursor=7");
}

TEST_F(RouterTest, OnlyRoutesThatWereAddedAsOpenAreOpen) {
  router_.add(http::verb::get, "/livez", [](const Request&, Responder) {}, {.open = true});
  EXPECT_TRUE(router_.is_open(http::verb::get, "/livez"));
  EXPECT_TRUE(router_.is_open(http::verb::head, "/livez?verbose"));
  EXPECT_FALSE(router_.is_open(http::verb::post, "/livez"));
  EXPECT_FALSE(router_.is_open(http::verb::get, "/livez/"));
  EXPECT_FALSE(router_.is_open(http::verb::get, "/v1/users"));
  EXPECT_FALSE(router_.is_open(http::verb::get, "/nothing"));
  EXPECT_FALSE(router_.is_open(http::verb::get, "*"));
}

using RouterDeathTest = RouterTest;

TEST_F(RouterDeathTest, RefusesASecondHandlerForOnePattern) {
  EXPECT_DEATH(add(http::verb::get, "/v1/users"), "broken invariant");
}

TEST(RouterBodyTest, MayBeAsLargeAsTheRouteSays) {
  const auto nothing = [](const Request&, const Responder&) {};
  Router router;
  router.add(http::verb::post, "/v1/users:query", nothing, {.body_bytes_max = 1'000});
  router.add(http::verb::get, "/v1/users", nothing);
  EXPECT_EQ(router.body_bytes_max(http::verb::post, "/v1/users:query"), 1'000U);
  EXPECT_EQ(router.body_bytes_max(http::verb::get, "/v1/users:query"), 0U);
  EXPECT_EQ(router.body_bytes_max(http::verb::get, "/v1/users"), 0U);
  EXPECT_EQ(router.body_bytes_max(http::verb::post, "no target"), 0U);
  EXPECT_EQ(router.largest_body_bytes_max(), 1'000U);
}

}  // namespace
}  // namespace pulsewheel

#include "daemon/admin/http_message.h"

#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

TEST(JsonResponseTest, IsOneLineOfAscii) {
  const Response response = json_response({{"name", "caf\xc3\xa9\n"}});
  EXPECT_EQ(response.body, "{\"name\":\"caf\\u00e9\\n\"}\n");
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.status, http::status::ok);
}

TEST(JsonResponseTest, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(json_response("a\xff z").body, "\"a\\ufffd z\"\n");
}

TEST(ErrorResponseTest, CarriesCodeAndMessage) {
  const Response response = error_response(http::status::not_found, "not_found", "no \"such\"");
  EXPECT_EQ(response.status, http::status::not_found);
  EXPECT_EQ(Json::parse(response.body),
            Json({{"error", {{"code", "not_found"}, {"message", "no \"such\""}}}}));
}

class ResponderTest : public testing::Test {
 protected:
  Responder::Sink sink() {
    return [this](Response response) { answers_.push_back(std::move(response.body)); };
  }
  static Response text(std::string body) {
    Response response;
    response.body = std::move(body);
    return response;
  }
  std::vector<std::string> answers_;
};

TEST_F(ResponderTest, OnlyTheFirstAnswerOfAllCopiesCounts) {
  {
    const Responder respond(sink());
    const Responder copy = respond;
    copy(text("first"));
    respond(text("second"));
  }
  EXPECT_THAT(answers_, testing::ElementsAre("first"));
}

TEST_F(ResponderTest, TheLastCopyToGoUnansweredMakesAnError) {
  auto respond = std::make_unique<Responder>(sink());
  auto copy = std::make_unique<Responder>(*respond);
  respond.reset();
  EXPECT_THAT(answers_, testing::IsEmpty());
  copy.reset();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(Json::parse(answers_[0]).at("error").at("code"), "no_answer");
}

}  // namespace
}  // namespace pulsewheel

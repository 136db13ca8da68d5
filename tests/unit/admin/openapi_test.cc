#include "daemon/admin/openapi.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/event_routes.h"
#include "daemon/admin/routes.h"
#include "tests/unit/admin/fake_events.h"
#include "tests/unit/admin/fake_source.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

class OpenApiTest : public testing::Test {
 protected:
  OpenApiTest() {
    auto match = router_.match(http::verb::get, "/openapi.json");
    Request request;
    (*std::get<Router::Match>(match).handler)(request, Responder([this](const Response& response) {
                                                document_ = Json::parse(response.body);
                                              }));
  }

  FakeSource source_;
  static Router router_of(FakeSource& source, FakeEvents& events) {
    ApiTable table = api_routes(source);
    add_event_routes(table, events);
    return make_router(std::move(table));
  }

  FakeEvents events_;
  Router router_ = router_of(source_, events_);
  Json document_;
};

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

TEST_F(OpenApiTest, EveryPathInItIsServed) {
  ASSERT_GE(document_.at("paths").size(), 10U);
  for (const auto& [path, operations] : document_.at("paths").items()) {
    std::string target = path;
    if (const auto uid = target.find("{uid}"); uid != target.npos) target.replace(uid, 5, "bob");
    for (const auto& [method, operation] : operations.items()) {
      const auto match = router_.match(http::string_to_verb(upper_case(method)), target);
      EXPECT_TRUE(std::holds_alternative<Router::Match>(match)) << method << ' ' << path;
    }
  }
}

void collect_references(const Json& value, std::set<std::string>& out) {
  if (value.is_object() && value.contains("$ref")) out.insert(value.at("$ref"));
  if (!value.is_structured()) return;
  for (const Json& inner : value)
    collect_references(inner, out);
}

TEST_F(OpenApiTest, EveryReferenceLeadsSomewhere) {
  std::set<std::string> references;
  collect_references(document_, references);
  ASSERT_GE(references.size(), 10U);
  for (const std::string& reference : references)
    EXPECT_TRUE(document_.contains(Json::json_pointer(reference.substr(1)))) << reference;
}

TEST_F(OpenApiTest, EverySchemaIsUsed) {
  std::set<std::string> references;
  collect_references(document_, references);
  for (const auto& [name, schema] : document_.at("components").at("schemas").items())
    EXPECT_TRUE(references.contains("#/components/schemas/" + name)) << name;
}

TEST_F(OpenApiTest, EveryParameterOfAPathIsDescribed) {
  for (const auto& [path, operations] : document_.at("paths").items()) {
    for (const Json& operation : operations) {
      const Json& parameters = operation.at("parameters");
      const auto in_path = std::count_if(parameters.begin(), parameters.end(),
                                         [](const Json& p) { return p.at("in") == "path"; });
      EXPECT_EQ(in_path, std::count(path.begin(), path.end(), '{')) << path;
    }
  }
}

TEST_F(OpenApiTest, OnlyHealthNeedsNoToken) {
  std::set<std::string> open;
  for (const auto& [path, operations] : document_.at("paths").items()) {
    for (const Json& operation : operations) {
      if (operation.contains("security")) open.insert(path);
    }
  }
  EXPECT_EQ(open, (std::set<std::string>{"/livez", "/readyz"}));
}

}  // namespace
}  // namespace pulsewheel

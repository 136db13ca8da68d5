#include "daemon/admin/openapi.h"

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/base/build_info.h"
#include "daemon/base/check.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kDescription =
    "A uid is 1 to 128 bytes of any value, and so is a device label of 0 to 64. In paths, "
    "parameters "
    "and JSON both are percent-encoded: letters, digits and -._~ stand for themselves, every other "
    "byte is '%' and two uppercase hexadecimal digits; a '%' itself is %25. Requests may leave "
    "bytes "
    "as they are where URL and JSON allow them, and use digits of either case; answers never do. "
    "Times are Unix milliseconds. Session ids are strings. Errors are {\"error\": {\"code\", "
    "\"message\"}}: code is for programs and keeps its meaning, message is one sentence for "
    "people.";

Json schema_of(std::string_view name) {
  PULSEWHEEL_CHECK(api_schemas().contains(std::string(name)));
  return {{"$ref", "#/components/schemas/" + std::string(name)}};
}

Json param_json(const ApiParam& param, std::string_view where) {
  const bool is_number = param.kind == ApiParam::Kind::kNumber;
  return {{"name", param.name},
          {"in", where},
          {"required", where == "path"},
          {"description", param.what},
          {"schema", {{"type", is_number ? "integer" : "string"}}},
          {"example", is_number ? Json::parse(param.example) : Json(param.example)}};
}

/// "/v1/users/{uid}:kick" has "uid".
std::vector<std::string_view> param_names(std::string_view pattern) {
  std::vector<std::string_view> names;
  for (std::size_t open = pattern.find('{'); open != pattern.npos;
       open = pattern.find('{', open + 1)) {
    names.push_back(pattern.substr(open + 1, pattern.find('}', open) - open - 1));
  }
  return names;
}

Json answers_json(const ApiRoute& route) {
  Json content{{std::string(route.answer_type), Json::object()}};
  if (!route.answer.empty())
    content[std::string(route.answer_type)]["schema"] = schema_of(route.answer);
  Json answers;
  answers[std::to_string(static_cast<unsigned>(route.status))] = {{"description", route.summary},
                                                                  {"content", content}};
  const Json error{{"application/json", {{"schema", schema_of("Error")}}}};
  for (const http::status status : route.refusals) {
    answers[std::to_string(static_cast<unsigned>(status))] = {
        {"description", http::obsolete_reason(status)}, {"content", error}};
  }
  answers["default"] = {{"description", "Anything else that is wrong with a request"},
                        {"content", error}};
  return answers;
}

Json operation_json(const ApiRoute& route) {
  Json params = Json::array();
  for (const std::string_view name : param_names(route.pattern))
    params.push_back(param_json(path_param(name), "path"));
  for (const ApiParam& param : route.query)
    params.push_back(param_json(param, "query"));
  Json operation{{"summary", route.summary},
                 {"parameters", std::move(params)},
                 {"responses", answers_json(route)}};
  if (route.options.open) operation["security"] = Json::array();
  if (!route.body.empty()) {
    const Json& schema = api_schemas().at(std::string(route.body));
    operation["requestBody"] = {
        {"required", schema.contains("required")},
        {"content",
         {{"application/json",
           {{"schema", schema_of(route.body)}, {"example", schema.at("example")}}}}}};
  }
  return operation;
}

std::string lower_case(std::string_view method) {
  std::string out(method);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

Json openapi_document(const ApiTable& routes) {
  Json paths = Json::object();
  for (const ApiRoute& route : routes) {
    paths[std::string(route.pattern)][lower_case(http::to_string(route.method))] =
        operation_json(route);
  }
  return {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Pulsewheel"}, {"version", build_info().version}, {"description", kDescription}}},
      {"paths", std::move(paths)},
      {"components", {{"schemas", api_schemas()}}}};
}

ApiParam path_param(std::string_view name) {
  PULSEWHEEL_CHECK(name == "uid");
  return {"uid", "The user, percent-encoded", "alice%20%2F%00", ApiParam::Kind::kText};
}

}  // namespace pulsewheel

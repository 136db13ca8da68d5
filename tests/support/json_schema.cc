#include "tests/support/json_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

namespace pulsewheel::test {
namespace {

using Json = nlohmann::json;

class Checker {
 public:
  explicit Checker(const Json& document) : document_(document) {}

  [[nodiscard]] std::string check(const Json& value, const Json& schema, const std::string& path) {
    for (const auto& [keyword, rule] : schema.items()) {
      std::string wrong = apply(keyword, rule, value, path);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

 private:
  std::string apply(const std::string& keyword, const Json& rule, const Json& value,
                    const std::string& path) {
    if (keyword == "$ref") {
      const auto target = rule.get<std::string>().substr(1);
      return check(value, document_.at(Json::json_pointer(target)), path);
    }
    if (keyword == "allOf") {
      for (const Json& part : rule) {
        if (std::string wrong = check(value, part, path); !wrong.empty()) return wrong;
      }
      return {};
    }
    if (keyword == "type") return is_of(value, rule) ? "" : path + ": is no " + rule.dump();
    if (keyword == "enum") {
      const bool listed = std::find(rule.begin(), rule.end(), value) != rule.end();
      return listed ? "" : path + ": " + value.dump() + " is not among " + rule.dump();
    }
    if (keyword == "pattern") {
      const bool matches =
          std::regex_match(value.get<std::string>(), std::regex(std::string(rule)));
      return matches ? "" : path + ": does not match " + rule.dump();
    }
    if (keyword == "required") return check_required(value, rule, path);
    if (keyword == "properties") return check_properties(value, rule, path);
    if (keyword == "items") return check_items(value, rule, path);
    if (keyword == "maxItems") return value.size() <= rule ? "" : path + ": too long";
    const bool says_nothing = keyword == "description" || keyword == "example";
    return says_nothing ? "" : path + ": unknown keyword " + keyword;
  }

  static bool is_of(const Json& value, const Json& type) {
    if (type.is_array()) {
      return std::any_of(type.begin(), type.end(), [&](const Json& t) { return is_of(value, t); });
    }
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "boolean") return value.is_boolean();
    return type == "null" && value.is_null();
  }

  static std::string check_required(const Json& value, const Json& names, const std::string& path) {
    if (!value.is_object()) return {};
    for (const Json& name : names) {
      if (!value.contains(name.get<std::string>())) return path + ": has no " + name.dump();
    }
    return {};
  }

  std::string check_properties(const Json& value, const Json& properties, const std::string& path) {
    if (!value.is_object()) return {};
    for (const auto& [name, schema] : properties.items()) {
      if (!value.contains(name)) continue;
      std::string wrong = check(value.at(name), schema, path + "." + name);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  std::string check_items(const Json& value, const Json& schema, const std::string& path) {
    if (!value.is_array()) return {};
    for (std::size_t i = 0; i < value.size(); ++i) {
      std::string wrong = check(value[i], schema, path + "[" + std::to_string(i) + "]");
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  const Json& document_;
};

}  // namespace

std::string schema_violation(const Json& value, const Json& schema, const Json& document) {
  return Checker(document).check(value, schema, "answer");
}

}  // namespace pulsewheel::test

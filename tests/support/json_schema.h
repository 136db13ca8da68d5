// Checks JSON against the part of JSON Schema that the OpenAPI document uses.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace pulsewheel::test {

/// What is wrong with `value`, as "path: what", or an empty string. `document` is where "$ref"s
/// lead. A keyword that is not known here counts as wrong: it must not go unchecked.
[[nodiscard]] std::string schema_violation(const nlohmann::json& value,
                                           const nlohmann::json& schema,
                                           const nlohmann::json& document);

}  // namespace pulsewheel::test

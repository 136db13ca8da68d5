// QueryString: the parameters behind the '?' of a request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/admin/http_message.h"

namespace pulsewheel {

class QueryString {
 public:
  /// Cuts "name=value&name=value" and percent-decodes the values ('+' stands for itself). A 400 for
  /// a parameter that is not among `names`, is there twice or is not well encoded: a misspelt one
  /// must not go unnoticed. O(length).
  [[nodiscard]] static std::variant<QueryString, Response> parse(
      std::string_view query, std::span<const std::string_view> names);

  /// Nullopt when it is not there; "name" and "name=" are empty.
  [[nodiscard]] std::optional<std::string_view> text(std::string_view name) const;

  /// The value as a whole number from `min` to `max`, `otherwise` when it is not there, or a 400.
  [[nodiscard]] std::variant<std::uint64_t, Response> number(std::string_view name,
                                                             std::uint64_t otherwise,
                                                             std::uint64_t min,
                                                             std::uint64_t max) const;

 private:
  std::vector<std::pair<std::string_view, std::string>> values_;
};

}  // namespace pulsewheel

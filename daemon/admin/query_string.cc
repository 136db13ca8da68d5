#include "daemon/admin/query_string.h"

#include <algorithm>
#include <charconv>

#include "daemon/base/percent.h"

namespace pulsewheel {
namespace {

Response bad_parameter(std::string_view message) {
  return error_response(http::status::bad_request, "bad_parameter", message);
}

std::string joined(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out.empty() ? "none" : out;
}

}  // namespace

std::variant<QueryString, Response> QueryString::parse(std::string_view query,
                                                       std::span<const std::string_view> names) {
  QueryString out;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) {
      return bad_parameter("this resource has no parameter " + in_quotes(name) +
                           "; it knows: " + joined(names));
    }
    if (out.text(*known)) return bad_parameter(std::string(*known) + " is there twice");
    auto value = percent_decode(pair.substr(std::min(equals + 1, pair.size())));
    if (!value) return bad_parameter(std::string(*known) + " is not percent-encoded");
    out.values_.emplace_back(*known, std::move(*value));
  }
  return out;
}

std::optional<std::string_view> QueryString::text(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::variant<std::uint64_t, Response> QueryString::number(std::string_view name,
                                                          std::uint64_t otherwise,
                                                          std::uint64_t min,
                                                          std::uint64_t max) const {
  const std::optional<std::string_view> value = text(name);
  if (!value) return otherwise;
  std::uint64_t number = 0;
  const char* const end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error == std::errc() && stop == end && number >= min && number <= max) return number;
  return bad_parameter(std::string(name) + " must be a whole number from " + std::to_string(min) +
                       " to " + std::to_string(max));
}

}  // namespace pulsewheel

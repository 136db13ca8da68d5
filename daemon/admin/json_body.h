// JsonBody: the body of a request, read against the few forms that this API knows.
#pragma once

#include <cstddef>
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

/// A member that a body may have: a whole number, or a list of strings.
struct JsonMember {
  enum class Kind : std::uint8_t { kNumber, kTexts };

  std::string_view name;
  Kind kind = Kind::kNumber;
  std::uint64_t max = 0;  // of the number, or of the list's length
  std::uint64_t min = 0;  // of the number
  bool required = false;
};

/// A flat object of numbers and lists of strings; that is all a request ever needs, so whatever
/// else JSON can be (nested, doubled, endless) is refused while it is read, before it takes memory.
class JsonBody {
 public:
  /// The body, or the 400 that says what is wrong with it, where, and what is allowed. An empty
  /// `text` is an object without members. O(length).
  [[nodiscard]] static std::variant<JsonBody, Response> parse(std::string_view text,
                                                              std::span<const JsonMember> members);

  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view name) const;
  /// Takes the list out; empty when there is none.
  [[nodiscard]] std::vector<std::string> take_texts(std::string_view name);

 private:
  class Reader;

  std::vector<std::pair<std::string_view, std::uint64_t>> numbers_;
  std::vector<std::pair<std::string_view, std::vector<std::string>>> texts_;
};

}  // namespace pulsewheel

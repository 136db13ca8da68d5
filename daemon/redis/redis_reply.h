// RedisReply: one answer of a Redis server, as a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulsewheel {

/// What RESP2 can say. Text may hold any byte.
struct RedisReply {
  enum class Type : std::uint8_t { kNil, kString, kStatus, kError, kInteger, kArray };

  Type type = Type::kNil;
  std::int64_t integer = 0;
  std::string text;  // of a string, a status ("OK") or an error ("LOADING Redis is loading ...")
  std::vector<RedisReply> elements;

  [[nodiscard]] bool is_nil() const noexcept { return type == Type::kNil; }
  [[nodiscard]] bool is_string() const noexcept { return type == Type::kString; }
  [[nodiscard]] bool is_error() const noexcept { return type == Type::kError; }
  [[nodiscard]] bool is_integer() const noexcept { return type == Type::kInteger; }
  [[nodiscard]] bool is_array() const noexcept { return type == Type::kArray; }
  [[nodiscard]] bool is_status(std::string_view wanted) const noexcept {
    return type == Type::kStatus && text == wanted;
  }

  friend bool operator==(const RedisReply&, const RedisReply&) = default;
};

}  // namespace pulsewheel

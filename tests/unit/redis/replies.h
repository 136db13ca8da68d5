// Replies, as a Redis would give them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/redis/redis_reply.h"

namespace pulsewheel {

/// kString, kStatus or kError.
inline RedisReply text_reply(RedisReply::Type type, std::string text) {
  return {.type = type, .integer = 0, .text = std::move(text), .elements = {}};
}
inline RedisReply integer_reply(std::int64_t value) {
  return {.type = RedisReply::Type::kInteger, .integer = value, .text = {}, .elements = {}};
}
inline RedisReply array_reply(std::vector<RedisReply> elements) {
  return {
      .type = RedisReply::Type::kArray, .integer = 0, .text = {}, .elements = std::move(elements)};
}

}  // namespace pulsewheel

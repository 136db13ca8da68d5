// How a command is written for Redis.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace pulsewheel {

/// Words of a command, each of any bytes. Views: they need to live for the call only.
using RedisArgs = std::span<const std::string_view>;

/// Appends the command to `out`, with lengths, so that any byte may be in it. Requires at least one
/// word. Throws std::bad_alloc; then `out` is unchanged. O(bytes).
void append_command(std::string& out, RedisArgs args);

/// The most bytes that append_command() writes.
[[nodiscard]] std::size_t command_bytes_max(RedisArgs args) noexcept;

}  // namespace pulsewheel

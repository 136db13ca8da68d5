// read_secret_file(): a secret from a file of its own, such as a password or a token.
#pragma once

#include <cstddef>
#include <string>

namespace pulsewheel {

/// The content of `path` without a line end behind it. Throws std::runtime_error with one sentence
/// that names the path, never the content: the file is missing, unreadable, empty, longer than
/// `bytes_max`, or no regular file. Blocks for as long as reading a file does, so never on a FIFO.
[[nodiscard]] std::string read_secret_file(const std::string& path, std::size_t bytes_max);

}  // namespace pulsewheel

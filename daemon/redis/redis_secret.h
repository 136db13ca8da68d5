// RedisSecret: where the password for Redis comes from.
#pragma once

#include <cstddef>
#include <string>

namespace pulsewheel {

/// At most one of the three sources is set; none means that no password is sent.
struct RedisSecret {
  static constexpr std::size_t kPasswordBytesMax = 4096;

  std::string user;           // empty: the server's default user
  std::string password;       // itself, as from a URL
  std::string password_file;  // the path of a file that holds it and perhaps a line end
  std::string password_env;   // the name of an environment variable that holds it

  [[nodiscard]] bool is_set() const noexcept {
    return !password.empty() || !password_file.empty() || !password_env.empty();
  }

  /// Reads the password from its source, each time anew: a secret that was changed is found.
  /// Requires is_set(). Throws std::runtime_error with one sentence that names the source, never
  /// the content: the source is missing, unreadable, empty, too long, or no regular file. Blocks
  /// for as long as reading a file does.
  [[nodiscard]] std::string read_password() const;
};

}  // namespace pulsewheel

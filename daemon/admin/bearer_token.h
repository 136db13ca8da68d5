// BearerToken: the secret that a request of the HTTP port has to carry.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pulsewheel {

/// Whether the two are equal, in a time that depends on the length of `given` alone: how much of it
/// is right must not show. Whatever has size() and gives characters by [] will do; requires a
/// `secret` that is not empty.
template <class Given>
[[nodiscard]] bool equal_in_constant_time(std::string_view secret, const Given& given) {
  // Volatile: a compiler that knows that only zero or not matters might stop at the first
  // difference.
  volatile unsigned char difference = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char wanted = secret[i % secret.size()];
    difference = static_cast<unsigned char>(difference | (wanted ^ given[i]));
  }
  return difference == 0;
}

/// One token, or none: then every request is admitted. A plain value; never shown anywhere.
class BearerToken {
 public:
  static constexpr std::size_t kBytesMin = 16;  // fewer can be guessed
  static constexpr std::size_t kBytesMax = 1024;

  BearerToken() = default;  // none

  /// The token in a file, which holds nothing else but perhaps a line end. Throws
  /// std::runtime_error that names the path, never the content: unreadable, too short, too long,
  /// or a character that no token has (RFC 6750: letters, digits and -._~+/, then perhaps '=').
  [[nodiscard]] static BearerToken read(const std::string& path);

  /// Not in constant time: for two tokens of our own.
  [[nodiscard]] bool operator==(const BearerToken&) const = default;

  [[nodiscard]] bool is_set() const noexcept { return !token_.empty(); }
  /// Whether `authorization`, the value of an Authorization field, is "Bearer" and this token.
  /// Requires is_set().
  [[nodiscard]] bool admits(std::string_view authorization) const noexcept;

 private:
  std::string token_;
};

}  // namespace pulsewheel

#include "daemon/redis/redis_script.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace pulsewheel {

RedisScript::RedisScript(std::string_view source) : source_(source) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(source.data(), source.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL gives no SHA-1, which names the scripts in Redis");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (unsigned i = 0; i < size; ++i) {
    sha1_ += kDigits[digest[i] >> 4];
    sha1_ += kDigits[digest[i] & 0xf];
  }
}

}  // namespace pulsewheel

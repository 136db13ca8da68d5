#include "daemon/redis/redis_secret.h"

#include <cstdlib>
#include <stdexcept>

#include "daemon/base/secret_file.h"

namespace pulsewheel {
namespace {

std::string checked(std::string password, const std::string& source) {
  if (password.empty()) throw std::runtime_error(source + " is empty");
  if (password.size() > RedisSecret::kPasswordBytesMax) {
    throw std::runtime_error(source + " has more than " +
                             std::to_string(RedisSecret::kPasswordBytesMax) + " bytes");
  }
  return password;
}

}  // namespace

std::string RedisSecret::read_password() const {
  if (!password_file.empty()) return read_secret_file(password_file, kPasswordBytesMax);
  if (!password_env.empty()) {
    const char* const value = std::getenv(password_env.c_str());
    if (value == nullptr) throw std::runtime_error("no variable " + password_env + " is set");
    return checked(value, "the variable " + password_env);
  }
  return checked(password, "the password");
}

}  // namespace pulsewheel

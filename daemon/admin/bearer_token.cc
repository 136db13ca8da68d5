#include "daemon/admin/bearer_token.h"

#include <algorithm>
#include <stdexcept>

#include <boost/beast/core/string.hpp>

#include "daemon/base/secret_file.h"

namespace pulsewheel {

namespace {

constexpr std::string_view kScheme = "Bearer ";
constexpr std::string_view kTokenCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

bool is_well_formed(std::string_view token) {
  const auto padding = token.find_first_not_of(kTokenCharacters);
  return padding != 0 &&
         (padding == token.npos || token.find_first_not_of('=', padding) == token.npos);
}

}  // namespace

BearerToken BearerToken::read(const std::string& path) {
  BearerToken token;
  token.token_ = read_secret_file(path, kBytesMax);
  if (token.token_.size() < kBytesMin) {
    throw std::runtime_error("'" + path + "' has fewer than " + std::to_string(kBytesMin) +
                             " bytes: too easy to guess");
  }
  if (!is_well_formed(token.token_)) {
    throw std::runtime_error("'" + path +
                             "' holds something else than one token of letters, digits and "
                             "-._~+/, with '=' at its end at most");
  }
  return token;
}

bool BearerToken::admits(std::string_view authorization) const noexcept {
  if (!boost::beast::iequals(authorization.substr(0, kScheme.size()), kScheme)) return false;
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return equal_in_constant_time(token_, authorization);
}

}  // namespace pulsewheel

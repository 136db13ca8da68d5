#include "tests/client_sim/uid_names.h"

#include <algorithm>
#include <charconv>

namespace pulsewheel::sim {

UidNames::UidNames(std::uint64_t run) noexcept {
  constexpr std::string_view kHex = "0123456789abcdef";
  prefix_.front() = 's';
  prefix_.back() = '-';
  for (std::size_t i = kPrefixSize - 2; i > 0; --i, run >>= 4)
    prefix_[i] = kHex[run & 15];
}

std::string_view UidNames::write(std::uint32_t user, Buffer& out) const noexcept {
  std::copy(prefix_.begin(), prefix_.end(), out.begin());
  for (std::size_t i = kSize - 1; i >= kPrefixSize; --i, user /= 10) {
    out[i] = static_cast<char>('0' + user % 10);
  }
  return {out.data(), out.size()};
}

std::optional<std::uint32_t> UidNames::number(std::string_view uid) const noexcept {
  if (uid.size() != kSize || !std::equal(prefix_.begin(), prefix_.end(), uid.begin())) {
    return std::nullopt;
  }
  const char* end = uid.data() + uid.size();
  std::uint32_t user = 0;
  const auto parsed = std::from_chars(uid.data() + kPrefixSize, end, user);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return user;
}

}  // namespace pulsewheel::sim

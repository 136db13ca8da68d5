#include "daemon/base/rfc3339.h"

#include <algorithm>
#include <cstdint>

namespace pulsewheel {
namespace {

/// `value` in exactly `digits` decimal digits.
char* put_digits(char* out, unsigned value, int digits) noexcept {
  for (int i = digits - 1; i >= 0; --i) {
    out[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  return out + digits;
}

}  // namespace

char* Rfc3339Writer::write(WallTime time, char* out) noexcept {
  // By hand: std::chrono::floor to seconds overflows on its way back near WallTime::min().
  constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
  const std::int64_t total = std::chrono::nanoseconds{time.time_since_epoch()}.count();
  const std::int64_t nanos = ((total % kNanosPerSecond) + kNanosPerSecond) % kNanosPerSecond;
  const std::chrono::seconds seconds{total / kNanosPerSecond -
                                     (total % kNanosPerSecond < 0 ? 1 : 0)};
  if (const std::chrono::sys_seconds second{seconds}; second != second_) render_second(second);
  out = std::copy(text_.begin(), text_.end(), out);
  *out++ = '.';
  out = put_digits(out, static_cast<unsigned>(nanos / 1'000), 6);
  *out++ = 'Z';
  return out;
}

void Rfc3339Writer::render_second(std::chrono::sys_seconds second) noexcept {
  const auto day = std::chrono::floor<std::chrono::days>(second);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{second - day};
  char* out = text_.data();
  out = put_digits(out, static_cast<unsigned>(static_cast<int>(date.year())), 4);
  *out++ = '-';
  out = put_digits(out, static_cast<unsigned>(date.month()), 2);
  *out++ = '-';
  out = put_digits(out, static_cast<unsigned>(date.day()), 2);
  *out++ = 'T';
  out = put_digits(out, static_cast<unsigned>(clock.hours().count()), 2);
  *out++ = ':';
  out = put_digits(out, static_cast<unsigned>(clock.minutes().count()), 2);
  *out++ = ':';
  put_digits(out, static_cast<unsigned>(clock.seconds().count()), 2);
  second_ = second;
}

std::string to_rfc3339(WallTime time) {
  std::string out(Rfc3339Writer::kSize, '\0');
  Rfc3339Writer().write(time, out.data());
  return out;
}

}  // namespace pulsewheel

#include "daemon/events/snapshot_clock.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "daemon/events/state_file.h"

namespace pulsewheel {
namespace {

constexpr char kBootIdFile[] = "/proc/sys/kernel/random/boot_id";
constexpr std::size_t kBootIdText = 36;  // 32 hexadecimal digits and 4 dashes

// To read two clocks at one moment.
constexpr int kAttempts = 4;
constexpr Duration kTightEnough = std::chrono::microseconds{1};

/// All zeros for what is no id.
BootId parse_boot_id(std::string_view text) {
  std::string digits;
  for (const char c : text.substr(0, kBootIdText)) {
    if (c != '-') digits += c;
  }
  BootId id{};
  if (digits.size() != 2 * id.size()) return {};
  for (std::size_t i = 0; i < id.size(); ++i) {
    std::uint8_t byte = 0;
    const char* const end = digits.data() + 2 * i + 2;
    const auto [rest, error] = std::from_chars(digits.data() + 2 * i, end, byte, 16);
    if (error != std::errc{} || rest != end) return {};
    id[i] = std::byte{byte};
  }
  return id;
}

BootId read_boot_id() {
  try {
    return parse_boot_id(read_state_file(kBootIdFile, kBootIdText).value_or(""));
  } catch (const StateError&) {
    return {};
  }
}

Duration boot_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace

ClockSample ClockSample::take() {
  ClockSample sample;
  sample.boot_id = read_boot_id();
  // As WallClockMapping does: a thread that loses its CPU in between makes nobody's time longer.
  Duration tightest = Duration::max();
  for (int attempt = 0; attempt < kAttempts && tightest > kTightEnough; ++attempt) {
    const MonoTime before = MonoClock::now();
    const Duration boot = boot_time();
    const Duration width = MonoClock::now() - before;
    if (width >= tightest) continue;
    tightest = width;
    sample.boot = boot;
    sample.mono = before + width / 2;
  }
  sample.wall = WallClockMapping().to_wall(sample.mono);
  return sample;
}

Duration time_between(const ClockSample& earlier, const ClockSample& now) noexcept {
  const bool known = earlier.boot_id != BootId{} && now.boot_id != BootId{};
  // Backwards only where a container has a clock of its own: another boot for us.
  const bool same_boot = known && earlier.boot_id == now.boot_id && now.boot >= earlier.boot;
  if (same_boot) return std::min(now.boot - earlier.boot, kAwayMax);
  const Duration least = known ? std::clamp(now.boot, Duration{0}, kAwayMax) : Duration{0};
  return std::clamp<Duration>(now.wall - earlier.wall, least, kAwayMax);
}

}  // namespace pulsewheel

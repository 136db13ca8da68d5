#include "tests/client_sim/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRedrawInterval = 200ms;
constexpr Duration kPlainInterval = 5s;
constexpr std::size_t kBarWidth = 20;

std::string bar(double share) {
  const auto filled =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBarWidth));
  return "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '-') + "] ";
}

double rate(std::uint64_t now, std::uint64_t before, double seconds) {
  return seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
}

}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1), shown_at_(MonoClock::now()) {}

Progress::~Progress() {
  if (line_open_) std::fputc('\n', stderr);
}

void Progress::show(const std::string& what, double share, const ProgressFigures& figures,
                    MonoTime now) {
  const Duration since = now - shown_at_;
  if (since < (terminal_ ? kRedrawInterval : kPlainInterval)) return;
  draw(what, share, figures, std::chrono::duration<double>(since).count());
  shown_ = figures;
  shown_at_ = now;
}

void Progress::draw(const std::string& what, double share, const ProgressFigures& figures,
                    double seconds) {
  char text[256];
  std::snprintf(
      text, sizeof(text),
      "%-7s %3.0f %%  connected %lld  logins %.0f/s  keepalives %.0f/s  online %lld  "
      "offline edges %lld  violations %lld",
      what.c_str(), std::clamp(share, 0.0, 1.0) * 100, static_cast<long long>(figures.connected),
      rate(figures.logins, shown_.logins, seconds),
      rate(figures.keepalives, shown_.keepalives, seconds), static_cast<long long>(figures.online),
      static_cast<long long>(figures.offline_edges), static_cast<long long>(figures.violations));
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s%s", bar(share).c_str(), text);
    line_open_ = true;
  } else {
    std::fprintf(stderr, "%s\n", text);
  }
  std::fflush(stderr);
}

void Progress::say(const std::string& line) {
  std::fprintf(stderr, "%s%s\n", line_open_ ? "\r\033[K" : "", line.c_str());
  line_open_ = false;
}

}  // namespace pulsewheel::sim

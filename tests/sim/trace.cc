#include "tests/sim/trace.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/event_queue.h"

namespace pulsewheel::nodesim {
namespace {

constexpr std::size_t kLinesMax = 60;

}  // namespace

std::string to_text(MonoTime at) {
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  if (at == MonoTime::min()) return "never";
  if (at == MonoTime::max()) return "in no time";
  const std::int64_t ns = (at - EventQueue::kStart).count();
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%09lld s",
                static_cast<long long>(ns / kNanosecondsPerSecond),
                static_cast<long long>(std::abs(ns % kNanosecondsPerSecond)));
  return text.data();
}

std::string Trace::about(std::uint32_t user) const {
  std::string lines;
  std::size_t count = 0;
  const std::size_t begin = next_ > ring_.size() ? next_ - ring_.size() : 0;
  std::size_t first = next_;
  while (first > begin && count < kLinesMax) {
    const Fact& fact = ring_[--first % ring_.size()];
    if (fact.user == user || fact.user == kNobody) ++count;
  }
  for (std::size_t i = first; i < next_; ++i) {
    const Fact& fact = ring_[i % ring_.size()];
    if (fact.user != user && fact.user != kNobody) continue;
    lines += "  " + to_text(fact.at) + "  " + fact.what;
    if (fact.connection != kNobody) lines += ", connection " + std::to_string(fact.connection);
    if (fact.value != 0) lines += ", " + std::to_string(fact.value);
    lines += '\n';
  }
  return lines;
}

}  // namespace pulsewheel::nodesim

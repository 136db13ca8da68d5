#include "tests/sim/trace.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/event_queue.h"

namespace pulsewheel::nodesim {
namespace {

constexpr std::size_t kLinesMax = 40;  // of each kind

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
  // Backwards, as the newest count most; what concerns all users must not crowd out this one.
  std::vector<const Fact*> told;
  std::size_t left_of_user = kLinesMax;
  std::size_t left_of_node = kLinesMax;
  const std::size_t begin = next_ > ring_.size() ? next_ - ring_.size() : 0;
  for (std::size_t i = next_; i > begin && left_of_user > 0; --i) {
    const Fact& fact = ring_[(i - 1) % ring_.size()];
    if (fact.user != user && fact.user != kNobody) continue;
    std::size_t& left = fact.user == kNobody ? left_of_node : left_of_user;
    if (left == 0) continue;
    --left;
    told.push_back(&fact);
  }

  std::string lines;
  for (auto fact = told.rbegin(); fact != told.rend(); ++fact) {
    lines += "  " + to_text((*fact)->at) + "  " + (*fact)->what;
    if ((*fact)->connection != kNobody) {
      lines += ", connection " + std::to_string((*fact)->connection);
    }
    if ((*fact)->value != 0) lines += ", " + std::to_string((*fact)->value);
    lines += '\n';
  }
  return lines;
}

}  // namespace pulsewheel::nodesim

// The last facts of a simulation, so that a violation can be told with what led to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel::nodesim {

/// A ring that overwrites the oldest. Noting is a few stores.
class Trace {
 public:
  static constexpr std::uint32_t kNobody = 0xffff'ffff;

  /// `what` is a literal; `value` is whatever helps to understand it.
  void note(MonoTime at, const char* what, std::uint32_t user, std::uint32_t connection,
            std::int64_t value = 0) noexcept {
    ring_[next_++ % ring_.size()] = {at, what, user, connection, value};
  }
  /// The newest facts about `user` and about the node as a whole, oldest first, one line each.
  [[nodiscard]] std::string about(std::uint32_t user) const;

 private:
  struct Fact {
    MonoTime at{};
    const char* what = nullptr;
    std::uint32_t user = kNobody;
    std::uint32_t connection = kNobody;
    std::int64_t value = 0;
  };

  static constexpr std::size_t kFactsMax = 262'144;

  std::vector<Fact> ring_ = std::vector<Fact>(kFactsMax);
  std::size_t next_ = 0;
};

/// Since the start of the simulation, for people: "123.000456789 s".
[[nodiscard]] std::string to_text(MonoTime at);

}  // namespace pulsewheel::nodesim
